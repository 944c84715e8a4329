"""The window is the part of the timed index that a leader has in memory: the waiting messages that are due next.

    sorted units, once read from the buckets          + units that were put since, merged when there are many
    ├── settled ──┼── due ──┼── due soon ──┤ end      all waiting units with keys up to `end` are in the window

A cancelled unit is marked in place. A copy has the key of its message, so it replaces the message's unit in place.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from store.index.timed_unit import (
    LAST_IDENTITY,
    NO_UNITS,
    UNIT,
    TimedIndexCursor,
    TimedKey,
    Units,
    not_after,
    not_among,
)

# So many new units are kept apart before they are merged into the sorted units.
_MOST_NEW = 4096


class TimedWindow:
    """All waiting units with keys up to `end`."""

    def __init__(self, units: Units, end_ms: int, max_units: int) -> None:
        """`units` has the first `max_units` units up to `end_ms`, sorted by key."""
        self._max_units = max_units
        # Whether there may be more units up to `end_ms`.
        self.is_cut = len(units) >= max_units
        self.end = _last_key(units) if self.is_cut else TimedKey(end_ms, LAST_IDENTITY)
        self._new: dict[int, bytes] = {}
        self._set(units)

    def covers(self, key: TimedKey) -> bool:
        """Return True if a waiting unit with this key must be in the window."""
        return key <= self.end

    def put(self, units: Units) -> None:
        """Add those of the new units that belong into the window."""
        for unit in units[not_after(units["time"], units["identity"], self.end)]:
            self._new[int(unit["identity"])] = unit.tobytes()
        if len(self._new) > _MOST_NEW:
            self._merge()

    def cancel(self, key: TimedKey) -> None:
        """Remove the unit with this key, if the window has it."""
        if self._new.pop(key.identity, None) is None and (place := self._place(key)) is not None:
            self._waits[place] = False

    def replace(self, copies: Units) -> None:
        """Put those of the copies that belong into the window in the places of the units with the same keys."""
        for copy in copies[not_after(copies["time"], copies["identity"], self.end)]:
            key = TimedKey(int(copy["time"]), int(copy["identity"]))
            if key.identity not in self._new and (place := self._place(key)) is not None:
                self._units[place] = copy
            else:
                self._new[key.identity] = copy.tobytes()

    def due(self, through: TimedKey, limit: int, cursor: TimedIndexCursor, skip: Collection[int]) -> Units:
        """Return the first `limit` units with keys up to `through`, sorted by key, that are neither settled by
        `cursor` nor in `skip`. Units that `cursor` settles are forgotten, because cursors do not go back."""
        self._forget(cursor)
        last = self._end_of(through)
        here = slice(self._head, last)
        waits = self._waits[here] & ~cursor.settles(self._times[here], self._identities[here])
        units = self._units[here][waits]
        units = units[not_among(units, skip)][:limit]
        new = self._news()
        new = new[not_after(new["time"], new["identity"], through)]
        if len(new):
            new = new[not_among(new, skip)]
            units = np.concatenate([units, new])
            units = units[np.lexsort((units["identity"], units["time"]))][:limit]
        return units

    def next_ms(self, after: TimedKey) -> int | None:
        """Return the earliest delivery time of the units with keys after `after`, or None if there is none."""
        first = self._end_of(after)
        waiting = np.flatnonzero(self._waits[first:])
        new = self._news()
        times = new["time"][~not_after(new["time"], new["identity"], after)].tolist()
        if len(waiting):
            times.append(int(self._times[first + waiting[0]]))
        return min(times, default=None)

    # -- inside

    def _set(self, units: Units) -> None:
        self._units = units.copy()
        self._times = np.ascontiguousarray(units["time"])
        self._identities = np.ascontiguousarray(units["identity"])
        self._waits = np.ones(len(units), np.bool_)
        # All units before this place are settled or cancelled.
        self._head = 0

    def _merge(self) -> None:
        """Sort the new units into the others. If the window becomes too large, its end moves to an earlier key."""
        units = np.concatenate([self._units[self._head :][self._waits[self._head :]], self._news()])
        units = units[np.lexsort((units["identity"], units["time"]))]
        self._new.clear()
        if len(units) > 2 * self._max_units:
            units = units[: self._max_units]
            self.is_cut, self.end = True, _last_key(units)
        self._set(units)

    def _forget(self, cursor: TimedIndexCursor) -> None:
        here = slice(self._head, self._end_of(TimedKey(cursor.time_ms, cursor.identity)))
        kept = np.flatnonzero(self._waits[here] & ~cursor.settles(self._times[here], self._identities[here]))
        self._head += int(kept[0]) if len(kept) else max(0, here.stop - here.start)
        new = self._news()
        for identity in new["identity"][cursor.settles(new["time"], new["identity"])].tolist():
            del self._new[identity]

    def _news(self) -> Units:
        return np.frombuffer(b"".join(self._new.values()), UNIT) if self._new else NO_UNITS

    def _end_of(self, key: TimedKey) -> int:
        """Return the number of sorted units with keys up to `key`."""
        first = int(np.searchsorted(self._times, key.time_ms, "left"))
        last = int(np.searchsorted(self._times, key.time_ms, "right"))
        return first + int(np.searchsorted(self._identities[first:last], np.uint64(key.identity), "right"))

    def _place(self, key: TimedKey) -> int | None:
        place = self._end_of(key) - 1
        if place < 0 or (int(self._times[place]), int(self._identities[place])) != key:
            return None
        return place


def _last_key(units: Units) -> TimedKey:
    return TimedKey(int(units["time"][-1]), int(units["identity"][-1]))
