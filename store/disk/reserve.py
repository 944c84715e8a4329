"""The reserve is disk space that is kept free for small files. Without the small files, a node could not start or
stop.

    <path>/0 ... 7      blocks without content, one file of 4 KiB each

A small file is replaced whole, so for a moment the disk holds two versions of the file. On a full disk the new version
of a small file uses the space of a reserve file. The missing reserve files are made again as soon as the disk has
space. A missing reserve file has only one effect: on a full disk, the replacement of a small file may fail.

The vote file does not use the reserve, because its space is allocated at its creation, and each vote is written in
place (vote_file.py).
"""

from __future__ import annotations

import threading
from pathlib import Path

from store.disk.disk import Disk, replace_file
from store.errors import NoSpaceError

FILES = 8
FILE_BYTES = 4096


class Reserve:
    def __init__(self, disk: Disk, path: Path) -> None:
        """Fill the reserve. Raise `StoreError` if the disk fails. A full disk is no error."""
        self._disk = disk
        self._path = path
        # Helper threads open the logs of several shards at the same time, and each opening writes small files.
        self._one_at_a_time = threading.Lock()
        self._fill()

    def replace_file(self, path: Path, content: bytes) -> None:
        """Replace a small file as `store.disk.disk.replace_file` does, if necessary with the space of the reserve.
        Raise `NoSpaceError` only if the reserve is used up. Any thread may call `replace_file`."""
        with self._one_at_a_time:
            while True:
                try:
                    replace_file(self._disk, path, content)
                    break
                except NoSpaceError:
                    if not self._give_up_one():
                        raise
            self._fill()

    def _give_up_one(self) -> bool:
        """Remove one file of the reserve. Return False if the reserve has no file left."""
        names = self._names()
        if names:
            self._disk.unlink(self._path / names[-1])
        return bool(names)

    def _fill(self) -> None:
        """Make as many missing files of the reserve as the free space permits."""
        try:
            self._disk.make_directory(self._path)
            there = self._names()
            for name in map(str, range(FILES)):
                if name not in there:
                    self._disk.create(self._path / name, FILE_BYTES).close()
        except NoSpaceError:
            pass  # the next replacement tries again

    def _names(self) -> list[str]:
        if not self._disk.exists(self._path):
            return []
        return [name for name in self._disk.list(self._path) if name.isdigit()]
