"""Remembers when one replica wrote, flushed, committed and applied its last entries, and on a leader when each follower
acknowledged them.

    begun ──> written ──> held ──> committed ──> applied
                 └──> acknowledged by each follower

An entry is not stamped by itself. Each group write, flush, acknowledgement and commit is one step of an `IndexTimes`,
so the cost does not depend on how many entries a group write has, and memory is bounded.

All times are in ms of the steady clock, so a leap of the wall clock moves no step against another step. `wall_ms` turns
such a time into the time of day.
"""

from __future__ import annotations

from collections.abc import Callable

from raft.index_times import IndexTimes

# Group writes and commits whose times a replica remembers, and how many of the other steps. Each step takes 16 bytes.
REMEMBERED_WRITES = 65_536
REMEMBERED_STEPS = 4_096


class EntryTimes:
    """The times of one replica's entries. Indexes are indexes of the log."""

    def __init__(
        self,
        steady_ms: Callable[[], float],
        now_ms: Callable[[], int],
        *,
        last_index: int,
        commit: int,
        applied: int,
        remembered: int = REMEMBERED_WRITES,
    ) -> None:
        """Nothing is known of entries up to `last_index`, which the log had when this replica started. `steady_ms()` is
        a clock in ms that never leaps, and `now_ms()` is the time of day in ms since 1970."""
        self._steady_ms = steady_ms
        self._now_ms = now_ms
        # When the replica started, in ms since 1970.
        self.started_ms = now_ms()
        # How many group writes and commits are remembered at most.
        self.remembered = remembered
        self.begun = IndexTimes(REMEMBERED_STEPS, last_index)
        self.written = IndexTimes(remembered, last_index)
        self.held = IndexTimes(REMEMBERED_STEPS, last_index)
        self.committed = IndexTimes(remembered, commit)
        self.applied = IndexTimes(REMEMBERED_STEPS, applied)
        # By follower, in the present leadership of this node. Empty on a follower.
        self.acknowledged: dict[int, IndexTimes] = {}

    def now(self) -> float:
        """Return the present time of the steady clock, in ms."""
        return self._steady_ms()

    def wall_ms(self, time_ms: float) -> int:
        """Return the time of day, in ms since 1970, of a time of the steady clock."""
        return self._now_ms() - round(self._steady_ms() - time_ms)

    def wrote(self, first_index: int, last_index: int, begun_ms: float) -> None:
        """Record that a group write of the entries from `first_index` to `last_index`, which began at `begun_ms`, has
        ended now."""
        if first_index <= self.written.last:
            self.cut(first_index - 1)  # they replace entries of an earlier leader
        self.begun.reached(last_index, begun_ms)
        self.written.reached(last_index, self._steady_ms())

    def holds(self, index: int) -> None:
        """Record that the entries up to `index` are now as durable as the flush mode promises."""
        self.held.reached(index, self._steady_ms())

    def cut(self, last_index: int) -> None:
        """Record that a follower cut its log, which ends with `last_index` now."""
        for times in (self.begun, self.written, self.held):
            times.cut(last_index)

    def has_acknowledged(self, follower: int, match: int) -> None:
        """Record that the follower acknowledged the entries up to `match`."""
        times = self.acknowledged.get(follower)
        if times is None:
            times = self.acknowledged[follower] = IndexTimes(REMEMBERED_STEPS, match)
            return  # it may have acknowledged these entries long ago
        if match > times.last:
            times.reached(match, self._steady_ms())

    def commits(self, index: int) -> None:
        """Record the commit index, if it has risen."""
        if index > self.committed.last:
            self.committed.reached(index, self._steady_ms())

    def applies(self, index: int) -> None:
        """Record the index of the last applied entry, if it has risen."""
        if index > self.applied.last:
            self.applied.reached(index, self._steady_ms())

    def installed(self, index: int) -> None:
        """Record that a received snapshot of the entries up to `index` has replaced the log."""
        for times in (self.begun, self.written, self.held, self.committed, self.applied):
            times.begin_after(index)

    def role_changed(self) -> None:
        """Forget the acknowledgements, because this node begins or ends to lead."""
        self.acknowledged.clear()
