"""The ConsumeQueue: for each message of one queue, where its entry lies in the CommitLog.

    unit, 20 bytes, little-endian; offset N is unit N, so there is nothing to search

     0                8            12               20
    +----------------+------------+----------------+
    | position       | size       | tag hash       |      position and size of the entry that holds the message;
    +----------------+------------+----------------+      tag hash 0: no tag

    <directory>/00000000000000000000    units 0 ... units_per_file - 1
    <directory>/00000000000000300000    and so on; files grow as units come

One idea: an index that can be lost. It holds committed messages only, is written by numpy a batch at a time, is never
flushed for safety's sake, and is rebuilt from the CommitLog at start (`ConsumeQueues.wipe`, then `put` again). Where
the CommitLog begins later, so does the queue: at its first offset, blank before it in the same file.

It must not know the CommitLog, nor what a batch is.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from pathlib import Path

import numpy as np
import numpy.typing as npt

from store.disk import Disk, File
from store.errors import OffsetDroppedError

UNIT = np.dtype([("position", "<i8"), ("size", "<u4"), ("tag_hash", "<i8")])
UNIT_BYTES = 20
_ONE_UNIT = struct.Struct("<qIq")
UNITS_PER_FILE = 300_000
assert UNIT.itemsize == UNIT_BYTES

Units = npt.NDArray[np.void]
"""A structured array of `UNIT`: fields position, size, tag_hash."""

_OPEN_FILES = 2  # of one queue: the one that grows, and an older one that is read
_NAME_DIGITS = 20


class ConsumeQueue:
    def __init__(self, disk: Disk, directory: Path, units_per_file: int = UNITS_PER_FILE) -> None:
        self._disk = disk
        self._directory = directory
        self._units_per_file = units_per_file
        self._files: OrderedDict[int, File] = OrderedDict()
        disk.make_directory(directory)
        self._first_offset = 0
        self._end_offset = self._found_end()

    @property
    def first_offset(self) -> int:
        """Offset of the first message, present or to come. Not on the disk: at each start it is said again."""
        return self._first_offset

    @property
    def end_offset(self) -> int:
        """Offset of the next message: all below it can be read."""
        return self._end_offset

    def begin_at(self, offset: int) -> None:
        """The messages before `offset` are not kept: an empty queue goes on there, in one that reaches beyond it files
        of theirs are removed. Where the queue begins later already, nothing changes."""
        if offset <= self._first_offset:
            return
        assert offset <= self._end_offset or self._first_offset == self._end_offset
        kept = self._place(offset)[0]
        for base in [int(name) for name in self._disk.list(self._directory)]:
            if base < kept:
                self._remove(base)
        self._first_offset = offset
        self._end_offset = max(self._end_offset, offset)

    def put(
        self, base_offset: int, position: int, size: int, tag_hashes: npt.NDArray[np.int64] | None, count: int
    ) -> None:
        """Add the messages base_offset .. base_offset + count - 1, all of the entry of `size` bytes at `position`.
        Without `tag_hashes` none of them has a tag."""
        assert base_offset == self._end_offset, "offsets are dense"
        assert tag_hashes is None or len(tag_hashes) == count
        units = _units(position, size, tag_hashes, count)
        done = 0
        while done < count:
            base, at, room = self._place(base_offset + done)
            piece = units[done * UNIT_BYTES : (done + room) * UNIT_BYTES]
            self._file(base).write(at * UNIT_BYTES, piece)
            done += min(room, count - done)
        self._end_offset += count

    def read(self, offset: int, max_units: int) -> Units:
        """The units from `offset` on, up to `max_units` of them; none at or beyond the end. Raises `OffsetDroppedError`
        below the first offset."""
        assert offset >= 0
        if offset < self._first_offset:
            raise OffsetDroppedError(offset, self._first_offset)
        last = min(offset + max_units, self._end_offset)
        pieces = []
        while offset < last:
            base, at, room = self._place(offset)
            count = min(room, last - offset)
            pieces.append(np.frombuffer(self._file(base).read(at * UNIT_BYTES, count * UNIT_BYTES), UNIT))
            offset += count
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces) if pieces else np.empty(0, UNIT)

    def close(self) -> None:
        """Let go of the files. They are opened again when needed."""
        while self._files:
            self._files.popitem()[1].close()

    def _place(self, offset: int) -> tuple[int, int, int]:
        """Of an offset: the first one in its file, its place there, and how many units fit from there on."""
        at = offset % self._units_per_file
        return offset - at, at, self._units_per_file - at

    def _file(self, base: int) -> File:
        if base not in self._files:
            if len(self._files) == _OPEN_FILES:
                self._files.popitem(last=False)[1].close()
            path = self._path(base)
            self._files[base] = self._disk.open(path) if self._disk.exists(path) else self._disk.create(path, 0)
        self._files.move_to_end(base)
        return self._files[base]

    def _remove(self, base: int) -> None:
        if base in self._files:
            self._files.pop(base).close()
        self._disk.unlink(self._path(base))

    def _found_end(self) -> int:
        names = self._disk.list(self._directory)
        if not names:
            return 0
        base = int(names[-1])
        return base + self._file(base).size // UNIT_BYTES

    def _path(self, base: int) -> Path:
        return self._directory / f"{base:0{_NAME_DIGITS}}"


def _units(position: int, size: int, tag_hashes: npt.NDArray[np.int64] | None, count: int) -> bytes:
    """The units of one entry's messages; without numpy's overhead where there is one."""
    if count == 1:
        return _ONE_UNIT.pack(position, size, 0 if tag_hashes is None else int(tag_hashes[0]))
    units = np.empty(count, UNIT)
    units["position"] = position
    units["size"] = size
    units["tag_hash"] = 0 if tag_hashes is None else tag_hashes
    return units.tobytes()


class ConsumeQueues:
    """All ConsumeQueues of a group, at `<directory>/<topic id>-<queue>/`; `max_open` of them have files open."""

    def __init__(
        self, disk: Disk, directory: Path, max_open: int = 256, *, units_per_file: int = UNITS_PER_FILE
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._max_open = max_open
        self._units_per_file = units_per_file
        self._queues: dict[tuple[int, int], ConsumeQueue] = {}
        # Keys of the queues that may have files open, least recently used first.
        self._used: OrderedDict[tuple[int, int], None] = OrderedDict()
        disk.make_directory(directory)

    def get(self, topic_id: int, queue: int) -> ConsumeQueue:
        """The queue, made if it is new. To be asked for again at each use, so that it counts as used."""
        key = (topic_id, queue)
        if key not in self._used and len(self._used) >= self._max_open:
            self._queues[self._used.popitem(last=False)[0]].close()
        self._used[key] = None
        self._used.move_to_end(key)
        found = self._queues.get(key)
        if found is None:
            path = self._directory / f"{topic_id}-{queue}"
            found = self._queues[key] = ConsumeQueue(self._disk, path, self._units_per_file)
        return found

    def wipe(self) -> None:
        """Remove all units of all queues, those of earlier runs too. Queues handed out before are not to be used."""
        self.close()
        self._queues.clear()
        for name in self._disk.list(self._directory):
            for file_name in self._disk.list(self._directory / name):
                self._disk.unlink(self._directory / name / file_name)

    def close(self) -> None:
        for key in self._used:
            self._queues[key].close()
        self._used.clear()
