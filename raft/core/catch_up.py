"""Limits how fast learners catch up with the log, so that copying it disturbs clients little.

A learner that is added gets the whole log. Without a limit, the leader would send it as fast as its disk and its
network allow. One limit is for all servers of a node, because they share its disk and its network. It counts the bytes
that the leaders on the node send to learners, in addition to the bytes that they append meanwhile. So a learner catches
up under any load, and a learner that has caught up is never held back. Voters are not limited, because commits wait for
them.
"""

from __future__ import annotations

# So many ticks' bytes may be sent at once after a pause.
BURST_TICKS = 4


class CatchUpLimit:
    """The bytes that the leaders on one node may send to learners now, in all shards together. Call `tick` at each tick
    of the node."""

    __slots__ = ("_bytes_per_tick", "_left")

    def __init__(self, bytes_per_tick: int = 0) -> None:
        """`bytes_per_tick` is the limit; 0: there is none."""
        self._bytes_per_tick = bytes_per_tick
        self._left = bytes_per_tick

    @property
    def burst(self) -> int:
        """The most bytes that may be sent at once."""
        return BURST_TICKS * self._bytes_per_tick

    @property
    def is_spent(self) -> bool:
        """Return True if learners must wait for the next tick."""
        return self._bytes_per_tick > 0 and self._left <= 0

    def tick(self) -> None:
        self._left = min(self._left + self._bytes_per_tick, self.burst)

    def sent(self, size: int) -> None:
        """Record that a leader sent so many bytes to a learner."""
        self._left -= size


class CatchUp:
    """The bytes that the leader of one shard may send to its learners now."""

    __slots__ = ("_appended", "_limit")

    def __init__(self, limit: CatchUpLimit) -> None:
        self._limit = limit
        # The bytes that were appended for learners a moment ago, and were not sent yet.
        self._appended = 0

    @property
    def is_spent(self) -> bool:
        """Return True if learners must wait."""
        return self._appended <= 0 and self._limit.is_spent

    def tick(self) -> None:
        """Forget what is more than a burst. Otherwise a learner that was down would get all at once what was appended
        meanwhile."""
        self._appended = min(self._appended, self._limit.burst)

    def appended(self, size: int) -> None:
        """Record that the leader appended so many bytes for learners."""
        self._appended += size

    def sent(self, size: int) -> None:
        """Record that the leader sent so many bytes to a learner."""
        free = min(size, self._appended)
        self._appended -= free
        self._limit.sent(size - free)
