"""Proves a node by its certificate: a signature with the certificate's key, over what both sides chose at random.

The caller has checked with TLS that it speaks with the right node. Python's gRPC can either demand a certificate of
every caller of a port, or ask for none. So callers send their certificate in the proof (raft/transport/node_proof.py),
and one port serves nodes, users with certificates, and users with passwords. The library `cryptography` judges the
chain of certificates and makes the signatures.

Anybody can send certificates. The library looks for a path through all of them, and a hostile chain, with keys that the
sender chose to be slow, costs it seconds. Therefore the signatures are checked first from the authority downwards: the
first certificate that the authority did not sign ends the proof, and no key of a stranger is ever used.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from cluster.node.security.certificates import CertificateWatch, node_uri
from ledger.access.certificate import sign
from raft.transport.node_proof import Proof

MAX_CHAIN_BYTES = 32 << 10
MAX_CERTIFICATES = 8
# What checking and reading a certificate can raise.
FLAWS = (
    ValueError,
    TypeError,
    VerificationError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
_PSS = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH)


class CertificateCredentials:
    """Implements `raft.transport.node_proof.Credentials`."""

    def __init__(self, cluster: str, watch: CertificateWatch) -> None:
        self._cluster = cluster
        self._watch = watch

    def receiver_macs(self, content: bytes) -> list[bytes]:
        return []  # TLS proves the receiver

    def accepts_receiver(self, content: bytes, macs: list[bytes]) -> bool:
        return True

    def caller_proof(self, content: bytes) -> Proof:
        now = self._watch.current
        return Proof(certificates=now.certificate, signature=sign(now.key, content))

    def flaw_of_caller(self, content: bytes, proof: Proof, sender: int) -> str:
        uris = proven_uris(self._watch.current.ca, proof.certificates, proof.signature, content)
        if uris is None:
            return "the caller has no valid certificate of this cluster: issue one with `ledgermq certs issue`"
        if node_uri(self._cluster, sender) not in uris:
            return f"the caller's certificate is not the one of node {sender} of cluster {self._cluster!r}"
        return ""


def proven_uris(ca_pem: bytes, chain_pem: bytes, signature: bytes, content: bytes) -> list[str] | None:
    """Return the URIs of a certificate, if an authority has signed it, if it is valid now, and if the signature over
    `content` is by its key. Otherwise return None.

    The chain begins with the certificate itself; each further certificate is the one that signed the certificate before
    it."""
    if len(chain_pem) > MAX_CHAIN_BYTES:
        return None
    try:
        authorities = x509.load_pem_x509_certificates(ca_pem)
        chain = signed_chain(x509.load_pem_x509_certificates(chain_pem), authorities)
        check_as_caller(chain, authorities)
        _check_signature(chain[0].public_key(), signature, content)
        return uris_of(chain[0])
    except FLAWS:
        return None


def check_as_caller(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> None:
    """Raise one of FLAWS if the first certificate of a signed chain does not prove a caller at this moment."""
    policy = PolicyBuilder().store(Store(list(authorities))).time(datetime.now(UTC))
    policy.build_client_verifier().verify(chain[0], list(chain[1:]))


def check_as_receiver(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate], name: str) -> None:
    """Raise one of FLAWS if the first certificate of a signed chain does not prove a receiver with this DNS name at
    this moment."""
    policy = PolicyBuilder().store(Store(list(authorities))).time(datetime.now(UTC))
    policy.build_server_verifier(x509.DNSName(name)).verify(chain[0], list(chain[1:]))


def uris_of(certificate: x509.Certificate) -> list[str]:
    """Return the URIs among the names of a certificate. Raises one of FLAWS if the certificate has no names."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def signed_chain(
    chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]
) -> Sequence[x509.Certificate]:
    """Return the chain up to the first certificate that an authority has signed. Raise InvalidSignature if there is no
    such certificate, or if a certificate is not signed by the next one."""
    signed = (at for at, each in enumerate(chain) if any(_is_issued_by(each, authority) for authority in authorities))
    if len(chain) > MAX_CERTIFICATES or (last := next(signed, None)) is None:
        raise InvalidSignature
    for issuer, issued in pairwise(reversed(chain[: last + 1])):
        issued.verify_directly_issued_by(issuer)
    return chain[: last + 1]


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        if certificate.issuer != authority.subject:
            return False
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _check_signature(key: Any, signature: bytes, content: bytes) -> None:
    """Raise InvalidSignature if the signature is not by the key."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        key.verify(signature, content, ec.ECDSA(hashes.SHA256()))
    elif isinstance(key, rsa.RSAPublicKey):
        key.verify(signature, content, _PSS, hashes.SHA256())
    elif isinstance(key, ed25519.Ed25519PublicKey):
        key.verify(signature, content)
    else:
        raise InvalidSignature
