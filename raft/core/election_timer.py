"""The election timer: counts the ticks that a server waits before it stands for election.

The wait is randomized so that votes are rarely split (section 5.2). The caller calls `tick` for each tick of Raft's
clock, and passes `jitter`, the source of random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RaftTiming:
    """`RaftTiming` says after how many ticks heartbeats are sent and elections begin."""

    # Ticks between two heartbeats of a leader.
    heartbeat_ticks: int
    # A follower that hears no leader for this many ticks, plus a random few, stands for election. A leader that hears
    # no majority for this many ticks steps down. Several heartbeats long, so that one lost heartbeat does no harm.
    election_ticks: int

    def __post_init__(self) -> None:
        assert 1 <= self.heartbeat_ticks < self.election_ticks, f"heartbeats must come before elections: {self}"


class ElectionTimer:
    __slots__ = ("_election_ticks", "elapsed", "timeout")

    def __init__(self, timing: RaftTiming, jitter: Callable[[], int]) -> None:
        self._election_ticks = timing.election_ticks
        # Ticks since the timer was last restarted.
        self.elapsed = 0
        # election_ticks <= timeout.
        self.timeout = timing.election_ticks + jitter()
        assert self.timeout >= timing.election_ticks, "jitter only lengthens the wait"

    def tick(self, more_timeouts: int = 0) -> bool:
        """Count one tick. Return True if the election timeout has passed, and `more_timeouts` of the shortest election
        timeouts after it."""
        self.elapsed += 1
        return self.elapsed >= self.timeout + more_timeouts * self._election_ticks

    def restart(self) -> None:
        self.elapsed = 0

    @property
    def is_fresh(self) -> bool:
        """Return True if the last restart of the timer is less than the shortest election timeout ago."""
        return self.elapsed < self._election_ticks
