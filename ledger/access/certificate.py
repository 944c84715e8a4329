"""The proof of a user by a client certificate: what the client signs, and the signature.

Only clients with a certificate need the library `cryptography`.
"""

from __future__ import annotations

import struct

from ledger.errors import InvalidArgumentError


def certificate_content(cluster: str, client_nonce: bytes, node_nonce: bytes) -> bytes:
    """Return what the client signs. Every part has its length before it."""
    parts = (b"ledgermq user proof 1", cluster.encode(), client_nonce, node_nonce)
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)


def sign(key_pem: bytes, content: bytes) -> bytes:
    """Sign with a private key in PEM: ECDSA or RSA-PSS with SHA-256, or Ed25519. Raises InvalidArgumentError."""
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(
            "A client certificate needs the package cryptography: pip install 'ledgermq[certificates]'."
        ) from error
    try:
        key = serialization.load_pem_private_key(key_pem, None)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError("`client_key` is no private key in PEM without a password.") from error
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(content, ec.ECDSA(hashes.SHA256()))
    if isinstance(key, rsa.RSAPrivateKey):
        pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH)
        return key.sign(content, pss, hashes.SHA256())
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(content)
    raise InvalidArgumentError("`client_key` is of a kind that cannot sign here: use ECDSA, RSA or Ed25519.")
