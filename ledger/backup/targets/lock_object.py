"""The lock of a target that has no locks of its own: an object that its owner writes again and again.

A process that finds the object looks whether it changes. If it does, its owner lives. If it does not, its owner was
killed, and the process takes the lock over. Nobody compares clocks. An owner whose object was replaced, because it was
suspended for long, writes nothing more.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from ledger.backup.errors import BackupError, TargetBusyError

LOCK = "lock"
# How often the owner writes the object, and how long another process waits for a change, in seconds.
WRITE_S = 3.0
WATCH_S = 15.0


class LockStore(Protocol):
    """What a lock uses of its target."""

    @property
    def title(self) -> str: ...
    def get(self, name: str) -> bytes | None: ...
    def put_always(self, name: str, content: bytes) -> None: ...
    def put_new(self, name: str, content: bytes) -> None: ...
    def delete(self, name: str) -> None: ...


class LockObject:
    def __init__(self, store: LockStore, *, write_s: float = WRITE_S, watch_s: float = WATCH_S) -> None:
        self._store = store
        self._write_s = write_s
        self._watch_s = watch_s
        self._owner = secrets.token_hex(16).encode()
        self._writes = 0
        # Why the lock is lost, or empty.
        self._lost = ""

    def check(self) -> None:
        """Raise TargetBusyError if this process has lost the lock."""
        if self._lost:
            raise TargetBusyError(f"{self._lost}: start the backup again")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock while the body runs. Raises TargetBusyError and BackupError."""
        self._take()
        ended = threading.Event()
        writer = threading.Thread(target=self._write_again, args=(ended.wait,), name="backup-lock", daemon=True)
        writer.start()
        try:
            yield
        finally:
            ended.set()
            writer.join()
            if not self._lost:
                self._store.delete(LOCK)

    def _take(self) -> None:
        self._lost = ""
        found = self._store.get(LOCK)
        if found is None:
            self._store.put_new(LOCK, self._content())
            return
        pause, waited = threading.Event(), 0.0
        while waited < self._watch_s:
            pause.wait(self._write_s / 2)
            waited += self._write_s / 2
            if self._store.get(LOCK) != found:
                raise TargetBusyError(
                    f"another process changes the backups in {self._store.title}: wait until it has ended"
                )
        self._store.put_always(LOCK, self._content())

    def _write_again(self, wait: Callable[[float], bool]) -> None:
        while not wait(self._write_s):
            try:
                found = self._store.get(LOCK)
                if found is None or not found.startswith(self._owner):
                    self._lost = f"another process has taken the lock of {self._store.title}"
                    return
                self._store.put_always(LOCK, self._content())
            except BackupError as error:
                self._lost = f"the lock of {self._store.title} cannot be kept ({error})"
                return

    def _content(self) -> bytes:
        self._writes += 1
        return self._owner + b" %d" % self._writes
