"""Selects the units with the smallest keys from a bucket of any size, with bounded memory."""

from __future__ import annotations

import numpy as np

from store.index.timed_unit import END, NO_UNITS, TimedKey, Units, not_after


class FirstUnits:
    """Keeps the `limit` units with the smallest keys among all units that are added. Between two cuts, it keeps at
    most four times as many units, and one piece."""

    def __init__(self, limit: int) -> None:
        assert limit > 0
        self._limit = limit
        self._pieces: list[Units] = []
        self._count = 0
        # No unit with a key after this key is among the first ones.
        self._last = END

    def add(self, units: Units) -> None:
        """Add units in any order. The added array must not be changed later."""
        if self._last is not END:
            units = units[not_after(units["time"], units["identity"], self._last)]
        if len(units):
            self._pieces.append(units)
            self._count += len(units)
            if self._count >= 4 * self._limit:
                self._cut()

    @property
    def last(self) -> TimedKey | None:
        """The largest key of the first `limit` units that were added; None if fewer units were added."""
        if self._count < self._limit:
            return None
        self._cut()
        return self._last

    def sorted(self) -> Units:
        """Return the first units in the order of their keys, at most `limit`."""
        self._cut()
        units = self._pieces[0] if self._pieces else NO_UNITS
        return units[np.lexsort((units["identity"], units["time"]))]

    def _cut(self) -> None:
        units = np.concatenate(self._pieces) if len(self._pieces) > 1 else (self._pieces or [NO_UNITS])[0]
        if len(units) >= self._limit:
            self._last = _key_at(units, self._limit - 1)
            units = units[not_after(units["time"], units["identity"], self._last)][: self._limit]
        self._pieces, self._count = [units], len(units)


def _key_at(units: Units, rank: int) -> TimedKey:
    """Return the key that would be at this place if the units were sorted by key."""
    time = np.partition(units["time"], rank)[rank]
    identities = units["identity"][units["time"] == time]
    before = int(np.count_nonzero(units["time"] < time))
    return TimedKey(int(time), int(np.partition(identities, rank - before)[rank - before]))
