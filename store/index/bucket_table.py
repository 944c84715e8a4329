"""The table of the timed index: one row for each bucket, in memory, and on disk in a file that only grows.

    <directory>/<20 digits>.table      rows of the buckets that changed since the last checkpoint, then the head row;
                                       and so on for each checkpoint

A checkpoint needs the length and the CRC of each file of each bucket. There may be tens of thousands of buckets, so
a checkpoint has only one mark: that of the table. The last row of a bucket in the file counts. If the file has many
rows that no longer count, the next checkpoint begins a new file. A row is 104 bytes in memory too.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

ROW = np.dtype(
    [
        ("minute", "<i8"), ("generation", "<u8"), ("units", "<u8"), ("copies", "<u8"), ("tombstones", "<u8"),
        ("units_crc", "<u4"), ("copies_crc", "<u4"), ("tombstones_crc", "<u4"), ("unused", "<u4"),
        ("first_ms", "<i8"), ("last_ms", "<i8"), ("newest", "<u8"), ("oldest", "<i8"),
        ("waiting", "<u8"), ("waiting_bytes", "<u8"),
    ]
)  # fmt: skip
ROW_BYTES = 104
assert ROW.itemsize == ROW_BYTES

Rows = npt.NDArray[np.void]

# The bucket for all times that have no bucket of their own. It sorts before all others.
OVERFLOW = -1
_HEAD = -2


class BucketRow(NamedTuple):
    """What is known about one bucket without reading its files. A bucket without units is no bucket any more."""

    minute: int
    # Number of the bucket among all that were ever begun. It is a part of the names of the files.
    generation: int
    units: int = 0
    copies: int = 0
    tombstones: int = 0
    units_crc: int = 0
    copies_crc: int = 0
    tombstones_crc: int = 0
    unused: int = 0
    # No unit has an earlier or a later delivery time.
    first_ms: int = 0
    last_ms: int = 0
    # The largest identity.
    newest: int = 0
    # No unit without a tombstone is of an entry before this position.
    oldest: int = 0
    # Number of units without a tombstone, and the sum of their shares.
    waiting: int = 0
    waiting_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        return self.units == self.copies == 0


class BucketTable:
    def __init__(self, max_buckets: int) -> None:
        self._max_buckets = max_buckets
        self._rows = np.zeros(16, ROW)
        # Place of the row of each bucket.
        self._places: dict[int, int] = {}
        self._free = list(range(len(self._rows)))
        self._minutes: list[int] = []
        # The change that changed a bucket last, for each bucket whose row is not in the file yet.
        self._changed: dict[int, int] = {}
        self._changes = 0
        # All identities below this one were put.
        self.next_identity = 0
        self.next_generation = 0
        self.waiting = 0
        self.waiting_bytes = 0

    def __len__(self) -> int:
        return len(self._minutes)

    def get(self, minute: int) -> BucketRow | None:
        place = self._places.get(minute)
        return None if place is None else BucketRow(*self._rows[place].item())

    def room_for(self, minutes: list[int]) -> set[int]:
        """Return those of the minutes that have or can get a bucket of their own, the first ones first."""
        new = [minute for minute in minutes if minute not in self._places]
        room = max(0, self._max_buckets - len(self._minutes))
        return set(minutes) - set(new[room:]) - {OVERFLOW}

    def begin(self, minute: int) -> BucketRow:
        """Return the row of a new bucket. The bucket is in the table after `set`."""
        self.next_generation += 1
        return BucketRow(minute, self.next_generation - 1)

    def set(self, row: BucketRow) -> None:
        """Replace the row of a bucket. An empty row removes the bucket."""
        self._note(row.minute)
        self._store(row)

    def put_through(self, next_identity: int) -> None:
        """Note that all identities below `next_identity` were put."""
        self.next_identity = next_identity
        self._note(_HEAD)

    def minutes(self, first: int = OVERFLOW, end: int | None = None) -> list[int]:
        """Return the buckets from `first` on and before `end`, ascending."""
        last = len(self._minutes) if end is None else bisect_left(self._minutes, end)
        return self._minutes[bisect_left(self._minutes, first) : last]

    def rows(self, first: int = OVERFLOW) -> Iterator[BucketRow]:
        """Yield the rows of the buckets from `first` on, ascending. The table must not change meanwhile."""
        for index in range(bisect_left(self._minutes, first), len(self._minutes)):
            yield BucketRow(*self._rows[self._places[self._minutes[index]]].item())

    def older_than(self, position: int) -> list[int]:
        """Return the buckets that may have waiting units of entries before `position`, ascending."""
        rows = self._rows
        found = (rows["waiting"] > 0) & (rows["oldest"] < position)
        return sorted(rows["minute"][found].tolist())

    # -- on disk

    @property
    def changes(self) -> int:
        """The number of changes until now."""
        return self._changes

    def forget_changes(self, through: int) -> None:
        """Note that the file has all changes up to number `through`."""
        self._changed = {minute: number for minute, number in self._changed.items() if number > through}

    def changed_rows(self) -> bytes:
        """Return the rows that the file lacks, and the head row; b"" if the file lacks none."""
        if not self._changed:
            return b""
        minutes = [minute for minute in self._changed if minute != _HEAD]
        places = [self._places[minute] for minute in minutes if minute in self._places]
        gone = [BucketRow(minute, 0) for minute in minutes if minute not in self._places]
        return self._rows[places].tobytes() + np.array([*gone, self._head()], ROW).tobytes()

    def all_rows(self) -> bytes:
        """Return the rows of all buckets, and the head row."""
        places = [self._places[minute] for minute in self._minutes]
        return self._rows[places].tobytes() + np.array([self._head()], ROW).tobytes()

    def load(self, data: bytes) -> bool:
        """Fill the empty table with the rows of a file. Return False if the rows contradict each other."""
        rows = np.frombuffer(data, ROW)
        if not len(rows) or rows["minute"][-1] != _HEAD:
            return False
        head = BucketRow(*rows[-1].item())
        self.next_identity, self.next_generation = head.newest, head.generation
        last = {minute: place for place, minute in enumerate(rows["minute"].tolist()) if minute != _HEAD}
        for place in last.values():
            row = BucketRow(*rows[place].item())
            if row.minute < OVERFLOW or (not row.is_empty and row.generation >= self.next_generation):
                return False
            self._store(row)
        return True

    def _head(self) -> BucketRow:
        return BucketRow(_HEAD, self.next_generation, newest=self.next_identity)

    def _note(self, minute: int) -> None:
        self._changes += 1
        self._changed[minute] = self._changes

    def _store(self, row: BucketRow) -> None:
        place = self._places.get(row.minute)
        if place is not None:
            self.waiting -= int(self._rows["waiting"][place])
            self.waiting_bytes -= int(self._rows["waiting_bytes"][place])
        if row.is_empty:
            if place is not None:
                self._remove(row.minute, place)
            return
        if place is None:
            place = self._add(row.minute)
        self._rows[place] = tuple(row)
        self.waiting += row.waiting
        self.waiting_bytes += row.waiting_bytes

    def _add(self, minute: int) -> int:
        if not self._free:
            count = len(self._rows)
            self._rows = np.concatenate([self._rows, np.zeros(count, ROW)])
            self._free.extend(range(count, 2 * count))
        place = self._places[minute] = self._free.pop()
        insort(self._minutes, minute)
        return place

    def _remove(self, minute: int, place: int) -> None:
        del self._places[minute]
        del self._minutes[bisect_left(self._minutes, minute)]
        self._rows[place] = np.zeros((), ROW)
        self._free.append(place)
