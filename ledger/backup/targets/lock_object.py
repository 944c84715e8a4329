"""The lock of a target that has no locks of its own: an object that its owner writes again and again.

A process that finds the object looks whether it changes. If it does, its owner lives. If it does not, its owner was
killed, and the process takes the lock over. Nobody compares clocks. If an owner was suspended for so long that another
process may have taken the lock over, it writes and deletes nothing more.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from ledger.backup.errors import BackupError, TargetBusyError

LOCK = "lock"
# How often the owner writes the object, and how long another process waits for a change, in seconds. An owner whose
# last write is as old as WATCH_S has lost the lock, even if no process took it over.
WRITE_S = 3.0
WATCH_S = 15.0


def _since_boot_s() -> float:
    """Return the seconds since the machine started. The time for which the machine was suspended counts."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LockStore(Protocol):
    """What a lock uses of its target."""

    @property
    def title(self) -> str: ...
    def get(self, name: str) -> bytes | None: ...
    def put_always(self, name: str, content: bytes) -> None: ...
    def put_new(self, name: str, content: bytes) -> None: ...
    def delete(self, name: str) -> None: ...


class LockObject:
    def __init__(
        self,
        store: LockStore,
        *,
        write_s: float = WRITE_S,
        watch_s: float = WATCH_S,
        monotonic_s: Callable[[], float] = _since_boot_s,
    ) -> None:
        self._store = store
        self._write_s = write_s
        self._watch_s = watch_s
        self._monotonic_s = monotonic_s
        self._owner = secrets.token_hex(16).encode()
        self._writes = 0
        # Why the lock is lost, or empty.
        self._lost = ""
        # When the last write of the object that succeeded began; None while the lock is not held.
        self._written_s: float | None = None

    def check(self) -> None:
        """Raise TargetBusyError if this process has lost the lock, or may have lost it."""
        if lost := self._why_lost():
            raise TargetBusyError(f"{lost}: start the command again")

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
            lost = self._why_lost()
            self._written_s = None
            if not lost:
                self._store.delete(LOCK)

    def _take(self) -> None:
        self._lost = ""
        found = self._store.get(LOCK)
        if found is None:
            self._write(self._store.put_new)
            return
        pause, waited = threading.Event(), 0.0
        while waited < self._watch_s:
            pause.wait(self._write_s / 2)
            waited += self._write_s / 2
            if self._store.get(LOCK) != found:
                raise TargetBusyError(
                    f"another process changes the backups in {self._store.title}: wait until it has ended"
                )
        self._write(self._store.put_always)

    def _write_again(self, wait: Callable[[float], bool]) -> None:
        while not wait(self._write_s):
            try:
                found = self._store.get(LOCK)
                if found is None or not found.startswith(self._owner):
                    self._lost = f"another process has taken the lock of {self._store.title}"
                    return
                if self._why_lost():  # another process may take the lock over now, so its object must stay
                    return
                self._write(self._store.put_always)
            except BackupError as error:
                self._lost = f"the lock of {self._store.title} cannot be kept ({error})"
                return

    def _write(self, put: Callable[[str, bytes], None]) -> None:
        began_s = self._monotonic_s()
        put(LOCK, self._content())
        self._written_s = began_s

    def _why_lost(self) -> str:
        """Return why this process has lost the lock, or "". The thread that writes the object may not have run yet
        after the process was suspended, so the age of the last write decides."""
        if not self._lost and self._written_s is not None:
            age_s = self._monotonic_s() - self._written_s
            if age_s >= self._watch_s:
                self._lost = (
                    f"this process could not write the lock of {self._store.title} for {age_s:.0f} s, so another "
                    "process may have taken the lock"
                )
        return self._lost

    def _content(self) -> bytes:
        self._writes += 1
        return self._owner + b" %d" % self._writes
