"""The clock by which a leader dates entries: its own wall clock, as far as the wall clocks of the other voters agree.

Each voter tells its wall clock in its answers to heartbeats and vote requests. The leader carries each told time
forward with its steady clock. The *majority time* is the newest time that the clocks of a majority of voters have
reached:

    three voters   ── 10:00:00 ────── 10:00:01 ─────────────────────────── next day 10:00:00 ──>
                      a voter          majority time of a leader            the leader's own clock
                                       in the middle                        has leapt

The leader dates entries with its own wall clock, but never more than `TOLERANCE_MS` before or after the majority time.
So the wrong clock of one node moves the append times of the log by at most this tolerance, and the majority time is
right as long as a majority of the clocks is.

A shard with one voter has no other clock to ask, and neither has a leader that was told no times. Such a leader
compares its wall clock with its steady clock. After a leap of more than the tolerance it continues by the steady clock.
If the wall clock is still there after `DOUBT_MS`, an operator has set it, or the machine was suspended, and it counts
again.

A wall clock may leap. A steady clock never does, and has no relation to the time of day.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from raft.core.quorum import majority

# Clocks of nodes may differ by this time, in ms, without any effect. NTP keeps them far closer.
TOLERANCE_MS = 5_000

# A told time is carried forward for at most so long. Meanwhile the steady clock drifts by less than 0.1 s.
TOLD_LIFE_MS = 600_000

# Without other clocks, a wall clock that has leapt counts again after this time.
DOUBT_MS = 60_000

# No clock is right after the year 9999, so a larger time is not believed.
MAX_WALL_MS = 253_402_300_799_999

# In every tick the time would cost too much with many shards.
_LOOK_TICKS = 10


class ClusterClock:
    """The clock of one shard, on one node. All times are in ms; wall times are since 1970."""

    def __init__(self, node: int, wall_ms: Callable[[], int], steady_ms: Callable[[], float]) -> None:
        self._node = node
        self._wall_ms = wall_ms
        self._steady_ms = steady_ms
        # By node: (its wall clock minus this node's steady clock, the steady time at which it was told).
        self._told: dict[int, tuple[float, float]] = {}
        # The last agreed time minus the steady time.
        self._offset = wall_ms() - steady_ms()
        # The steady time since which the wall clock of a node without other clocks is doubted; None: it is believed.
        self._doubted_since: float | None = None
        self._ticks = 0

    def wall_ms(self) -> int:
        """Return this node's own wall clock, as it is told to other nodes; 0 if no node would believe it."""
        return believable(self._wall_ms())

    def heard(self, node: int, wall_ms: int) -> None:
        """Record the wall clock that another voter told just now. Programs from before this field tell 0. An impossible
        time counts as not told."""
        if believable(wall_ms):
            steady = self._steady_ms()
            self._told[node] = (wall_ms - steady, steady)
        else:
            self._told.pop(node, None)

    def tick(self, voters: Sequence[int]) -> None:
        """Follow the clocks, also while no entry is dated. Call `tick` regularly."""
        self._ticks += 1
        if self._ticks % _LOOK_TICKS == 0:
            self.now_ms(voters)

    def now_ms(self, voters: Sequence[int]) -> int:
        """Return the time for a new entry of a shard with these voters."""
        wall, steady = self._wall_ms(), self._steady_ms()
        middle = majority_time(self._clocks(voters, wall, steady), len(voters))
        if middle is None or len(voters) == 1:
            return self._alone(wall, steady)
        agreed = min(max(wall, middle - TOLERANCE_MS), middle + TOLERANCE_MS)
        self._offset, self._doubted_since = agreed - steady, None
        return round(agreed)

    def passed_ms(self, voters: Sequence[int]) -> int | None:
        """Return the time that the clocks of a majority of these voters have passed, or None if too few clocks are
        known. A node without other voters returns the time of `now_ms`."""
        wall, steady = self._wall_ms(), self._steady_ms()
        if len(voters) == 1:
            return self._alone(wall, steady)
        middle = majority_time(self._clocks(voters, wall, steady), len(voters))
        return None if middle is None else int(middle)

    def offsets_ms(self, voters: Sequence[int]) -> dict[int, int]:
        """Return by how much the clock of each voter is ahead of the majority time, or behind it (negative). Voters
        that have told no time are left out. Return an empty mapping if the majority time is not known."""
        clocks = self._clocks(voters, self._wall_ms(), self._steady_ms())
        middle = majority_time(clocks, len(voters))
        return {} if middle is None else {node: round(clock - middle) for node, clock in clocks.items()}

    def _clocks(self, voters: Sequence[int], wall: int, steady: float) -> dict[int, float]:
        """Return the clock of each voter that is known, at this moment."""
        clocks: dict[int, float] = {}
        for voter in voters:
            if voter == self._node:
                clocks[voter] = wall
            elif (told := self._told.get(voter)) is not None and steady - told[1] <= TOLD_LIFE_MS:
                clocks[voter] = told[0] + steady
        return clocks

    def _alone(self, wall: int, steady: float) -> int:
        expected = steady + self._offset
        if abs(wall - expected) > TOLERANCE_MS:
            if self._doubted_since is None:
                self._doubted_since = steady
            if steady - self._doubted_since < DOUBT_MS:
                return round(expected)
        self._offset, self._doubted_since = wall - steady, None
        return wall


def believable(wall_ms: int) -> int:
    """Return this wall time, or 0 if no clock can be so wrong without being broken."""
    return wall_ms if 0 < wall_ms <= MAX_WALL_MS else 0


def clock_sentence(offset_ms: float) -> str:
    """Return the sentence about a clock that is `offset_ms` ahead of the majority time, or behind it (negative)."""
    direction = "ahead of" if offset_ms > 0 else "behind"
    return (
        f"its wall clock is {abs(offset_ms) / 1000:,.1f} s {direction} the clocks of most voters, so entries are dated "
        "by their clocks: set the clock, and let NTP keep it"
    )


def majority_time(clocks: Mapping[int, float], voters: int) -> float | None:
    """Return the newest time that the clocks of a majority of `voters` voters have reached, or None if fewer clocks are
    known. A clock that is not known counts as behind all others."""
    needed = majority(range(voters))
    return sorted(clocks.values(), reverse=True)[needed - 1] if len(clocks) >= needed else None
