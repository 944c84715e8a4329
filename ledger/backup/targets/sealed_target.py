"""Encrypts the objects of another target with AES-256-GCM, and notices each change of an object.

    0       4         8            40
    +-------+---------+------------+--------------------------------+
    | magic | version | salt       | the content, encrypted, and    |    key = HKDF-SHA256(key of the file, salt)
    |       | 1       | (32 bytes) | the tag of 16 bytes            |    additional data = the object's name
    +-------+---------+------------+--------------------------------+

Each object has a key of its own, because its salt is random, so the nonce can be constant. The name is a part of what
is authenticated, so nobody can give an object the name of another one. The object `key-check` tells a wrong key from
damage. Names and sizes of objects are not hidden.
"""

from __future__ import annotations

import secrets
import struct
from contextlib import AbstractContextManager

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ledger.backup.errors import BackupError, DamagedBackupError
from ledger.backup.targets.key_file import KEY_BYTES
from ledger.backup.targets.target import BackupTarget, StoredObject

KEY_CHECK = "key-check"
MAGIC = b"LMQA"
VERSION = 1
_HEADER = struct.Struct("<4sI32s")
_TAG_BYTES = 16
_NONCE = bytes(12)
_PURPOSE = b"ledgermq backup object 1"


class SealedTarget:
    def __init__(self, inner: BackupTarget, key: bytes) -> None:
        """Raises BackupError if the objects of `inner` have another key, or are not encrypted."""
        self._inner = inner
        self._key = key
        sealed = inner.get(KEY_CHECK)
        if sealed is None and inner.list("manifests/"):
            raise BackupError(f"the backups in {inner.title} are not encrypted: leave out the key file")
        if sealed is not None:
            try:
                self._open(KEY_CHECK, sealed)
            except DamagedBackupError as error:
                raise BackupError(
                    f"the key is not that of the backups in {inner.title}: give the key file with which they were made"
                ) from error
        self._is_begun = sealed is not None

    @property
    def title(self) -> str:
        return self._inner.title

    def put(self, name: str, content: bytes) -> None:
        if not self._is_begun:
            self._inner.put(KEY_CHECK, self._seal(KEY_CHECK, b""))
            self._is_begun = True
        self._inner.put(name, self._seal(name, content))

    def get(self, name: str) -> bytes | None:
        sealed = self._inner.get(name)
        return None if sealed is None else self._open(name, sealed)

    def list(self, prefix: str = "") -> list[StoredObject]:
        return self._inner.list(prefix)

    def delete(self, name: str) -> None:
        self._inner.delete(name)

    def lock(self) -> AbstractContextManager[None]:
        return self._inner.lock()

    def _seal(self, name: str, content: bytes) -> bytes:
        salt = secrets.token_bytes(32)
        sealed = self._cipher(salt).encrypt(_NONCE, content, name.encode())
        return _HEADER.pack(MAGIC, VERSION, salt) + sealed

    def _open(self, name: str, sealed: bytes) -> bytes:
        if len(sealed) < _HEADER.size + _TAG_BYTES:
            raise DamagedBackupError(f"{name} has only {len(sealed)} bytes, so it is no encrypted object")
        magic, version, salt = _HEADER.unpack_from(sealed)
        if (magic, version) != (MAGIC, VERSION):
            raise DamagedBackupError(f"{name} is no encrypted object of a version that this program knows")
        try:
            return self._cipher(salt).decrypt(_NONCE, memoryview(sealed)[_HEADER.size :], name.encode())
        except InvalidTag as error:
            raise DamagedBackupError(f"{name} is damaged: it cannot be decrypted") from error

    def _cipher(self, salt: bytes) -> AESGCM:
        return AESGCM(HKDF(SHA256(), KEY_BYTES, salt, _PURPOSE).derive(self._key))
