"""A disk whose writes and fsyncs of the CommitLog fail, or are slow, when a test says so."""

from __future__ import annotations

import time
from pathlib import Path

from store import DiskFailedError, PosixDisk
from store.disk.disk import PosixFile, Writable


class FailingDisk(PosixDisk):
    """The disk works until a test sets `fails_writes`, `fails_syncs` or `write_delay_s`, which is possible at any
    time."""

    def __init__(self) -> None:
        self.fails_writes = False
        self.fails_syncs = False
        self.write_delay_s = 0.0

    def open(self, path: Path) -> PosixFile:
        file = super().open(path)
        return FailingFile(path, file, self) if path.parent.name == "log" else file


class FailingFile(PosixFile):
    """A file of the CommitLog, whose writes and fsyncs fail when the disk says so."""

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
