"""The timed index finds the messages of a shard that wait for their delivery time.

    delivery time ──> bucket, one for each minute ──> units, appended in the order of the log (timed_bucket.py)
                                                          └── position and size of the entry, place in its batch
    due messages  <── window of a leader (timed_window.py): the first units, sorted by delivery time
    checkpoint    <── mark of the table (timed_journal.py), which has lengths and CRCs of the files of all buckets

Every replica appends the units of committed entries. Nothing stays in memory for a message that waits, except for the
window of a leader, and one bit for each cancelled message of a bucket in use. Files are not flushed. If a file differs
from its mark, the index is built again from the log, as other indexes are.

A delivery time before 1970 or after the year 10,000 belongs to the overflow bucket. So does the time of a minute
without a bucket when there are `max_buckets` already. The overflow bucket is slower, because its minute says nothing
about its times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from store.disk.disk import Disk, remove_file
from store.index.bucket_table import OVERFLOW, BucketRow
from store.index.file_mark import FileMark
from store.index.timed_bucket import PIECE_UNITS, Bucket, Located
from store.index.timed_buckets import MINUTE_MS, TimedBuckets, is_file_of_bucket
from store.index.timed_journal import SUFFIX, TimedDraft, TimedJournal
from store.index.timed_reading import TimedReading
from store.index.timed_unit import (
    NO_UNITS,
    NOTHING_SETTLED,
    Identities,
    TimedIndexCursor,
    TimedKey,
    Times,
    Units,
    WaitingTotal,
    units_of,
)

MAX_BUCKETS = 1 << 16
WINDOW_UNITS = 1 << 16

Numbers = npt.NDArray[np.uint32]


class TimedIndex:
    """The timed index of one shard. A new object is empty: call `adopt`, or `wipe` and then `put` the messages of the
    log again."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        *,
        max_buckets: int = MAX_BUCKETS,
        window_units: int = WINDOW_UNITS,
        piece_units: int = PIECE_UNITS,
    ) -> None:
        """Use the files of `directory`. At most `max_buckets` minutes have a bucket, a leader keeps about
        `window_units` units in memory, and files are read in pieces of `piece_units` units."""
        self._disk = disk
        self._directory = directory
        self._buckets = TimedBuckets(disk, directory, max_buckets, piece_units)
        self._journal = TimedJournal(disk, directory, self._buckets.table)
        self._reading = TimedReading(self._buckets, window_units)
        disk.make_directory(directory)

    # -- what applied entries do

    def put(
        self, identities: Identities, times: Times, position: int, size: int, places: Numbers, shares: Numbers
    ) -> None:
        """Add the messages of the batch in the log entry of `size` bytes at `position`: identities, which must rise,
        delivery times in ms, numbers in the batch, and bytes that each message counts for. Identities that were put
        before are passed over, so a caller may repeat the call. If the call raises an error, nothing was added."""
        units = units_of(identities, times, position, size, places, shares)
        units = units[identities >= np.uint64(self._buckets.table.next_identity)]
        if not len(units):
            return
        changes = []
        for minute, group in self._buckets.split(units):
            bucket = self._buckets.get_or_begin(minute)
            changes.append((bucket, bucket.append(group)))
        self._buckets.commit(changes)
        self._buckets.table.put_through(int(units["identity"][-1]) + 1)
        self._reading.was_put(units)

    def cancel(self, identity: int, time_ms: int) -> int | None:
        """Let the message wait no longer. Return the bytes that it counted for. Return None, and change nothing, if no
        message with this identity and delivery time waits. Messages that were delivered count as waiting here until
        `drop_settled`, so the caller asks the state first."""
        return self.cancel_all([TimedKey(time_ms, identity)])[0]

    def cancel_all(self, keys: Sequence[TimedKey]) -> list[int | None]:
        """Cancel several messages, as `cancel` does, and return the result for each. If a key is there twice, the
        second result is None. If the call raises an error, nothing was cancelled."""
        results: list[int | None] = []
        cancelled: dict[TimedKey, tuple[Bucket, Located]] = {}
        for key, found in zip(keys, self._buckets.locate(keys), strict=True):
            if found is None or not found[1].waits or key in cancelled:
                results.append(None)
            else:
                cancelled[key] = found
                results.append(int(found[1].unit["share"][0]))
        old: dict[Bucket, list[Located]] = {}
        for bucket, located in cancelled.values():
            old.setdefault(bucket, []).append(located)
        self._buckets.commit([(bucket, bucket.replace(units, NO_UNITS)) for bucket, units in old.items()])
        for key in cancelled:
            self._reading.was_cancelled(key)
        return results

    def replace(
        self, identities: Identities, times: Times, position: int, size: int, places: Numbers, shares: Numbers
    ) -> None:
        """Note that these messages were copied to the log entry of `size` bytes at `position`. A message that is
        unknown, because the log begins after its first entry, is added. The call passes over messages that wait no
        longer, and over copies that are known, so a caller may repeat it. If the call raises an error, nothing was
        changed."""
        copies = units_of(identities, times, position, size, places, shares)
        keys = [TimedKey(*key) for key in zip(times.tolist(), identities.tolist(), strict=True)]
        first = {key.identity: number for number, key in reversed(list(enumerate(keys)))}
        buckets: dict[int, Bucket] = {}
        old: dict[int, list[Located]] = {}
        new: dict[int, list[Units]] = {}
        unknown = []
        for number, (key, found) in enumerate(zip(keys, self._buckets.locate(keys), strict=True)):
            if first[key.identity] != number:
                continue
            if found is None:
                unknown.append(number)
            elif found[1].waits and int(found[1].unit["position"][0]) < position:
                minute = found[0].row.minute
                buckets[minute] = found[0]
                old.setdefault(minute, []).append(found[1])
                new.setdefault(minute, []).append(copies[number : number + 1])
        for minute, group in self._buckets.split(copies[unknown]):
            new.setdefault(minute, []).append(group)
        changes = []
        for minute, pieces in new.items():
            bucket = buckets.get(minute) or self._buckets.get_or_begin(minute)
            group = np.concatenate(pieces)
            group = group[np.argsort(group["identity"])]
            changes.append((bucket, bucket.replace(old.get(minute, []), group)))
        self._buckets.commit(changes)
        for _, change in changes:
            self._reading.was_copied(change.copies)

    def drop_settled(self, cursor: TimedIndexCursor) -> None:
        """Remove the buckets of all minutes that end at or before the time of the cursor, if the cursor settles all
        their messages. Their files stay until a checkpoint does not need them."""
        for row in self._dropping(cursor):
            self._journal.drop(self._buckets.drop(row.minute))

    # -- questions

    @property
    def total(self) -> WaitingTotal:
        """Return how many messages wait, and the bytes that they count for. Messages that were delivered are included
        until their bucket is dropped."""
        return WaitingTotal(self._buckets.table.waiting, self._buckets.table.waiting_bytes)

    def get(self, identity: int, time_ms: int) -> Units | None:
        """Return the unit of the message, an array of one unit, or None if no such message waits."""
        return self.find([TimedKey(time_ms, identity)])[0]

    def find(self, keys: Sequence[TimedKey]) -> list[Units | None]:
        """Return for each key what `get` returns for it."""
        located = self._buckets.locate(keys)
        return [found[1].unit if found is not None and found[1].waits else None for found in located]

    def due(self, through: TimedKey, limit: int, cursor: TimedIndexCursor, skip: Collection[int] = ()) -> Units:
        """Return the first `limit` units with keys up to `through`, sorted by key, that are neither settled by
        `cursor` nor in `skip`, a set of identities. All such units are returned up to the key of the last one. The
        cursor must not go back between two calls."""
        return self._reading.due(through, limit, cursor, skip)

    def next_ms(self, after: TimedKey, cursor: TimedIndexCursor) -> int | None:
        """Return the next delivery time after a key, None if no message waits there. The result may be too early if
        messages were cancelled. A result at or before `after` means that more messages are due up to `after` than a
        leader keeps in memory."""
        return self._reading.next_ms(after, cursor)

    def read(
        self,
        from_ms: int,
        to_ms: int,
        limit: int,
        after: TimedKey | None = None,
        cursor: TimedIndexCursor = NOTHING_SETTLED,
    ) -> Units:
        """Return the first `limit` units with delivery times in [from_ms, to_ms) and keys after `after`, sorted by
        key, that `cursor` does not settle."""
        return self._reading.read(from_ms, to_ms, limit, after, cursor)

    def before(self, position: int, limit: int, cursor: TimedIndexCursor, skip: Collection[int] = ()) -> Units:
        """Return at most `limit` units of entries before `position` that are neither settled by `cursor` nor in
        `skip`. After their copies were applied, the next call returns the next ones."""
        return self._reading.before(position, limit, cursor, skip)

    def count_before(self, time_ms: int, cursor: TimedIndexCursor) -> WaitingTotal:
        """Return how many messages with delivery times before `time_ms` wait that `cursor` does not settle, and the
        bytes that they count for. Reads the buckets at both ends."""
        return self._reading.count_before(time_ms, cursor)

    def release(self) -> None:
        """Free the memory that a leader needs. The next call of `due` reads the buckets again."""
        self._reading.release()

    # -- across starts

    def draft(self) -> TimedDraft:
        """Return what `write` must write for a checkpoint of this moment."""
        return self._journal.draft()

    def write(self, draft: TimedDraft) -> list[FileMark]:
        """Write the part of a checkpoint that describes this index, and return its file marks. Another thread may
        call `write`, but only for one draft at a time, in the order of the drafts."""
        return self._journal.write(draft)

    def remove(self, draft: TimedDraft) -> None:
        """Remove the files that only older checkpoints need. Call it after the checkpoint of `draft` is durable, in
        the thread that called `write`."""
        self._journal.remove(draft)

    def adopt(self, marks: Iterable[FileMark]) -> bool:
        """Use the existing files that `marks` describes, and remove others. Bytes after the marked lengths are
        overwritten. Return False if a file differs; the caller must then call `wipe` and fill the index again. Call
        `adopt` only on a new object."""
        table = list(marks)
        if len(table) > 1 or not all(self._journal.adopt(mark) for mark in table):
            return False
        whole = self._buckets.are_whole()
        self._buckets.close()
        if whole:
            self._remove_all_but({*self._buckets.names(), *(mark.name for mark in table)})
        return whole

    def wipe(self) -> None:
        """Remove all units and all files, also files of earlier runs."""
        self._buckets.clear()
        self._journal.wipe(self._buckets.table)
        self._reading.release()
        self._remove_all_but(set())

    def close(self) -> None:
        """Close the files. The index opens the files again when it needs them."""
        self._buckets.close()

    def _remove_all_but(self, kept: Collection[str]) -> None:
        for name in self._disk.list(self._directory):
            if name not in kept and (is_file_of_bucket(name) or name.endswith(SUFFIX)):
                remove_file(self._disk, self._directory / name)

    def _dropping(self, cursor: TimedIndexCursor) -> list[BucketRow]:
        minutes = self._buckets.table.minutes(end=cursor.time_ms // MINUTE_MS)
        rows = [row for minute in minutes if (row := self._buckets.table.get(minute)) is not None]
        return [
            row for row in rows if row.newest < cursor.seen and (row.minute != OVERFLOW or row.last_ms < cursor.time_ms)
        ]
