"""The ConsumeQueue is the index of one queue. For each message, it has the position and the size of the CommitLog's
entry that holds the message.

    unit, 20 bytes, little-endian; offset N is unit N, so no search is needed

     0                8            12               20
    +----------------+------------+----------------+
    | position       | size       | tag hash       |      position and size of the entry that holds the message;
    +----------------+------------+----------------+      tag hash 0: no tag

A ConsumeQueue holds only committed messages. The units of one batch are written together, with numpy. The files of a
ConsumeQueue (unit_files.py) are not flushed. If the files differ from their file marks in the checkpoint, all
ConsumeQueues are built again from the CommitLog (`ConsumeQueues.wipe`, then `put`). If the log start has moved, a
ConsumeQueue begins at its first message that is after the log start. The files of a deleted queue stay until no
checkpoint refers to them, because a start with the old checkpoint would miss the files.
"""

from __future__ import annotations

import re
import struct
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from store.disk.disk import Disk, remove_file
from store.disk.numbered import name_of, numbers_of
from store.errors import OffsetDroppedError
from store.index.file_mark import FileMark
from store.index.unit_files import UnitFiles

UNIT = np.dtype([("position", "<i8"), ("size", "<u4"), ("tag_hash", "<i8")])
UNIT_BYTES = 20
_ONE_UNIT = struct.Struct("<qIq")
UNITS_PER_FILE = 300_000
assert UNIT.itemsize == UNIT_BYTES

# A structured array of `UNIT`, with the fields position, size and tag_hash.
Units = npt.NDArray[np.void]


class ConsumeQueue:
    """The index of one queue: it maps an offset to an entry and a tag hash. A new object is empty: call `adopt`, or
    `put` the messages of the CommitLog again."""

    __slots__ = ("_rows",)

    def __init__(self, disk: Disk, directory: Path, units_per_file: int = UNITS_PER_FILE) -> None:
        self._rows = UnitFiles(disk, directory, UNIT_BYTES, units_per_file)

    @property
    def first_offset(self) -> int:
        """The offset of the first message that the queue holds or will hold. The first offset is not stored in the
        index files, so each start sets it again."""
        return self._rows.first

    @property
    def end_offset(self) -> int:
        """The offset of the next message to be added. All offsets from `first_offset` to `end_offset` - 1 can be
        read."""
        return self._rows.end

    def begin_at(self, offset: int) -> None:
        """Drop the messages before `offset`, and remove files that hold only dropped messages. If the queue is
        empty, its next message gets `offset`. If the queue begins at or after `offset` already, nothing changes."""
        self._rows.begin_at(offset)

    def put(
        self, base_offset: int, position: int, size: int, tag_hashes: npt.NDArray[np.int64] | None, count: int
    ) -> None:
        """Add the messages base_offset .. base_offset + count - 1. All added messages are in the log entry of
        `size` bytes at `position`. `tag_hashes` None means that no message has a tag."""
        assert base_offset == self._rows.end, "offsets are dense"
        assert tag_hashes is None or len(tag_hashes) == count
        self._rows.append(unit_bytes(position, size, tag_hashes, count))

    def read(self, offset: int, max_units: int) -> Units:
        """Return the units from `offset` on, at most `max_units`. If `offset` is at or after the end, return an
        empty array. Raise `OffsetDroppedError` if `offset` is before the first offset."""
        assert offset >= 0
        if offset < self._rows.first:
            raise OffsetDroppedError(offset, self._rows.first)
        pieces = [np.frombuffer(piece, UNIT) for piece in self._rows.read(offset, max_units)]
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces) if pieces else np.empty(0, UNIT)

    def marks(self) -> list[FileMark]:
        """Return the file marks that describe the queue's files at this moment."""
        return self._rows.marks()

    def adopt(self, first_offset: int, end_offset: int, marks: Mapping[str, FileMark]) -> bool:
        """Adopt the existing files, which hold the units of the messages first_offset .. end_offset - 1. Return
        False if the files differ from `marks`, which maps file names to file marks."""
        return self._rows.adopt(first_offset, end_offset, marks)

    def close(self) -> None:
        """Close the files of the queue. The queue opens the files again when it needs them."""
        self._rows.close()


