"""Limits how fast learners catch up with the log, so that copying it disturbs clients little.

A learner that is added gets the whole log. Without a limit, the leader would send it as fast as its disk and its
network allow. The limit counts the bytes that the leader sends to its learners together, in addition to the bytes that
it appends meanwhile. So a learner catches up under any load, and a learner that has caught up is never held back.
Voters are not limited, because commits wait for them.
"""

from __future__ import annotations

# So many ticks' bytes may be sent at once after a pause.
BURST_TICKS = 4


class CatchUp:
    """The bytes that a leader may send to its learners now."""

    __slots__ = ("_bytes_per_tick", "_left")

    def __init__(self, bytes_per_tick: int) -> None:
        """`bytes_per_tick` is the limit; 0: there is none."""
        self._bytes_per_tick = bytes_per_tick
        self._left = bytes_per_tick

    @property
    def is_spent(self) -> bool:
        """Return True if learners must wait for the next tick."""
        return self._bytes_per_tick > 0 and self._left <= 0

    def tick(self) -> None:
        self._left = min(self._left + self._bytes_per_tick, BURST_TICKS * self._bytes_per_tick)

    def appended(self, size: int) -> None:
        """Record that the leader appended so many bytes, which each learner needs in addition."""
        self._left += size

    def sent(self, size: int) -> None:
        """Record that the leader sent so many bytes to a learner."""
        self._left -= size
