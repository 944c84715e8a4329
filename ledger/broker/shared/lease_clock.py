"""Says when a lease has ended. Append times alone would do that, but a wall clock can leap.

A lease ends at an append time. The leader also waits until as much time has passed on its steady clock. Two moments
begin an *era*: a node begins to lead, and so knows the append times of leases but not how long ago they were; or the
wall clocks of a majority leap forward. A lease from before an era has ended only if what was left of it at the
beginning of the era has passed on the steady clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledger.state.lease_window import Slots

# The wall clock gained so much on the steady clock between two looks: it leapt.
LEAP_MS = 250
# With more eras the oldest one is forgotten.
MAX_ERAS = 16


class Era(NamedTuple):
    """Leases of entries before `first_index` were granted before the era. At the steady time `steady_ms` the append
    time was `append_ms`, as far as these leases are concerned."""

    first_index: int
    append_ms: float
    steady_ms: float


class LeaseClock:
    """The clock of one leader. `steady_ms` is a clock in ms that never leaps."""

    def __init__(self, steady_ms: Callable[[], float]) -> None:
        self._steady_ms = steady_ms
        self._eras: list[Era] = []
        self._skew_ms = 0.0
        self._steady_now = 0.0
        self._now_ms = 0

    def begin(self, first_index: int, last_ms: int, now_ms: int) -> None:
        """Begin to lead. `last_ms` is the last append time of the leaders before, and entries from `first_index` on are
        those of this leader."""
        self._steady_now = self._steady_ms()
        self._eras = [Era(first_index, last_ms, self._steady_now)]
        self._skew_ms = now_ms - self._steady_now
        self._now_ms = now_ms

    def look(self, now_ms: int, next_index: int) -> None:
        """Note the present append time, and the index that the next entry gets. Call this once in each turn."""
        self._steady_now = self._steady_ms()
        skew_ms = now_ms - self._steady_now
        if skew_ms - self._skew_ms > LEAP_MS:
            self._eras.append(Era(next_index, self._steady_now + self._skew_ms, self._steady_now))
            del self._eras[:-MAX_ERAS]
        self._skew_ms = skew_ms
        self._now_ms = now_ms

    @property
    def now_ms(self) -> int:
        """The append time at the last look, in ms since 1970."""
        return self._now_ms

    def are_free(self, slots: Slots) -> NDArray[np.bool_]:
        """Return which of these slots may be leased now. Settled slots count as free."""
        free_ms, leases = slots["free_ms"], slots["lease"]
        free = np.asarray(free_ms <= self._now_ms)
        for era in self._eras:
            passed_ms = self._steady_now - era.steady_ms
            is_held = (leases > 0) & (leases < era.first_index) & (free_ms - era.append_ms > passed_ms)
            free &= ~is_held
        return free

    def next_free_s(self, slots: Slots) -> float | None:
        """Return the seconds until the first of these slots that is not free may be leased, or None if all are free."""
        open_slots = slots[(slots["is_settled"] == 0) & ~self.are_free(slots)]
        if not len(open_slots):
            return None
        left_ms = np.maximum(open_slots["free_ms"] - self._now_ms, 0).astype(np.float64)
        for era in self._eras:
            is_held = (open_slots["lease"] > 0) & (open_slots["lease"] < era.first_index)
            era_left_ms = open_slots["free_ms"] - era.append_ms - (self._steady_now - era.steady_ms)
            left_ms = np.where(is_held, np.maximum(left_ms, era_left_ms), left_ms)
        return float(left_ms.min()) / 1000
