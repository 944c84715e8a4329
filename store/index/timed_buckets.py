"""All buckets of the timed index: which bucket a delivery time belongs to, and which buckets are in use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from store.disk.disk import Disk
from store.index.bucket_table import OVERFLOW, BucketRow, BucketTable
from store.index.open_files import OpenFiles
from store.index.timed_bucket import SUFFIXES, Bucket, BucketChange, Located
from store.index.timed_unit import TimedKey, Times, Units

MINUTE_MS = 60_000
_LAST_MINUTE = (1 << 32) - 1
_OPEN_FILES = 64
_BUCKETS_IN_USE = 64


class TimedBuckets:
    def __init__(self, disk: Disk, directory: Path, max_buckets: int, piece_units: int) -> None:
        self._directory = directory
        self._max_buckets = max_buckets
        self._piece_units = piece_units
        self._files = OpenFiles(disk, directory, _OPEN_FILES)
        # Least recently used first.
        self._in_use: OrderedDict[int, Bucket] = OrderedDict()
        self.table = BucketTable(max_buckets)

    def get(self, minute: int) -> Bucket | None:
        """Return the bucket, or None if there is none."""
        bucket = self._in_use.get(minute)
        if bucket is not None:
            self._in_use.move_to_end(minute)
            return bucket
        row = self.table.get(minute)
        return None if row is None else self._used(self._new(row))

    def get_or_begin(self, minute: int) -> Bucket:
        """Return the bucket. A new bucket is in the table after its first change was committed."""
        return self.get(minute) or self._new(self.table.begin(minute))

    def of_times(self, times: Times) -> Times:
        """Return the bucket of each delivery time. If all minutes that may have a bucket have one, other times belong
        to the overflow bucket."""
        minutes = times // MINUTE_MS
        minutes[(minutes < 0) | (minutes > _LAST_MINUTE)] = OVERFLOW
        distinct = np.unique(minutes).tolist()
        having = self.table.room_for(distinct)
        if len(having) < len(distinct):
            minutes[~np.isin(minutes, list(having))] = OVERFLOW
        return minutes

    def split(self, units: Units) -> Iterator[tuple[int, Units]]:
        """Yield each bucket of the units, with its units in the same order."""
        minutes = self.of_times(units["time"])
        if not len(minutes):
            return
        if (minutes == minutes[0]).all():
            yield int(minutes[0]), units
            return
        order = np.argsort(minutes, kind="stable")
        minutes, units = minutes[order], units[order]
        starts = [0, *(np.flatnonzero(np.diff(minutes)) + 1).tolist(), len(minutes)]
        for first, end in pairwise(starts):
            yield int(minutes[first]), units[first:end]

    def locate(self, keys: Sequence[TimedKey]) -> list[tuple[Bucket, Located] | None]:
        """Return the newest unit of each key, with its bucket. Return None for a key that no unit has."""
        found: dict[TimedKey, tuple[Bucket, Located]] = {}
        by_bucket: dict[int, set[int]] = {}
        for key in keys:
            for minute in (minute_of(key.time_ms), OVERFLOW):
                by_bucket.setdefault(minute, set()).add(key.identity)
        for minute, wanted in by_bucket.items():
            if (bucket := self.get(minute)) is None:
                continue
            for located in filter(None, bucket.locate(np.array(sorted(wanted), np.uint64))):
                key = TimedKey(int(located.unit["time"][0]), int(located.unit["identity"][0]))
                if located.waits or key not in found:
                    found[key] = bucket, located
        return [found.get(key) for key in keys]

    def commit(self, changes: Iterable[tuple[Bucket, BucketChange]]) -> None:
        """Let the changes count, all of them. No I/O is done."""
        for bucket, change in changes:
            bucket.commit(change)
            self.table.set(bucket.row)
            self._used(bucket)

    def drop(self, minute: int) -> list[str]:
        """Remove the bucket from the table. Return the names of its files, which stay."""
        bucket = self.get(minute)
        assert bucket is not None
        del self._in_use[minute]
        self.table.set(BucketRow(minute, bucket.row.generation))
        for name in bucket.names():
            self._files.close(name)
        return bucket.names()

    def names(self) -> Iterator[str]:
        """Yield the names of the files of all buckets."""
        for row in self.table.rows():
            yield from self._new(row).names()

    def are_whole(self) -> bool:
        """Return False if a file differs from its length and CRC in the table."""
        return all(self._new(row).is_whole() for row in self.table.rows())

    def clear(self) -> None:
        """Forget all buckets. Numbers of buckets are not used again, because old files may still be removed."""
        self.close()
        self._in_use.clear()
        next_generation, self.table = self.table.next_generation, BucketTable(self._max_buckets)
        self.table.next_generation = next_generation

    def close(self) -> None:
        self._files.close_all()

    def _new(self, row: BucketRow) -> Bucket:
        return Bucket(self._files, self._directory, row, self._piece_units)

    def _used(self, bucket: Bucket) -> Bucket:
        minute = bucket.row.minute
        if minute not in self._in_use and len(self._in_use) >= _BUCKETS_IN_USE:
            self._in_use.popitem(last=False)
        self._in_use[minute] = bucket
        self._in_use.move_to_end(minute)
        return bucket


def minute_of(time_ms: int) -> int:
    """Return the bucket of a delivery time, if it has room there."""
    minute = time_ms // MINUTE_MS
    return minute if 0 <= minute <= _LAST_MINUTE else OVERFLOW


def is_file_of_bucket(name: str) -> bool:
    return name.endswith(SUFFIXES)
