"""How long a server waits before it stands: randomized, so that votes are rarely split (section 5.2).

The one idea: time is counted in ticks, and chance comes from outside. Must not know: clocks, roles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    # A leader sends a heartbeat every so many ticks.
    heartbeat_ticks: int
    # A follower that hears nothing for this long, and a little longer by chance, stands; a leader that hears no
    # majority for this long steps down. Several heartbeats, so that a lost one does no harm.
    election_ticks: int

    def __post_init__(self) -> None:
        assert 1 <= self.heartbeat_ticks < self.election_ticks, f"heartbeats must come before elections: {self}"


class ElectionTimer:
    __slots__ = ("_election_ticks", "elapsed", "timeout")

    def __init__(self, timing: Timing, jitter: Callable[[], int]) -> None:
        self._election_ticks = timing.election_ticks
        # Ticks since the timer was started anew.
        self.elapsed = 0
        # election_ticks <= timeout.
        self.timeout = timing.election_ticks + jitter()
        assert self.timeout >= timing.election_ticks, "jitter only lengthens the wait"

    def tick(self) -> bool:
        """Returns whether it is time to stand."""
        self.elapsed += 1
        return self.elapsed >= self.timeout

    def restart(self) -> None:
        self.elapsed = 0

    @property
    def is_fresh(self) -> bool:
        """Whether it was restarted less than the shortest election timeout ago."""
        return self.elapsed < self._election_ticks
