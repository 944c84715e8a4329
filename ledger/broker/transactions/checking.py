"""Asks producers for the outcome of transactions that nobody ends, on the leader of the decision shard.

    6 s after the first half batch, then every 30 s   a live producer of the producer group is asked
    answer "commit" or "rollback"                     the transaction ends
    answer "unknown"                                  it is counted, in the log; the 15th sends the messages to the dead
                                                      letters of the group
    no live producer, no answer                       it is not counted; after 3 days the messages are dead letters

The times and numbers are settings of the node. A check asks one producer, another one each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import islice

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.produce.transaction_admission import is_open
from ledger.broker.transactions.checkers import AskedTransaction, Checker, Checkers
from ledger.broker.transactions.ends import TransactionEnd, TransactionEnds
from ledger.broker.transactions.finding import HalfFinder
from ledger.broker.transactions.halves import read_half
from ledger.broker.transactions.settling import HalfSettling
from ledger.errors import LedgerError
from ledger.state import HalfBatch
from ledger.state.commands import CountUnknown
from ledger.transactions import TransactionOutcome
from store import StoreError

log = logging.getLogger("ledgermq.broker.transactions")

# The time between two looks for transactions that are due.
LOOK_S = 0.5
# How long a producer may think about one check.
ANSWER_S = 20.0
# Checks of one shard that are on their way.
MAX_CHECKS = 100
# Half batches that one look considers. More would hold up the event loop.
MAX_LOOKED_AT = 5_000


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """The settings `transaction_check_after_s`, `transaction_check_every_s`, `transaction_checks` and
    `transaction_max_hours` of a node."""

    after_s: float = 6.0
    every_s: float = 30.0
    most: int = 15
    max_age_s: float = 3 * 86_400.0


class TransactionChecks:
    """Checks the open transactions of one shard while this node leads the shard."""

    def __init__(
        self,
        replica: BrokerReplica,
        ends: TransactionEnds,
        settling: HalfSettling,
        checkers: Checkers,
        finder: HalfFinder,
        monotonic_s: Callable[[], float],
        settings: CheckSettings,
        shared_wait_s: Callable[[float], float] = float,
    ) -> None:
        """`monotonic_s` is a clock in seconds. `shared_wait_s` is that of the node's runtime: it may make a regular
        wait a little shorter."""
        self._shared_wait_s = shared_wait_s
        self._replica = replica
        self._ends = ends
        self._settling = settling
        self._checkers = checkers
        self._finder = finder
        self._monotonic_s = monotonic_s
        self._settings = settings
        # When a transaction is asked for again. A new leader begins with none.
        self._again_s: dict[int, float] = {}
        # When this leader first saw a half batch, and the newest one that it saw.
        self._seen_s: dict[int, float] = {}
        self._newest = -1
        self._under_way: dict[int, asyncio.Task[None]] = {}
        # The next look begins behind so many half batches.
        self._passed = 0

    async def run(self) -> None:
        """Check transactions until the task is cancelled."""
        try:
            while True:
                await asyncio.sleep(self._shared_wait_s(LOOK_S))
                if self._replica.knows_the_end:
                    self._look()
                else:
                    self._again_s.clear()
                    self._seen_s.clear()
                    self._newest = -1
        finally:
            for task in self._under_way.values():
                task.cancel()

    def _look(self) -> None:
        """Begin to check the transactions that are due."""
        table, now_s = self._replica.state.transactions, self._monotonic_s()
        now_ms = self._replica.driver.now_ms()
        self._note_new(now_s)
        begun = self._passed if self._passed < len(table.waiting) else 0
        self._passed = 0
        for looked_at, (number, half) in enumerate(islice(table.waiting.items(), begun, None)):
            if not self._has_waited(half, now_ms, now_s):
                return  # later half batches are younger
            if looked_at >= MAX_LOOKED_AT or len(self._under_way) >= MAX_CHECKS:
                self._passed = begun + looked_at
                return
            if number in self._under_way or not table.is_open(number) or self._again_s.get(number, 0.0) > now_s:
                continue
            if (work := self._due(half, now_ms)) is not None:
                self._again_s[number] = now_s + self._settings.every_s
                task = self._under_way[number] = asyncio.get_running_loop().create_task(work)
                task.add_done_callback(lambda done, number=number: self._checked(number, done))  # type: ignore[misc]

    def _note_new(self, now_s: float) -> None:
        """Note when this leader first saw the half batches that are new, and forget those that are settled."""
        waiting = self._replica.state.transactions.waiting
        for number in reversed(waiting):
            if number <= self._newest:
                break
            self._seen_s[number] = now_s
        self._newest = next(reversed(waiting), self._newest)
        for times in (self._again_s, self._seen_s):
            if len(times) > 2 * len(waiting) + 16:
                for number in [number for number in times if number not in waiting]:
                    del times[number]

    def _has_waited(self, half: HalfBatch, now_ms: int, now_s: float) -> bool:
        """Return True if a half batch has waited for the time of the first check, by its append time or since this
        leader saw it. Its append time may be far ahead, because the clock of an earlier leader may have leapt."""
        after_s = self._settings.after_s
        return half.since_ms <= now_ms - after_s * 1000 or self._seen_s.get(half.number, now_s) <= now_s - after_s

    def _due(self, half: HalfBatch, now_ms: int) -> Coroutine[None, None, None] | None:
        """Return what is to be done about an open transaction now, or None."""
        too_old = half.since_ms <= now_ms - self._settings.max_age_s * 1000
        if too_old or half.unknowns >= self._settings.most:
            return self._give_up(half.number)
        checker = self._checkers.next_of(half.group, half.topic_id, half.unknowns)
        return None if checker is None else self._check(half, checker)

    def _checked(self, number: int, done: asyncio.Task[None]) -> None:
        self._under_way.pop(number, None)
        if done.cancelled() or (error := done.exception()) is None:
            return
        if isinstance(error, (LedgerError, StoreError)):
            log.info("shard %d: transaction %d could not be checked: %s", self._replica.shard, number, error)
            return
        log.error("shard %d: the check of transaction %d failed", self._replica.shard, number, exc_info=error)

    async def _give_up(self, number: int) -> None:
        if await self._settling.bury(number, decides=True):
            self._ends.ended[TransactionOutcome.DEAD_LETTERS] += 1
            self._settling.look_soon()

    async def _check(self, half: HalfBatch, checker: Checker) -> None:
        asked = AskedTransaction(
            self._replica.shard,
            half.number,
            half.topic_id,
            half.queue,
            half.since_ms,
            half.unknowns,
            read_half(self._replica, half),
        )
        try:
            async with asyncio.timeout(ANSWER_S):
                outcome = await checker.ask(asked)
        except TimeoutError:
            log.info("a producer of group %s did not answer a check within %.0f s", half.group, ANSWER_S)
            return
        if outcome is not None:
            # The producer is silent, so it has sent all half batches.
            halves = await self._finder.halves_of(half.number) if outcome else ()
            await self._ends.end(TransactionEnd(half.number, None, outcome, halves))
            return
        projected = self._replica.check_leads(0)
        if is_open(self._replica.state, projected, half.number):
            await self._replica.propose_checked(CountUnknown((half.number,)))
            if half.unknowns + 1 >= self._settings.most:
                await self._give_up(half.number)
