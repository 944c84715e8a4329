"""A disk whose fsync of the CommitLog can be held back: with `flush = "sync"`, what comes in is not acknowledged then.

So an entry stays uncommitted for as long as a test likes, while votes and heartbeats go on as ever.
"""

from __future__ import annotations

import threading
from pathlib import Path

from store import PosixDisk
from store.disk.disk import PosixFile

_LONGEST_S = 60.0


class GatedDisk(PosixDisk):
    """Open at first."""

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
    """Takes the place of a file that was opened as usual."""

    def __init__(self, path: Path, file: PosixFile, gate: threading.Event) -> None:
        super().__init__(path, file._descriptor)
        self._gate = gate

    def sync(self) -> None:
        assert self._gate.wait(_LONGEST_S), "the gate was never released"
        super().sync()
