"""The retention watch moves the log start of a shard that this node leads.

    every `retention_check_ms`:   how full is the disk?    ->  `room_watch.py`
                                  does this node lead?     ->  `ledger.broker.retention.retention.choose`
                                                           ->  the log start moves

The pure function `choose` decides how far the log start moves. This module collects the inputs of `choose`. The time
of day is used only to find the hour for `cleaning_hour`. Therefore a clock that jumps does not change the age of any
entry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from cluster.node.replica.room_watch import RoomWatch
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.retention.log_trim import LogTrim
from ledger.broker.retention.retention import (
    DiskUse,
    RetentionLimits,
    Situation,
    TrimDecision,
    choose,
    time_passed_ms,
)
from ledger.errors import LedgerError
from store import CommitLog, StoreError

log = logging.getLogger("ledgermq.node.retention")


class LogClock:
    """The time according to the log: the append time of the newest entry, plus the time since this node first saw
    that entry. A clock that does not jump measures the time since this node first saw the newest entry."""

    def __init__(self, log: CommitLog, monotonic_ms: Callable[[], float]) -> None:
        self._log = log
        self._monotonic_ms = monotonic_ms
        self._newest = (0, 0)
        self._seen_ms = 0.0

    def now_ms(self) -> int:
        newest = (self._log.last_index, self._log.tail.term)
        if newest != self._newest:
            self._newest, self._seen_ms = newest, self._monotonic_ms()
        return self._log.tail.append_time_ms + int(self._monotonic_ms() - self._seen_ms)


class Learners:
    """The learners that are catching up with the log. Retention keeps the entries that learners need to catch up.
    Retention ignores a learner that made no progress between two checks. If retention kept entries for a learner
    without progress, this learner could stop retention for ever."""

    def __init__(self) -> None:
        # By node, the last index that the learner had at the last check.
        self._seen: dict[int, int] = {}

    def behind(self, matches: dict[int, int]) -> int | None:
        """Return the smallest index in `matches` among the learners that made progress since the last check, or
        None if no learner made progress. `matches` maps the node number of each learner to the index of the last
        entry that the learner holds."""
        moving = [match for node, match in matches.items() if match > self._seen.get(node, -1)]
        self._seen = matches
        return min(moving, default=None)


class RetentionWatch:
    """Regularly checks how full the disk is and how old the log of one shard is, and moves the log start of the
    shard."""

    def __init__(self, replica: BrokerReplica, settings: NodeSettings, room: RoomWatch, runtime: Runtime) -> None:
        self._replica = replica
        self._bounds = bounds_of(settings)
        self._room = room
        self._look_s = settings.retention_check_ms / 1000
        self._clock = LogClock(replica.log, runtime.monotonic_ms)
        self._time_of_day_ms = runtime.now_ms
        self._trim = LogTrim(replica)
        self._learners = Learners()

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._look_s)

    async def look(self) -> None:
        """Make one check of this node's disk. If the check moves the log start, return when the move is applied on
        this node, or this node has lost leadership."""
        use = self._room.use()
        if not self._replica.knows_the_end:
            return
        try:
            await self._forget_holds()
            # The files of the last move must be removed from the disk before its use counts again.
            move = None if self._replica.log.segments.has_dropped else choose(self._bounds, self._situation(use))
            if move is not None:
                await self._move(move)
        except (LedgerError, StoreError) as error:
            log.info(
                "shard %d: the log start cannot move now, the next check tries again: %s", self._replica.shard, error
            )

    # -- the log

    async def _forget_holds(self) -> None:
        """Propose an entry that removes expired holds. Holds expire by the append times of entries. While no
        message is written, no entry has a new append time. Therefore the leader must propose an entry."""
        now_ms = self._clock.now_ms()
        if any(hold.expires_ms <= now_ms for hold in self._replica.state.holds):
            await self._replica.log_holds.expire()

    def _situation(self, use: DiskUse) -> Situation:
        replica = self._replica
        raft = replica.driver.raft
        matches = {node: raft.progress[node].match for node in raft.configuration.learners if node in raft.progress}
        now_ms = self._clock.now_ms()
        return Situation(
            start=replica.log.start,
            end=replica.log.end,
            candidates=self._trim.candidates(),
            age_ms=lambda index: self._age_ms(index, now_ms),
            hour=datetime.fromtimestamp(self._time_of_day_ms() / 1000, UTC).hour,
            disk=use,
            held=replica.log_holds.is_held,
            needed=self._learners.behind(matches),
        )

    def _age_ms(self, index: int, now_ms: int) -> int:
        """Return the age of an entry in ms. The age is the sum of two times: from the entry's append time to the
        append time of the last entry, and since this node saw the last entry."""
        the_log = self._replica.log
        passed = time_passed_ms(
            lambda each: the_log.reading.header(each).append_time_ms, index, the_log.last_index, self._bounds.age_ms
        )
        return passed + now_ms - the_log.tail.append_time_ms

    async def _move(self, move: TrimDecision) -> None:
        the_log, to = self._replica.log, move.to
        log.info(
            "shard %d: retention moves the log start to after entry %d (%s): removes %d bytes, keeps %d",
            self._replica.shard,
            to.index,
            move.why.value,
            to.position - the_log.start,
            the_log.end - to.position,
        )
        await self._trim.copy_and_move(to)


def bounds_of(settings: NodeSettings) -> RetentionLimits:
    """Return the limits of retention in the settings."""
    return RetentionLimits(
        age_ms=int(settings.retention_hours * 3_600_000),
        size_bytes=settings.retention_bytes,
        cleaning_hour=settings.cleaning_hour,
        clean_ratio=settings.disk_clean_ratio,
        force_ratio=settings.disk_force_ratio,
        refuse_ratio=settings.disk_refuse_ratio,
    )
