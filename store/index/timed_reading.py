"""Answers questions about waiting messages from the buckets, with bounded memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from store.index.bucket_table import OVERFLOW
from store.index.timed_bucket import COPIES, UNITS, Bucket
from store.index.timed_buckets import MINUTE_MS, TimedBuckets, minute_of
from store.index.timed_select import FirstUnits
from store.index.timed_unit import (
    FIRST_MS,
    LAST_IDENTITY,
    NO_UNITS,
    TimedIndexCursor,
    TimedKey,
    Units,
    WaitingTotal,
    not_after,
    not_among,
)
from store.index.timed_window import TimedWindow


class TimedReading:
    def __init__(self, buckets: TimedBuckets, window_units: int) -> None:
        self._buckets = buckets
        self._window_units = window_units
        # What a leader has read; None on a replica that was not asked for due messages.
        self._window: TimedWindow | None = None
        # If the window is there: no unit of the buckets that it was read from is after its end and before this time.
        self._beyond: int | None = None

    # -- changes of the index

    def was_put(self, units: Units) -> None:
        """Add new units to the window."""
        if self._window is not None:
            self._window.put(units)
            later = units["time"][units["time"] > self._window.end.time_ms]
            if len(later):
                self._beyond = _earlier(self._beyond, int(later.min()))

    def was_cancelled(self, key: TimedKey) -> None:
        """Remove a unit from the window."""
        if self._window is not None:
            self._window.cancel(key)

    def was_copied(self, copies: Units) -> None:
        """Replace units in the window by their copies."""
        if self._window is not None:
            self._window.replace(copies)

    def release(self) -> None:
        """Forget the window."""
        self._window = self._beyond = None

    # -- questions, as `TimedIndex` describes them

    def due(self, through: TimedKey, limit: int, cursor: TimedIndexCursor, skip: Collection[int]) -> Units:
        window = self._window
        if window is not None:
            found = window.due(through, limit, cursor, skip)
            if window.covers(through) or len(found) == limit:
                return found
        return self._filled(through, limit + len(skip), cursor).due(through, limit, cursor, skip)

    def next_ms(self, after: TimedKey, cursor: TimedIndexCursor) -> int | None:
        for is_fresh in (False, True):
            window = self._filled(after, 1, cursor) if is_fresh or self._window is None else self._window
            found = window.next_ms(after)
            if found is not None:
                return found
            if window.covers(after) and not window.is_cut:
                break
        else:
            return window.end.time_ms
        return _earlier(self._beyond, self._first_ms_after(window.end.time_ms))

    def read(self, from_ms: int, to_ms: int, limit: int, after: TimedKey | None, cursor: TimedIndexCursor) -> Units:
        low = None if from_ms <= FIRST_MS else TimedKey(from_ms - 1, LAST_IDENTITY)
        if after is not None:
            low = after if low is None else max(low, after)
        return self._first(low, TimedKey(to_ms - 1, LAST_IDENTITY), limit, cursor)[0]

    def before(self, position: int, limit: int, cursor: TimedIndexCursor, skip: Collection[int]) -> Units:
        found: list[Units] = []
        count = 0
        for minute in self._buckets.table.older_than(position):
            bucket, oldest = self._bucket(minute), []
            for lane in (UNITS, COPIES):
                for units in bucket.pieces_of(lane):
                    oldest.append(int(units["position"][0]))
                    wanted = units[units["position"] < position]
                    wanted = wanted[~cursor.settles(wanted["time"], wanted["identity"])]
                    wanted = wanted[not_among(wanted, skip)][: limit - count]
                    found.append(wanted)
                    count += len(wanted)
                    if count == limit:
                        return np.concatenate(found)
                    if int(units["position"][-1]) >= position:
                        break
            self._note_oldest(bucket, min(oldest, default=position))
        return np.concatenate(found) if found else NO_UNITS

    def count_before(self, time_ms: int, cursor: TimedIndexCursor) -> WaitingTotal:
        messages = size = 0
        for row in self._buckets.table.rows():
            if not row.waiting or row.first_ms >= time_ms:
                continue
            if row.last_ms < time_ms and row.first_ms > cursor.time_ms:
                messages, size = messages + row.waiting, size + row.waiting_bytes
                continue
            for units in self._bucket(row.minute).pieces():
                counted = (units["time"] < time_ms) & ~cursor.settles(units["time"], units["identity"])
                messages += int(np.count_nonzero(counted))
                size += int(units["share"][counted].sum(dtype=np.uint64))
        return WaitingTotal(messages, size)

    # -- inside

    def _filled(self, through: TimedKey, least: int, cursor: TimedIndexCursor) -> TimedWindow:
        """Read a new window. It reaches to the end of the minute of `through`, or has as many units as it may have, and
        not fewer than `least`."""
        count = max(self._window_units, least)
        minute = minute_of(through.time_ms)
        end_ms = through.time_ms if minute == OVERFLOW else (minute + 1) * MINUTE_MS - 1
        self.release()
        units, self._beyond = self._first(None, TimedKey(end_ms, LAST_IDENTITY), count, cursor)
        self._window = TimedWindow(units, end_ms, count)
        return self._window

    def _first(
        self, low: TimedKey | None, high: TimedKey, limit: int, cursor: TimedIndexCursor
    ) -> tuple[Units, int | None]:
        """Return the first units with keys after `low` and up to `high` that `cursor` does not settle. Return also the
        earliest delivery time after `high` that was seen."""
        beyond = None
        first = FirstUnits(max(1, limit))
        for bucket in self._between(low, high):
            last = first.last
            if last is not None and bucket.row.first_ms > last.time_ms:
                break
            for units in bucket.pieces():
                times, identities = units["time"], units["identity"]
                wanted = not_after(times, identities, high)
                later = int(times[~wanted].min()) if not wanted.all() else None
                beyond = _earlier(beyond, later)
                if low is not None:
                    wanted &= ~not_after(times, identities, low)
                first.add(units[wanted & ~cursor.settles(times, identities)])
        return first.sorted()[: max(0, limit)], beyond

    def _between(self, low: TimedKey | None, high: TimedKey) -> Iterator[Bucket]:
        """Yield the buckets that may have waiting units with keys after `low` and up to `high`: the overflow bucket
        first, then the others in the order of time."""
        table = self._buckets.table
        start = 0 if low is None else max(0, low.time_ms // MINUTE_MS)
        for minute in (*table.minutes(end=0), *table.minutes(start)):
            row = table.get(minute)
            assert row is not None
            if row.first_ms > high.time_ms and minute != OVERFLOW:
                return
            if row.waiting and row.first_ms <= high.time_ms and (low is None or row.last_ms >= low.time_ms):
                yield self._bucket(minute)

    def _first_ms_after(self, time_ms: int) -> int | None:
        """Return a bound for the delivery times in the buckets that have only later times than `time_ms`."""
        table = self._buckets.table
        found = None
        for minute in table.minutes(end=0):
            row = table.get(minute)
            if row is not None and row.waiting and row.first_ms > time_ms:
                found = row.first_ms
        for row in table.rows(max(0, time_ms // MINUTE_MS)):
            if row.waiting and row.first_ms > time_ms:
                return _earlier(found, row.first_ms)
        return found

    def _note_oldest(self, bucket: Bucket, position: int) -> None:
        """Note that no waiting unit of the bucket is of an entry before `position`."""
        if position > bucket.row.oldest:
            bucket.begins_at(position)
            self._buckets.table.set(bucket.row)

    def _bucket(self, minute: int) -> Bucket:
        bucket = self._buckets.get(minute)
        assert bucket is not None, "the table has its row"
        return bucket


def _earlier(first: int | None, second: int | None) -> int | None:
    return min((each for each in (first, second) if each is not None), default=None)
