"""The stall detector: detects that this node's disk is too slow, so that the node refuses new sends at once.

The detector uses the rule with which RocketMQ detects a busy page cache, adapted to one event loop. A slow append
blocks the whole event loop, so the node detects a slow append only after its end. After a slow append, the node
refuses new sends for as long as the append took. When the node no longer refuses new sends, it tries the next append.
A flush runs on a helper thread, so the node detects a slow flush while the flush runs.
"""

from __future__ import annotations

from collections.abc import Callable

# One slow append makes the node refuse sends for at most this many times `busy_ms`.
_LONGEST = 10


class Stall:
    def __init__(self, busy_ms: int, monotonic_ms: Callable[[], float]) -> None:
        """`busy_ms` is the duration of an append or flush that is too slow. With 0, no send is ever refused."""
        self._busy_ms = busy_ms
        self._monotonic_ms = monotonic_ms
        self._slow_ms = 0.0
        self._until_ms = 0.0

    def appended(self, seconds: float) -> None:
        """Record that an append took `seconds`."""
        taken_ms = seconds * 1000
        if self._busy_ms and taken_ms >= self._busy_ms:
            self._slow_ms = taken_ms
            self._until_ms = self._monotonic_ms() + min(taken_ms, _LONGEST * self._busy_ms)

    def reason(self, flushing_ms: float) -> str:
        """Return the reason why new sends are refused now, or "" if they are accepted. `flushing_ms` is the
        duration of the running flush for which sends wait, or 0 if sends wait for no flush."""
        if self._busy_ms and flushing_ms >= self._busy_ms:
            return f"a flush of the log has taken {flushing_ms:.0f} ms so far"
        if self._monotonic_ms() < self._until_ms:
            return f"the last append to the log took {self._slow_ms:.0f} ms"
        return ""
