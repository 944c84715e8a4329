"""Detects that this node was held up, which means that nothing ran on it for longer than an election takes.

A running node ticks regularly. A long gap between two events means that the process or the machine did not run. The
messages that wait after a long gap are old, and another node may lead by then. A leader that was held up commits no
entry and answers no read until a new round of heartbeats confirms that it still leads.
"""

from __future__ import annotations

from collections.abc import Callable


class HeldUp:
    """`HeldUp` measures the time between events. The driver calls the object before every event."""

    def __init__(self, monotonic_ms: Callable[[], float], patience_ms: float) -> None:
        self._monotonic_ms = monotonic_ms
        self._patience_ms = patience_ms
        self._last = monotonic_ms()

    def __call__(self) -> bool:
        """Return True if more than `patience_ms` has passed since the last call."""
        now = self._monotonic_ms()
        passed, self._last = now - self._last, now
        return passed > self._patience_ms
