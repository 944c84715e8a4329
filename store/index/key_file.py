"""One file of the key index, similar to RocketMQ's IndexFile: hash slots, and for each slot a chain of linked entries.

    <directory>/<20 digits>            by the log position of the first batch that it indexes; only ever grows

     0          4          8          12         16                    24
    +----------+----------+----------+----------+---------------------+      slots, capacity  how many slots and entries
    | magic    | version  | slots    | capacity | begin time (ms)     |      it has room for; begin time: when the first
    +----------+----------+----------+----------+---------------------+      batch was appended
    +---------------------+---------------------+----------+----------+----------+
    | hash                | position            | size     | time     | previous |    an entry, 28 bytes; the first one
    +---------------------+---------------------+----------+----------+----------+    is number 1
     0                     8                     16         20         24

    hash            of topic and key together, see key_index.py
    position, size  of the CommitLog's entry whose batch has that key
    time            when it was appended, in ms since the begin time
    previous        number of the entry before it in the same slot; 0: there is none

    <directory>/<20 digits>.slots      u32[slots], the newest entry of each slot, or 0; written once, when it is full

Entries never change. Only slots change, and slots can be computed from the entries. While a file grows, its slots are
kept in memory, and its entries are appended to the file on disk. A growing file is therefore fully described by the
length and the CRC of its bytes on disk. Each slot covers a range of hashes, so ascending hashes have ascending slots.
The entries of a batch that have the same slot are neighbours, so the entries are linked by comparing each entry with
the entry before it.
"""

from __future__ import annotations

import struct
from pathlib import Path

import google_crc32c
import numpy as np
import numpy.typing as npt

from store.disk.disk import Disk, File, remove_file
from store.disk.numbered import is_number, name_of
from store.errors import IndexDamagedError, StoreError
from store.index.file_mark import FileMark

Hashes = npt.NDArray[np.uint64]

MAGIC = int.from_bytes(b"LMQK", "little")
VERSION = 1
HEADER = struct.Struct("<IIIIq")
ENTRY = np.dtype([("hash", "<u8"), ("position", "<u8"), ("size", "<u4"), ("time", "<u4"), ("previous", "<u4")])
ENTRY_BYTES = 28
ENTRIES_PER_SLOT = 4  # as RocketMQ has it: 20 million entries, 5 million slots
_ONE_ENTRY = struct.Struct("<QQIII")
_SLOT = struct.Struct("<I")
assert ENTRY.itemsize == _ONE_ENTRY.size == ENTRY_BYTES

MAX_CAPACITY = 20_000_000
_MAX_TIME = (1 << 32) - 1  # ms: 49 days
_CHUNK_BYTES = 1 << 20
SLOTS_SUFFIX = ".slots"


