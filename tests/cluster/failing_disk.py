"""A disk that can be told to fail, as one with a broken medium does, or to be slow: with the CommitLog's writes and
fsyncs."""

from __future__ import annotations

import time
from pathlib import Path

from store import DiskFailedError, PosixDisk
from store.disk.disk import PosixFile, Writable


class FailingDisk(PosixDisk):
    """Works at first. Set `fails_writes`, `fails_syncs` or `write_delay_s` at any time."""

    def __init__(self) -> None:
        self.fails_writes = False
        self.fails_syncs = False
        self.write_delay_s = 0.0

    def open(self, path: Path) -> PosixFile:
        file = super().open(path)
        return FailingFile(path, file, self) if path.parent.name == "log" else file


class FailingFile(PosixFile):
    """Takes the place of a file that was opened as usual."""

    def __init__(self, path: Path, file: PosixFile, disk: FailingDisk) -> None:
        super().__init__(path, file._descriptor)
        self._disk = disk

    def write(self, offset: int, *pieces: Writable) -> None:
        if self._disk.fails_writes:
            raise DiskFailedError(self._path, "Input/output error")
        time.sleep(self._disk.write_delay_s)
        super().write(offset, *pieces)

    def sync(self) -> None:
        if self._disk.fails_syncs:
            raise DiskFailedError(self._path, "Input/output error")
        super().sync()
