"""Makes the authority of a cluster, and certificates of nodes, name servers and users that it signs.

`ledgermq certs` uses this module, and so does a secured local cluster. Another authority, for example the one of a
company, works as well if its certificates have the names that cluster/node/security/certificates.py lists.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cluster.node.security.certificates import node_dns_name, node_uri, user_uri
from raft.transport.node_proof import NAME_SERVER

AUTHORITY_DAYS = 3650
DAYS = 397
# Clocks of machines differ.
_EARLIER = timedelta(minutes=10)
_PRIVATE = 0o600


class AuthorityError(Exception):
    """A certificate cannot be made or written. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair()"  # the key is a secret


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs the certificates of one cluster."""

    cluster: str
    pair: KeyPair

    def node(self, node: int, hosts: Iterable[str], days: int = DAYS) -> KeyPair:
        """Return a certificate of a node. `hosts` are the host names and IP addresses at which clients reach it."""
        own = [x509.DNSName(node_dns_name(self.cluster, node)), _uri(node_uri(self.cluster, node))]
        return self._issue(f"node {node} of {self.cluster}", [*own, *map(_host, hosts)], days)

    def name_server(self, hosts: Iterable[str], days: int = DAYS) -> KeyPair:
        """Return a certificate of a name server. It does not prove a node."""
        names = [x509.DNSName(node_dns_name(self.cluster, NAME_SERVER)), *map(_host, hosts)]
        return self._issue(f"name server of {self.cluster}", names, days)

    def user(self, user: str, days: int = DAYS) -> KeyPair:
        """Return a certificate by which a client proves its user."""
        return self._issue(f"user {user}", [_uri(user_uri(self.cluster, user))], days)

    def _issue(self, subject: str, names: Iterable[x509.GeneralName], days: int) -> KeyPair:
        own = x509.load_pem_x509_certificate(self.pair.certificate)
        signer = serialization.load_pem_private_key(self.pair.key, None)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, own.subject, key.public_key(), days)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        if not isinstance(signer, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise AuthorityError("the key of the authority is neither ECDSA nor RSA: `ledgermq certs init` makes one")
        builder = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        )
        certificate = builder.sign(signer, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def new_authority(cluster: str, days: int = AUTHORITY_DAYS) -> Authority:
    """Return a new authority, which signs its own certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"authority of {cluster}")
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(f"authority of {cluster}", name, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    certificate = builder.sign(key, hashes.SHA256())
    return Authority(cluster, KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key)))


def write_pair(directory: Path, name: str, pair: KeyPair, *, replace: bool = False) -> tuple[Path, Path]:
    """Write NAME.pem and NAME.key, the key for its owner only. Return both paths. Raises AuthorityError if a file
    exists and `replace` is False."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    for path in (certificate, key):
        if path.exists() and not replace:
            raise AuthorityError(f"{path} exists: give another directory, or --force to replace it")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _write(key, pair.key, _PRIVATE)
        _write(certificate, pair.certificate, 0o644)
    except OSError as error:
        raise AuthorityError(f"{error.filename or directory} cannot be written: {error.strerror}") from error
    return certificate, key


def read_authority(directory: Path, cluster: str) -> Authority:
    """Read ca.pem and ca.key of a directory. Raises AuthorityError."""
    try:
        pair = KeyPair((directory / "ca.pem").read_bytes(), (directory / "ca.key").read_bytes())
        x509.load_pem_x509_certificate(pair.certificate)
        serialization.load_pem_private_key(pair.key, None)
    except OSError as error:
        raise AuthorityError(
            f"{error.filename} cannot be read: {error.strerror}; `ledgermq certs init` makes an authority"
        ) from error
    except (ValueError, TypeError) as error:
        raise AuthorityError(f"{directory} has no authority in PEM: `ledgermq certs init` makes one") from error
    return Authority(cluster, pair)


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file so that a reader sees the old content or the new content, and never a part."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
    os.replace(partial, path)


def _builder(subject: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _uri(text: str) -> x509.UniformResourceIdentifier:
    return x509.UniformResourceIdentifier(text)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
