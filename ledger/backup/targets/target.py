"""The interface of a target. A target stores objects, which are written and read as a whole. Names have slashes, such
as "shards/0/log/00000000000000000000-4096-1f2e".

A target must have these properties. After `put` has returned, the object survives a crash. An object appears under its
name whole or not at all. `list` tells every object whose `put` has returned.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol


class StoredObject(NamedTuple):
    name: str
    # In bytes, as it is stored.
    size: int


class BackupTarget(Protocol):
    @property
    def title(self) -> str:
        """The target as the user named it."""

    def put(self, name: str, content: bytes) -> None:
        """Store an object, and replace an object of the same name. Raises BackupError."""

    def get(self, name: str) -> bytes | None:
        """Return the content of an object, or None if there is none of this name. Raises BackupError."""

    def list(self, prefix: str = "") -> list[StoredObject]:
        """Return the objects whose names begin with `prefix`, sorted by name. Raises BackupError."""

    def delete(self, name: str) -> None:
        """Remove an object. If there is none of this name, do nothing. Raises BackupError."""

    def lock(self) -> AbstractContextManager[None]:
        """Hold the right to change the target while the body runs. Raises TargetBusyError if another process has it.
        The lock of a process that was killed ends."""
