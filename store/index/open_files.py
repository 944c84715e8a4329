"""Reads and writes many files by path, and keeps a bounded number of the files open."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from store.disk.disk import Disk, File
from store.errors import IndexDamagedError


class OpenFiles:
    """The files of one directory. At most `max_open` files are open: the least recently used file is closed."""

    def __init__(self, disk: Disk, directory: Path, max_open: int) -> None:
        self._disk = disk
        self._directory = directory
        self._max_open = max_open
        # Least recently used first.
        self._open: OrderedDict[str, File] = OrderedDict()

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Write `data` into the file, which is created if it does not exist."""
        self._file(name, creates=True).write(offset, data)

    def read(self, name: str, offset: int, count: int) -> bytes:
        """Return `count` bytes. Raise `IndexDamagedError` if the file is missing or too short."""
        data = self._file(name, creates=False).read(offset, count)
        if len(data) < count:
            raise IndexDamagedError(self._directory / name, f"it has no {count} bytes at {offset}")
        return data

    def close(self, name: str) -> None:
        """Close the file if it is open."""
        file = self._open.pop(name, None)
        if file is not None:
            file.close()

    def close_all(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def _file(self, name: str, *, creates: bool) -> File:
        file = self._open.get(name)
        if file is not None:
            self._open.move_to_end(name)
            return file
        if len(self._open) >= self._max_open:
            self._open.popitem(last=False)[1].close()
        path = self._directory / name
        if self._disk.exists(path):
            file = self._disk.open(path)
        elif creates:
            file = self._disk.create(path, 0)
        else:
            raise IndexDamagedError(path, "the file is missing")
        self._open[name] = file
        return file
