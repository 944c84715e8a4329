"""Reads the waiting messages of a timed index as a checkpoint has it, and changes no file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from store.disk.disk import PosixReadOnlyDisk
from store.index.file_mark import FileMark
from store.index.timed_bucket import PIECE_UNITS
from store.index.timed_buckets import TimedBuckets
from store.index.timed_journal import TimedJournal
from store.index.timed_reading import TimedReading
from store.index.timed_unit import FIRST_MS, LAST_MS, NO_UNITS, TimedIndexCursor, Units

_MAX_BUCKETS = 1 << 16


def waiting_units(directory: Path, marks: Sequence[FileMark], cursor: TimedIndexCursor) -> Units | None:
    """Return the units of the messages that wait and that `cursor` does not settle, sorted by key. Return None if a
    file in `directory` differs from its mark. Raises StoreError if a file cannot be read, or if a unit is damaged."""
    if not marks:
        return NO_UNITS  # the index was never used
    # Reading needs only what a read-only disk has.
    disk = cast("Any", PosixReadOnlyDisk())
    buckets = TimedBuckets(disk, directory, _MAX_BUCKETS, PIECE_UNITS)
    journal = TimedJournal(disk, directory, buckets.table)
    try:
        if len(marks) > 1 or not journal.adopt(marks[0]) or not buckets.are_whole():
            return None
        count = max(1, buckets.table.waiting)
        return TimedReading(buckets, count).read(FIRST_MS, LAST_MS + 1, count, None, cursor)
    finally:
        buckets.close()
