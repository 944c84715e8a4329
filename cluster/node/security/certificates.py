"""Reads the certificate, the key and the authorities of a node, and reads them again when the files change.

The names in certificates:

    a node   URI ledgermq://CLUSTER/node/3, and the DNS name node-3.HASH.ledgermq, by which other nodes check with TLS
             that they have reached this node; HASH is made from the name of the cluster
    a user   URI ledgermq://CLUSTER/user/alice
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from raft.transport.secret_file import others_can_read

log = logging.getLogger("ledgermq.node.tls")

# From when on a node warns of the end of its certificate, and how often.
WARN_BEFORE = timedelta(days=14)
WARN_EVERY = timedelta(hours=6)


class CertificateError(Exception):
    """A certificate, a key or a file of authorities cannot be used. The message names the file, and what to do."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The files of one node, all PEM. `ca` has the authorities that sign the certificates of nodes and users."""

    certificate: Path
    key: Path
    ca: Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """The content of the files. `expires` is the end of the node's certificate."""

    certificate: bytes
    key: bytes
    ca: bytes
    expires: datetime

    def __repr__(self) -> str:
        return f"Certificates(expires={self.expires})"  # the key is a secret


def node_uri(cluster: str, node: int) -> str:
    return f"ledgermq://{quote(cluster, safe='')}/node/{node}"


def user_uri(cluster: str, user: str) -> str:
    return f"ledgermq://{quote(cluster, safe='')}/user/{user}"


def node_dns_name(cluster: str, node: int) -> str:
    """Return the name that the TLS certificate of a node must have."""
    return f"node-{node}.{hashlib.sha256(cluster.encode()).hexdigest()[:32]}.ledgermq"


def read_certificates(files: CertificateFiles) -> Certificates:
    """Read and check the files. Raises CertificateError."""
    certificate, key, ca = _read(files.certificate), _read(files.key), _read(files.ca)
    if others_can_read(files.key):
        raise CertificateError(f"others can read the key {files.key}: run `chmod 600 {files.key}`")
    first = _parsed(certificate, files.certificate)
    _parsed(ca, files.ca)
    try:
        private = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"{files.key} is no private key in PEM without a password") from error
    try:
        public = _public_bytes(first.public_key())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"{files.certificate} has a key that cannot be used: {error}") from error
    if _public_bytes(private.public_key()) != public:
        raise CertificateError(f"the key {files.key} does not belong to the certificate {files.certificate}")
    now = datetime.now(UTC)
    if first.not_valid_after_utc <= now:
        raise CertificateError(
            f"the certificate {files.certificate} ended on {first.not_valid_after_utc:%Y-%m-%d %H:%M} UTC: issue a new "
            "one with `ledgermq certs issue`"
        )
    if first.not_valid_before_utc > now:
        raise CertificateError(
            f"the certificate {files.certificate} begins on {first.not_valid_before_utc:%Y-%m-%d %H:%M} UTC: compare "
            "the clocks of the machines"
        )
    return Certificates(certificate, key, ca, first.not_valid_after_utc)


class CertificateWatch:
    """The certificates of a node, always as the files are. A file that became unusable changes nothing: the node goes
    on with what it has, and logs it."""

    def __init__(
        self,
        files: CertificateFiles,
        check: Callable[[Certificates], None] | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`check` raises CertificateError if the owner of the watch cannot use the certificates. `now` is the clock by
        which the watch warns. Raises CertificateError."""
        self.files = files
        self._check = check
        self._now = now
        # When the watch warned of the end of the present certificate; None: not yet.
        self._warned: datetime | None = None
        # Called after the files have changed.
        self.on_change: list[Callable[[], None]] = []
        self._current = self._read()
        self._version = self._file_version()
        self._refused_version: tuple[int, ...] | None = None

    @property
    def current(self) -> Certificates:
        version = self._file_version()
        if version not in (self._version, self._refused_version):
            self._reload(version)
        self._warn_of_the_end()
        return self._current

    def _warn_of_the_end(self) -> None:
        now, end = self._now(), self._current.expires
        if end - now > WARN_BEFORE or (self._warned is not None and abs(now - self._warned) < WARN_EVERY):
            return
        self._warned = now
        day = f"{end:%Y-%m-%d %H:%M} UTC"
        if end > now:
            log.warning(
                "the certificate %s ends on %s: issue a new one with `ledgermq certs issue`",
                self.files.certificate,
                day,
            )
        else:
            log.error(
                "the certificate %s ended on %s, so no new connections to this node can be opened: issue a new one "
                "with `ledgermq certs issue`",
                self.files.certificate,
                day,
            )

    def _reload(self, version: tuple[int, ...]) -> None:
        try:
            self._current, self._version = self._read(), version
            self._warned = None
        except CertificateError as error:
            # A certificate and its key change one after the other, so this may be the moment between.
            self._refused_version = version
            log.error("the certificates stay as they were: %s", error)
            return
        log.info("the certificate %s was read again; it ends on %s", self.files.certificate, self._current.expires)
        for callback in self.on_change:
            callback()

    def _read(self) -> Certificates:
        found = read_certificates(self.files)
        if self._check is not None:
            self._check(found)
        return found

    def _file_version(self) -> tuple[int, ...]:
        version: list[int] = []
        for path in (self.files.certificate, self.files.key, self.files.ca):
            try:
                found = os.stat(path)
            except OSError:
                version.append(0)
            else:
                version += (found.st_mtime_ns, found.st_ino)
        return tuple(version)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}") from error


def _parsed(pem: bytes, path: Path) -> x509.Certificate:
    """Return the first certificate of a file. Raises CertificateError."""
    try:
        return x509.load_pem_x509_certificates(pem)[0]
    except (ValueError, IndexError) as error:
        raise CertificateError(f"{path} has no certificate in PEM") from error


def _public_bytes(key: object) -> bytes:
    data: bytes = key.public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return data
