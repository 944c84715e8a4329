"""Computes the longest time without an acknowledged write, from the fault on. All times are given in seconds."""

from __future__ import annotations


class Outage:
    """Collects the times of acknowledgements and of the fault."""

    def __init__(self) -> None:
        self._fault_at: float | None = None
        self._last: float | None = None
        self._longest = 0.0

    def acknowledged(self, now: float) -> None:
        """Record that a write was acknowledged."""
        if self._fault_at is not None:
            since = self._fault_at if self._last is None else self._last
            self._longest = max(self._longest, now - since)
        self._last = now

    def fault(self, now: float) -> None:
        """Record the time of the fault. The outage begins with the last acknowledgement before the fault."""
        self._fault_at = now

    @property
    def longest_ms(self) -> int | None:
        """Return the length in ms of the longest period without an acknowledgement, among the periods that ended
        after the fault. Return None if no write was acknowledged after the fault."""
        return None if self._longest == 0.0 else max(1, round(self._longest * 1000))
