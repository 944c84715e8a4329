"""The cluster secret: nodes that know it prove to each other that they belong to one cluster.

The secret keeps strangers out. It does not hide or protect the traffic, and each node that knows it could speak in the
name of another node. With TLS, nodes prove themselves by certificates instead.

A file has one secret, or two during a rotation: a node proves with the first one, and accepts both. The file is read
again when it changes.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from pathlib import Path

from raft.transport.node_proof import Proof
from raft.transport.secret_file import others_can_read
from raft.transport.watched_file import WatchedFile

log = logging.getLogger("ledgermq.raft.transport")

SECRET_BYTES = 32
MAX_SECRETS = 2


class SecretError(Exception):
    """The file of the cluster secret cannot be used. The message says why, and what to do."""


def new_secret() -> str:
    """Return the text of a new cluster secret."""
    return secrets.token_hex(SECRET_BYTES)


def read_secrets(path: Path) -> tuple[bytes, ...]:
    """Return the secrets of a file, the first of which this node proves with. Raises SecretError."""
    try:
        text = path.read_text(encoding="ascii")
        is_open = others_can_read(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not hexadecimal"
        raise SecretError(f"the cluster secret {path} cannot be read: {reason}") from error
    if is_open:
        raise SecretError(f"others can read the cluster secret {path}: run `chmod 600 {path}`")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    try:
        found = tuple(bytes.fromhex(line) for line in lines)
    except ValueError:
        found = ()
    if not 1 <= len(found) <= MAX_SECRETS or any(len(each) != SECRET_BYTES for each in found):
        raise SecretError(
            f"{path} is no cluster secret: it needs one or two lines of {2 * SECRET_BYTES} hexadecimal digits, as "
            "`ledgermq cluster init` writes them"
        )
    return found


class SecretCredentials:
    """Proves a node by the cluster secret. Implements `raft.transport.node_proof.Credentials`."""

    def __init__(self, path: Path) -> None:
        """Raises SecretError."""
        self._secrets = WatchedFile(path, read_secrets, SecretError, log, "the cluster secret stays as it was")

    def receiver_macs(self, content: bytes) -> list[bytes]:
        return [_mac(secret, content) for secret in self._secrets.current]

    def accepts_receiver(self, content: bytes, macs: list[bytes]) -> bool:
        return any(self._is_right(content, mac) for mac in macs[:MAX_SECRETS])

    def caller_proof(self, content: bytes) -> Proof:
        return Proof(mac=_mac(self._secrets.current[0], content))

    def flaw_of_caller(self, content: bytes, proof: Proof, sender: int) -> str:
        if self._is_right(content, proof.mac):
            return ""
        return f"the caller does not know the cluster secret: give node {sender} the secret of this cluster"

    def _is_right(self, content: bytes, mac: bytes) -> bool:
        return any(hmac.compare_digest(mac, _mac(secret, content)) for secret in self._secrets.current)


def _mac(secret: bytes, content: bytes) -> bytes:
    return hmac.new(secret, content, hashlib.sha256).digest()
