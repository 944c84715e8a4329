"""A disk on which a test can hold back every fsync of the CommitLog. With `flush = "sync"` a node then acknowledges no
new entry. Therefore entries stay uncommitted for as long as the test needs, while votes and heartbeats continue.
"""

from __future__ import annotations

import threading
from pathlib import Path

from store import PosixDisk
from store.disk.disk import PosixFile

_LONGEST_S = 60.0


class GatedDisk(PosixDisk):
    """A disk whose gate is open until a test calls `hold`."""

    def __init__(self) -> None:
        self._gate = threading.Event()
        self._gate.set()

    def hold(self) -> None:
        self._gate.clear()

    def release(self) -> None:
        self._gate.set()

    def create(self, path: Path, size: int) -> PosixFile:
        super().create(path, size).close()
        return self.open(path)

    def open(self, path: Path) -> PosixFile:
        file = super().open(path)
        return GatedFile(path, file, self._gate) if path.parent.name == "log" else file


class GatedFile(PosixFile):
    """A file of the CommitLog, whose fsync waits while the gate is closed."""

    def __init__(self, path: Path, file: PosixFile, gate: threading.Event) -> None:
        super().__init__(path, file._descriptor)
        self._gate = gate

    def sync(self) -> None:
        assert self._gate.wait(_LONGEST_S), "the gate was never released"
        super().sync()
