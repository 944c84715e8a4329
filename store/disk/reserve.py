"""The reserve: room that is kept back on the disk for the small files without which a node could not start, or stop.

    <path>/0 ... 7      blocks that hold nothing, one file of 4 KiB each

A mark is replaced whole, so for a moment there are two of it, and on a disk without a free byte that
second one takes the place of a file of the reserve. Which is made again as soon as there is room; nothing is lost where
it is missing, but that a full disk refuses.

The vote needs none of it: its file has its blocks from the beginning, and is written in place (vote_file.py).
"""

from __future__ import annotations

from pathlib import Path

from store.disk.disk import Disk, replace_file
from store.errors import DiskFullError

FILES = 8
FILE_BYTES = 4096


class Reserve:
    def __init__(self, disk: Disk, path: Path) -> None:
        """Raises `StoreError`, but not for lack of room."""
        self._disk = disk
        self._path = path
        self._fill()

    def replace_file(self, path: Path, content: bytes) -> None:
        """As `store.disk.disk.replace_file`. Raises `DiskFullError` only where the reserve is used up too."""
        while True:
            try:
                replace_file(self._disk, path, content)
                break
            except DiskFullError:
                if not self._give_up_one():
                    raise
        self._fill()

    def _give_up_one(self) -> bool:
        """Whether there was one left."""
        names = self._names()
        if names:
            self._disk.unlink(self._path / names[-1])
        return bool(names)

    def _fill(self) -> None:
        """As far as there is room."""
        try:
            self._disk.make_directory(self._path)
            there = self._names()
            for name in map(str, range(FILES)):
                if name not in there:
                    self._disk.create(self._path / name, FILE_BYTES).close()
        except DiskFullError:
            pass  # the next time

    def _names(self) -> list[str]:
        if not self._disk.exists(self._path):
            return []
        return [name for name in self._disk.list(self._path) if name.isdigit()]