def unit_bytes(position: int, size: int, tag_hashes: npt.NDArray[np.int64] | None, count: int) -> bytes:
    """Return the units of one entry's messages. If the entry has a single message, this function does not use
    numpy, because that is faster."""
    if count == 1:
        return _ONE_UNIT.pack(position, size, 0 if tag_hashes is None else int(tag_hashes[0]))
    units = np.empty(count, UNIT)
    units["position"] = position
    units["size"] = size
    units["tag_hash"] = 0 if tag_hashes is None else tag_hashes
    return units.tobytes()


class QueueSpan(NamedTuple):
    """The first offset and the end offset of the messages that one queue holds."""

    topic_id: int
    queue: int
    first_offset: int
    end_offset: int


class ConsumeQueues:
    """Holds all ConsumeQueues of a shard, at `<directory>/<topic id>-<queue>/`. At most `max_open` queues have open
    files. A new object has no queues: call `adopt`, or call `wipe` and `put` the messages of the CommitLog again."""

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
        # Directory names of deleted queues whose files still exist. A dict, because `remove` may run on another thread:
        # each change is a single operation.
        self._dropped: dict[str, None] = {}
        disk.make_directory(directory)

    def get(self, topic_id: int, queue: int) -> ConsumeQueue:
        """Return the queue, and make it if it is new. Call `get` for each use of a queue, so that the queue counts
        as recently used."""
        key = (topic_id, queue)
        if key not in self._used and len(self._used) >= self._max_open:
            self._queues[self._used.popitem(last=False)[0]].close()
        self._used[key] = None
        self._used.move_to_end(key)
        found = self._queues.get(key)
        if found is None:
            path = self._directory / _name(topic_id, queue)
            found = self._queues[key] = ConsumeQueue(self._disk, path, self._units_per_file)
        return found

    def drop(self, topic_id: int) -> None:
        """Delete the queues of the topic. The files of the queues stay until `remove`. Do not use the queue objects
        that `get` returned before."""
        for key in [key for key in self._queues if key[0] == topic_id]:
            self._queues.pop(key).close()
            self._used.pop(key, None)
            self._dropped[_name(*key)] = None

    def dropped(self) -> list[str]:
        """Return the names of the deleted queues whose files still exist. The caller calls `remove` for the returned
        names when no checkpoint refers to the files of the queues."""
        return list(self._dropped)

    def remove(self, names: Iterable[str]) -> None:
        """Remove the files of the deleted queues `names`. If the disk fails, `dropped` still returns the names that are
        left. Another thread may call `remove` or `wipe` at the same time."""
        for name in names:
            for number in numbers_of(self._disk.list(self._directory / name)):
                remove_file(self._disk, self._directory / name / name_of(number))
            self._dropped.pop(name, None)

    def marks(self) -> list[FileMark]:
        """Return the file marks that describe the files of all queues at this moment."""
        return [mark.inside(_name(*key)) for key, queue in self._queues.items() for mark in queue.marks()]

    def adopt(self, spans: Iterable[QueueSpan], marks: Iterable[FileMark]) -> bool:
        """Adopt the existing files with the units of the messages in `spans`, and remove the files of other queues.
        Return False if the files differ from `marks`; the caller must then call `wipe`."""
        by_queue: dict[str, dict[str, FileMark]] = {}
        for mark in marks:
            name, _, file = mark.name.partition("/")
            by_queue.setdefault(name, {})[file] = replace(mark, name=file)
        held = {_name(span.topic_id, span.queue): span for span in spans}
        if not all(
            self.get(span.topic_id, span.queue).adopt(span.first_offset, span.end_offset, by_queue.get(name, {}))
            for name, span in held.items()
        ):
            return False
        self.remove(name for name in self._names_there() if name not in held)
        return True

    def wipe(self) -> None:
        """Remove all units of all queues, also the units that earlier runs wrote. Do not use the queue objects that
        `get` returned before."""
        self.close()
        self._queues.clear()
        self._dropped.clear()
        self.remove(self._names_there())

    def _names_there(self) -> list[str]:
        """Return the names of all directories of queues on the disk. Leave out names that are not <topic
        id>-<queue>."""
        return list(filter(_NAME.fullmatch, self._disk.list(self._directory)))

    def close(self) -> None:
        for key in self._used:
            self._queues[key].close()
        self._used.clear()


_NAME = re.compile(r"[0-9]+-[0-9]+")


def _name(topic_id: int, queue: int) -> str:
    return f"{topic_id}-{queue}"
