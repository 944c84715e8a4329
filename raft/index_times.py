"""Remembers when a rising index was reached, for a bounded number of steps.

    steps       (index 120, 3.1 ms)   (index 124, 3.9 ms)   (index 131, 4.0 ms)
    entry 123   ── the first step that reaches it ──> 3.9 ms

One group write raises the last index by many entries at once, so a step is a group write and not an entry. Adding a
step takes the same time whatever is remembered.
"""

from __future__ import annotations

from array import array


class IndexTimes:
    """The times of the last steps of one index. Times are in ms, by the clock of the caller."""

    __slots__ = ("_capacity", "_count", "_indexes", "_start", "_times", "forgotten", "last")

    def __init__(self, capacity: int, forgotten: int = 0) -> None:
        """Remember at most `capacity` steps. Nothing is known of the entries up to `forgotten`."""
        # Nothing is remembered of the entries up to here; forgotten <= the index of every step.
        self.forgotten = forgotten
        # The index of the newest step, or `forgotten` if there is none.
        self.last = forgotten
        self._capacity = capacity
        # A ring: the step i, counted from the oldest, is at (_start + i) % _capacity. The arrays grow up to _capacity.
        self._indexes = array("q")
        self._times = array("d")
        self._start = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def reached(self, index: int, time_ms: float) -> None:
        """Record that the index rose to `index` at this time. A step that does not raise the index is ignored."""
        if index <= self.last:
            return
        if self._count == self._capacity:
            self.forgotten = self._indexes[self._start]
            self._start = (self._start + 1) % self._capacity
        else:
            self._count += 1
        at = (self._start + self._count - 1) % self._capacity
        if at == len(self._indexes):
            self._indexes.append(index)
            self._times.append(time_ms)
        else:
            self._indexes[at], self._times[at] = index, time_ms
        self.last = index

    def time_of(self, index: int) -> float | None:
        """Return when the entry `index` was reached, in ms, or None if it was not, or is not remembered."""
        if not self.forgotten < index <= self.last:
            return None
        low, high = 0, self._count - 1
        while low < high:
            middle = (low + high) // 2
            if self._indexes[self._at(middle)] < index:
                low = middle + 1
            else:
                high = middle
        return self._times[self._at(low)]

    def cut(self, last_index: int) -> None:
        """Forget the steps beyond `last_index`, because the log was cut there. A step that reached further counts as a
        step to `last_index`."""
        while self._count and self.last > last_index:
            before = self._indexes[self._at(self._count - 2)] if self._count > 1 else self.forgotten
            if before < last_index:
                self._indexes[self._at(self._count - 1)] = self.last = last_index
                return
            self._count -= 1
            self.last = before
        if not self._count:
            self.forgotten = self.last = min(self.forgotten, last_index)

    def begin_after(self, index: int) -> None:
        """Forget everything: the next step begins behind `index`."""
        self._start = self._count = 0
        self.forgotten = self.last = index

    def _at(self, step: int) -> int:
        return (self._start + step) % self._capacity
