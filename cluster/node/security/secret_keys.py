"""Encrypts secrets that the log stores, with a key that all nodes share in a file outside the log.

    the file        one or two lines of 64 hexadecimal digits: the first key encrypts, both decrypt
    an encryption   version 1 (1 byte) | key id (4) | nonce (12) | AES-256-GCM of the content, with its tag (16)

The key id is the beginning of the SHA-256 of the key. For a rotation, put the new key on the second line on all nodes,
then make it the first line, make the secrets anew, and remove the old key. The file is read again when it changes.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from raft.transport.secret_file import others_can_read
from raft.transport.watched_file import WatchedFile

log = logging.getLogger("ledgermq.node.security")

KEY_BYTES = 32
MAX_KEYS = 2
_VERSION = b"\x01"
_ID_BYTES, _NONCE_BYTES, _TAG_BYTES = 4, 12, 16
_CONTENT_AT = 1 + _ID_BYTES + _NONCE_BYTES


class SecretKeyError(Exception):
    """The file of the keys cannot be used. The message says why, and what to do."""


def read_keys(path: Path) -> dict[bytes, bytes]:
    """Return the keys of a file by their ids, in the order of the file. Raises SecretKeyError."""
    try:
        text = path.read_text(encoding="ascii")
        is_open = others_can_read(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not hexadecimal"
        raise SecretKeyError(f"`secrets_key_file`: {path} cannot be read: {reason}") from error
    if is_open:
        raise SecretKeyError(f"`secrets_key_file`: others can read {path}: run `chmod 600 {path}`")
    try:
        keys = [bytes.fromhex(line) for line in text.split()]
    except ValueError:
        keys = []
    if not 1 <= len(keys) <= MAX_KEYS or any(len(key) != KEY_BYTES for key in keys):
        raise SecretKeyError(
            f"`secrets_key_file`: {path} needs one or two lines of {2 * KEY_BYTES} hexadecimal digits, as `ledgermq "
            "cluster init` writes them"
        )
    return {hashlib.sha256(key).digest()[:_ID_BYTES]: key for key in keys}


class SecretKeyFile:
    """The keys of this node. Implements `ledger.broker.access.rocketmq_secrets.SecretKeys`."""

    def __init__(self, path: Path) -> None:
        """Raises SecretKeyError."""
        self._keys = WatchedFile(path, read_keys, SecretKeyError, log, "the keys stay as they were")

    def encrypt(self, content: bytes, context: bytes) -> bytes:
        """Return `content` encrypted with the first key, for `context` only."""
        key_id, key = next(iter(self._keys.current.items()))
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _VERSION + key_id + nonce + AESGCM(key).encrypt(nonce, content, context)

    def decrypt(self, encrypted: bytes, context: bytes) -> bytes | None:
        """Return the content, or None if no key decrypts it for this context."""
        key = self._keys.current.get(encrypted[1 : 1 + _ID_BYTES])
        if key is None or encrypted[:1] != _VERSION or len(encrypted) < _CONTENT_AT + _TAG_BYTES:
            return None
        try:
            nonce, content = encrypted[1 + _ID_BYTES : _CONTENT_AT], encrypted[_CONTENT_AT:]
            return AESGCM(key).decrypt(nonce, content, context)
        except InvalidTag:
            return None
