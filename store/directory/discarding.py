"""Deletes the files of a replica that was removed from its shard, so that the node can get a new replica of the shard.

    <path>/shard-3/discarding    exists while the files of the shard are being deleted
    <path>/shard-3/discarded     exists since the files were deleted. It stays when the node gets a new replica

A kill between the two leaves `discarding`, and the next start deletes the rest before it opens any file of the shard. A
new replica has a new vote file, and so a new incarnation. The mark `discarded` says that the shard has begun before:
this node must never form it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from store.disk.disk import Disk, ReadOnlyDisk, replace_file
from store.errors import StoreError

_DISCARDING, _DISCARDED = "discarding", "discarded"


def is_discarded(disk: ReadOnlyDisk, shard: Path) -> bool:
    """Return True if the directory of a shard holds no replica, because the replica was discarded or is being
    discarded."""
    is_gone = disk.exists(shard / _DISCARDED) and not disk.exists(shard / "vote")
    return is_gone or disk.exists(shard / _DISCARDING)


class DiscardMarks:
    """The marks of one shard, and the deletion of its files. `roots` are the directories of the shard: that of its
    data, which has the marks, and perhaps that of its indexes. Every method raises StoreError if the disk fails."""

    def __init__(self, disk: Disk, roots: Sequence[Path]) -> None:
        self._disk = disk
        self._roots = roots
        self._discarding = roots[0] / _DISCARDING
        self._discarded = roots[0] / _DISCARDED

    @property
    def is_under_way(self) -> bool:
        """Return True if the deletion of the files has begun and is not complete."""
        return self._disk.exists(self._discarding)

    @property
    def was_discarded(self) -> bool:
        """Return True if this node had a replica of the shard, and discarded it. It may have a new replica."""
        return self._disk.exists(self._discarded)

    def discard(self) -> None:
        """Delete all files of the shard. The files must be closed."""
        disk = self._disk
        if not self.is_under_way:
            replace_file(disk, self._discarding, b"")
        for root in filter(disk.exists, self._roots):
            paths = [path for path in self._files(root) if path != self._discarding]
            for path in paths:
                disk.unlink(path)
            for directory in dict.fromkeys(path.parent for path in paths):
                disk.sync_directory(directory)
        disk.rename(self._discarding, self._discarded)
        disk.sync_directory(self._roots[0])

    def _files(self, directory: Path) -> Iterator[Path]:
        for name in self._disk.list(directory):
            path = directory / name
            try:
                yield from self._files(path)
            except StoreError:  # the path is a file
                yield path
