"""The stall: whether this node's disk keeps up, so that new sends can be refused at once where it does not.

The one idea (RocketMQ's page-cache-busy detection, in one loop): an append that is held up holds up the whole loop,
so it is seen only when it is over; what came in meanwhile is refused, for as long as it took, and then one more is
tried. A flush is seen while it lasts.
"""

from __future__ import annotations

from collections.abc import Callable

_LONGEST = 10
"""Times `busy_ms`: for how long, at most, one slow append has others refused."""


class Stall:
    def __init__(self, busy_ms: int, monotonic_ms: Callable[[], float]) -> None:
        """`busy_ms` 0: nothing is ever refused."""
        self._busy_ms = busy_ms
        self._monotonic_ms = monotonic_ms
        self._slow_ms = 0.0
        self._until_ms = 0.0

    def appended(self, seconds: float) -> None:
        """How long an append took."""
        taken_ms = seconds * 1000
        if self._busy_ms and taken_ms >= self._busy_ms:
            self._slow_ms = taken_ms
            self._until_ms = self._monotonic_ms() + min(taken_ms, _LONGEST * self._busy_ms)

    def reason(self, flushing_ms: float) -> str:
        """Why nothing is to be appended now; empty where it may be. `flushing_ms`: for how long a flush lasts that
        somebody waits for."""
        if self._busy_ms and flushing_ms >= self._busy_ms:
            return f"a flush of the log has taken {flushing_ms:.0f} ms so far"
        if self._monotonic_ms() < self._until_ms:
            return f"the last append to the log took {self._slow_ms:.0f} ms"
        return ""
