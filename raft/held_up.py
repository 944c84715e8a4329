"""Notices that this node was held up: nothing happened on it for longer than an election takes.

A node that is alive ticks, so a longer silence means that the process was stopped, or its machine was.
What then lies in its mail is of an earlier time, and it asks anew before it believes any of it.
"""

from __future__ import annotations

from collections.abc import Callable


class HeldUp:
    """To be asked before every event."""

    def __init__(self, monotonic_ms: Callable[[], float], patience_ms: float) -> None:
        self._monotonic_ms = monotonic_ms
        self._patience_ms = patience_ms
        self._last = monotonic_ms()

    def __call__(self) -> bool:
        """Whether more than the patience has passed since it was asked last."""
        now = self._monotonic_ms()
        passed, self._last = now - self._last, now
        return passed > self._patience_ms