class KeyFile:
    """A file of the key index, made by `begun` or `adopted`. The object opens the operating system's file before
    each use if necessary, so the caller may call `close` at any time."""

    def __init__(self, disk: Disk, path: Path, slots: int, capacity: int, begin_ms: int) -> None:
        self.path = path
        self.first_position = int(path.name)
        self.capacity = capacity
        # Append times of the first and the last batch.
        self.begin_ms = self.end_ms = begin_ms
        # Position of the last batch; -1 before the first batch.
        self.last_position = -1
        self.count = 0
        # Mark of the file with the slots, after this file was sealed.
        self.slots_mark: FileMark | None = None
        self._disk = disk
        self._slots = slots
        self._crc = 0
        # The newest entry of each slot; None after the slots were written to the disk.
        self._heads: npt.NDArray[np.uint32] | None = np.zeros(slots, np.uint32)
        self._file: File | None = None
        self._slots_file: File | None = None

    @classmethod
    def begun(cls, disk: Disk, directory: Path, *, first_position: int, capacity: int, begin_ms: int) -> KeyFile:
        """Return a new file of the key index. If an earlier attempt left a file at the same path, that file is
        overwritten."""
        slots = max(1, capacity // ENTRIES_PER_SLOT)
        made = cls(disk, directory / name_of(first_position), slots, capacity, begin_ms)
        header = HEADER.pack(MAGIC, VERSION, slots, capacity, begin_ms)
        try:
            made._entries().write(0, header)
        except StoreError:
            made.close()
            raise
        made._crc = google_crc32c.value(header)
        return made

    @classmethod
    def adopted(cls, disk: Disk, directory: Path, mark: FileMark, slots_mark: FileMark | None) -> KeyFile | None:
        """Return the file that the marks describe. Return None if a file on disk differs from its mark."""
        path = directory / mark.name
        head = _head(disk, path, mark)
        if head is None or (slots_mark is not None and not _agrees(disk, directory, slots_mark)):
            return None
        found = cls(disk, path, *head)
        found.slots_mark = slots_mark
        if not found._take_up(mark) or (slots_mark and slots_mark.length != found._slots * _SLOT.size):
            found.close()
            return None
        return found

    @property
    def mark(self) -> FileMark:
        return FileMark(self.path.name, HEADER.size + self.count * ENTRY_BYTES, self._crc)

    @property
    def is_sealed(self) -> bool:
        return self._heads is None

    def has_room(self, count: int, append_time_ms: int) -> bool:
        return self.count + count <= self.capacity and append_time_ms - self.begin_ms <= _MAX_TIME

    def put(self, hashes: Hashes, position: int, size: int, append_time_ms: int) -> None:
        """Add an entry for each of `hashes`, the key hashes of the batch at `position`. `hashes` must be distinct
        and ascending. If the call raises an error, no entry was added."""
        assert self._heads is not None
        assert position > self.last_position
        time = append_time_ms - self.begin_ms
        if len(hashes) == 1:  # without numpy's overhead
            hash_ = int(hashes[0])
            data = _ONE_ENTRY.pack(hash_, position, size, time, self.newest(hash_))
            self._write(data)
            self._heads[self._slot(hash_)] = self.count + 1
        else:
            slots = slots_of(hashes, self._slots)
            self._write(self._linked(hashes, slots, position, size, time))
            self._heads[slots] = self._numbers(len(hashes))  # of equal slots the last one stays
        self.count += len(hashes)
        self.last_position, self.end_ms = position, append_time_ms

    def seal(self) -> None:
        """Write the slots to the disk. After `seal` no entry can be added to the file."""
        if self._heads is None:
            return
        data = self._heads.tobytes()
        self._slots_of_disk().write(0, data)
        self.slots_mark = FileMark(self.path.name + SLOTS_SUFFIX, len(data), google_crc32c.value(data))
        self._heads = None

    def newest(self, hash_: int) -> int:
        """Return the number of the newest entry in the slot of this hash; 0 if the slot is empty."""
        slot = self._slot(hash_)
        if self._heads is not None:
            return int(self._heads[slot])
        data = self._slots_of_disk().read(slot * _SLOT.size, _SLOT.size)
        if len(data) < _SLOT.size:
            raise IndexDamagedError(self._slots_path, f"the file ends before slot {slot}")
        return self._judged(_SLOT.unpack(data)[0], self.count + 1)

    def entry(self, number: int) -> tuple[int, int, int, int, int]:
        """Return (hash, position, size, append time in ms, previous) of an entry; `previous` is the entry before it
        in the same slot. Raise `IndexDamagedError` unless `previous` is an older entry."""
        data = self._entries().read(HEADER.size + (number - 1) * ENTRY_BYTES, ENTRY_BYTES)
        if len(data) < ENTRY_BYTES:
            raise self._damaged(number, "the file ends before it")
        hash_, position, size, time, previous = _ONE_ENTRY.unpack(data)
        return hash_, position, size, self.begin_ms + time, self._judged(previous, number)

    def close(self) -> None:
        """Close the file with the entries and the file with the slots. The next use opens the files again."""
        for file in (self._file, self._slots_file):
            if file is not None:
                file.close()
        self._file = self._slots_file = None

    def remove(self) -> None:
        self.close()
        for path in (self.path, self._slots_path):
            remove_file(self._disk, path)

    # -- how entries are linked

    def _slot(self, hash_: int) -> int:
        return (hash_ >> 32) * self._slots >> 32

    def _linked(self, hashes: Hashes, slots: npt.NDArray[np.uint64], position: int, size: int, time: int) -> bytes:
        """Return the encoded key entries of a batch. The field `previous` of each entry is the number of the next
        older entry in the same slot. This older entry is in the same batch, or was the newest entry of the slot
        before this batch."""
        assert self._heads is not None
        previous = self._numbers(len(hashes)) - np.uint32(1)
        first = np.ones(len(slots), np.bool_)
        np.not_equal(slots[1:], slots[:-1], out=first[1:])
        previous[first] = self._heads[slots[first]]
        entries = np.empty(len(hashes), ENTRY)
        entries["hash"] = hashes
        entries["position"] = position
        entries["size"] = size
        entries["time"] = time
        entries["previous"] = previous
        return entries.tobytes()

    def _numbers(self, count: int) -> npt.NDArray[np.uint32]:
        return np.arange(self.count + 1, self.count + 1 + count, dtype=np.uint32)

    # -- the disk

    def _write(self, entries: bytes) -> None:
        """Write these key entries after the last entry of the file."""
        self._entries().write(HEADER.size + self.count * ENTRY_BYTES, entries)
        self._crc = google_crc32c.extend(self._crc, entries)

    def _take_up(self, mark: FileMark) -> bool:
        """Read the entries that the mark covers. Compute the slots, unless the slots are on the disk. Return False
        if the file differs from the mark."""
        file = self._entries()
        length, rest = divmod(mark.length - HEADER.size, ENTRY_BYTES)
        if rest or not 0 < length <= self.capacity:
            return False
        self._crc = google_crc32c.value(file.read(0, HEADER.size))
        while self.count < length:
            count = min(_CHUNK_BYTES // ENTRY_BYTES, length - self.count)
            data = file.read(HEADER.size + self.count * ENTRY_BYTES, count * ENTRY_BYTES)
            if len(data) < count * ENTRY_BYTES:
                return False
            self._crc = google_crc32c.extend(self._crc, data)
            entries = np.frombuffer(data, ENTRY)
            if self.slots_mark is None:
                assert self._heads is not None
                self._heads[slots_of(entries["hash"], self._slots)] = self._numbers(count)
            self.count += count
            self.last_position, self.end_ms = int(entries["position"][-1]), self.begin_ms + int(entries["time"][-1])
        if self.slots_mark is not None:
            self._heads = None
        return self._crc == mark.crc

    def _entries(self) -> File:
        if self._file is None:
            self._file = _opened(self._disk, self.path)
        return self._file

    def _slots_of_disk(self) -> File:
        if self._slots_file is None:
            self._slots_file = _opened(self._disk, self._slots_path)
        return self._slots_file

    @property
    def _slots_path(self) -> Path:
        return self.path.with_name(self.path.name + SLOTS_SUFFIX)

    def _judged(self, number: int, after: int) -> int:
        """Return `number` if entry `number` is older than entry `after`. If entry `number` is not older, raise
        `IndexDamagedError`."""
        if number >= after:
            raise self._damaged(number, "its chain does not lead back")
        return number

    def _damaged(self, number: int, reason: str) -> IndexDamagedError:
        return IndexDamagedError(self.path, f"entry {number}: {reason}")


def slots_of(hashes: Hashes, slots: int) -> npt.NDArray[np.uint64]:
    """Return the slot of each hash, in a file with `slots` slots."""
    return (hashes >> np.uint64(32)) * np.uint64(slots) >> np.uint64(32)


def _opened(disk: Disk, path: Path) -> File:
    return disk.open(path) if disk.exists(path) else disk.create(path, 0)


def _head(disk: Disk, path: Path, mark: FileMark) -> tuple[int, int, int] | None:
    """Return (slots, capacity, begin time) from the file's header. Return None if the file is missing or shorter
    than its mark, or if the header is wrong."""
    if not is_number(path.name) or not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        if file.size < mark.length or mark.length < HEADER.size:
            return None
        magic, version, slots, capacity, begin_ms = HEADER.unpack(file.read(0, HEADER.size))
    finally:
        file.close()
    sound = capacity <= MAX_CAPACITY and slots == max(1, capacity // ENTRIES_PER_SLOT)
    return (slots, capacity, begin_ms) if (magic, version) == (MAGIC, VERSION) and sound else None


def _agrees(disk: Disk, directory: Path, mark: FileMark) -> bool:
    """Return True if the file's bytes up to the marked length have the CRC of the mark."""
    path = directory / mark.name
    if not disk.exists(path):
        return False
    file = disk.open(path)
    try:
        crc = 0
        for at in range(0, mark.length, _CHUNK_BYTES):
            crc = google_crc32c.extend(crc, file.read(at, min(_CHUNK_BYTES, mark.length - at)))
        return file.size >= mark.length and crc == mark.crc
    finally:
        file.close()
