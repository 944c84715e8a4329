"""The lease time of a shard: the clock by which leases end, counted by one leader after another.

    state of the shard   | time 0 ........ 41,000 |         ........ 55,200 |
    leader               | node 2: + 41 s         |  none   node 3: + 14.2 s| ...

When a leader knows the end of the log, it takes the lease time from the state. From then on it adds the time of its
steady clock. Each `ChangeLeases` entry brings the state up to the leader. Lease time never runs faster than real time,
so no lease ends early, however often leaders change and whatever wall clocks do. Time without a leader does not count.
What a leader counted after its last entry is lost with it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ledger.state.lease_window import Slots

# While leases run, a leader writes its lease time at least so often. A failover lengthens a lease by at most this, and
# the time without a leader.
TIME_ENTRY_MS = 5_000


class LeaseClock:
    """Counts the lease time of one shard while this node leads. `steady_s` is a clock in seconds that never leaps."""

    def __init__(self, steady_s: Callable[[], float]) -> None:
        self._steady_s = steady_s
        self._begin_ms = 0
        self._began_s = steady_s()

    def begin(self, time_ms: int) -> None:
        """Count on from the lease time of the state. Call this when the node knows the end of the log."""
        self._begin_ms, self._began_s = time_ms, self._steady_s()

    def now_ms(self) -> int:
        """Return the lease time now, in ms."""
        return self._begin_ms + round((self._steady_s() - self._began_s) * 1000)


def are_free(slots: Slots, now_ms: int) -> NDArray[np.bool_]:
    """Return which of these slots may be leased at the lease time `now_ms`. Settled slots count as free."""
    return np.asarray(slots["free_ms"] <= now_ms)


def next_free_s(slots: Slots, now_ms: int) -> float | None:
    """Return the seconds until the first of these slots that is not free may be leased, or None if all are free."""
    free_ms = slots["free_ms"][(slots["is_settled"] == 0) & ~are_free(slots, now_ms)]
    return (int(free_ms.min()) - now_ms) / 1000 if len(free_ms) else None
