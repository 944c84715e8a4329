"""Settles the half batches of one shard, on its leader, when their transactions are decided.

    commit of this shard      its half batches here get into their queues; the leaders of other shards are told theirs
    half batch of a commit of another shard    the same, when that shard says so
    half batch that no commit names            it is rolled back
    half batch of dead letters                 it gets into the dead-letter topic of its producer group

A half batch of another shard's transaction that waits for `ASK_AFTER_S` asks that shard, in case the message of its
leader was lost, or the commit does not name it. Each call of another shard is a task of its own, with at most one task
of a kind for each shard. So a shard without a leader delays only its own transactions.

A half batch that cannot be settled, for example because this node cannot read it, holds up no other half batch. It is
tried again after `TRY_AGAIN_S`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import NamedTuple

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.produce.transaction_admission import is_open
from ledger.broker.transactions.halves import carried_out, dead_letters
from ledger.broker.transactions.other_shards import DecisionVerdict, HalfOfTransaction, OtherShards
from ledger.errors import (
    BusyError,
    InvalidArgumentError,
    LedgerError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledger.retries import dead_letter_topic
from ledger.state import HalfBatch, HalfName
from ledger.state.command_checks import MAX_HALF_ITEMS
from ledger.state.commands import ConfirmHalves, RollBackHalves, SettledHalf
from ledger.state.transaction_table import HERE
from ledger.topics import TOPICS_SHARD
from ledger.transactions import OUTCOME_MS, TransactionOutcome
from store import StoreError

log = logging.getLogger("ledgermq.broker.transactions")

# The half batches of one message between shards.
MAX_ASKED = 1_000
# How long a half batch of another shard's transaction waits before this shard asks for the decision, and how often it
# asks again.
ASK_AFTER_S = 6.0
# The time between two looks without news.
LOOK_S = 1.0
# When a half batch that could not be settled is tried again.
TRY_AGAIN_S = 5.0
# For so long before an outcome is forgotten, it is not relied on any more: entries on their way may be dated later.
OUTCOME_MARGIN_MS = 60_000
# The half batches that are settled at once.
_AT_ONCE = 256


class _Call(NamedTuple):
    """Names a call of another shard."""

    kind: str
    shard: int


class HalfSettling:
    """Settles the half batches of one shard while this node leads the shard."""

    def __init__(
        self,
        replica: BrokerReplica,
        others: OtherShards,
        monotonic_s: Callable[[], float],
        shared_wait_s: Callable[[float], float] = float,
    ) -> None:
        """`monotonic_s` is a clock in seconds. `shared_wait_s` is that of the node's runtime: it may make a regular
        wait a little shorter."""
        self._shared_wait_s = shared_wait_s
        self._replica = replica
        self._others = others
        self._monotonic_s = monotonic_s
        self._news = asyncio.Event()
        # When the leaders of decision shards are asked again, and the half batches that waited when they were
        # asked last. Append times do not count here: the clock of an earlier leader may have leapt.
        self._ask_again_s = 0.0
        self._waited: frozenset[int] = frozenset()
        # Half batches that could not be settled, and when each is tried again.
        self._again_s: dict[int, float] = {}
        # The calls of other shards that are on their way.
        self._calls: dict[_Call, asyncio.Task[None]] = {}
        # An error of a call that no other shard can cause.
        self._failure: BaseException | None = None

    def look_soon(self) -> None:
        """Look at once for half batches that can be settled."""
        self._news.set()

    async def run(self) -> None:
        """Settle half batches until the task is cancelled."""
        try:
            while self._failure is None:
                self._news.clear()
                if self._replica.knows_the_end:
                    self._call_others(dead=await self._look())
                else:
                    self._again_s.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._shared_wait_s(LOOK_S)):
                        await self._news.wait()
            raise self._failure
        finally:
            for task in self._calls.values():
                task.cancel()

    async def _look(self) -> list[int]:
        """Settle what needs no other shard. Return half batches that shall get into the dead letters."""
        waiting = self._replica.state.transactions.waiting
        self._again_s = {number: at_s for number, at_s in self._again_s.items() if number in waiting}
        await self._each(self._committed_here(), self.carry_out)
        orphans, dead = self._orphans()
        await self._report(self._roll_back(orphans), "half batches cannot be settled now")
        return dead[:_AT_ONCE]

    async def _report(self, work: Awaitable[None], trouble: str) -> None:
        try:
            await work
        except (LedgerError, StoreError) as error:
            log.info("shard %d: %s: %s", self._replica.shard, trouble, error)

    def _committed_here(self) -> list[int]:
        """Return half batches of this shard's commits that this shard has to carry out."""
        names = self._replica.state.transactions.names_in.get(HERE, ())
        return list(islice(filter(self._may_try, (number for _, number in names)), _AT_ONCE))

    def _may_try(self, number: int) -> bool:
        return self._again_s.get(number, 0.0) <= self._monotonic_s()

    async def _each(self, numbers: Iterable[int], settle: Callable[[int], Awaitable[object]]) -> None:
        """Settle half batches at the same time. Those that fail are tried again later; one that the shard has no room
        for is tried again with the next look."""
        await asyncio.gather(*[self._attempt(number, settle) for number in numbers])

    async def _attempt(self, number: int, settle: Callable[[int], Awaitable[object]]) -> None:
        try:
            await settle(number)
        except BusyError as error:
            log.debug("shard %d: half batch %d is not settled yet: %s", self._replica.shard, number, error)
        except (LedgerError, StoreError) as error:
            self._again_s[number] = self._monotonic_s() + TRY_AGAIN_S
            log.info("shard %d: half batch %d cannot be settled now: %s", self._replica.shard, number, error)

    # -- one half batch

    async def carry_out(self, number: int) -> None:
        """Put the messages of a committed half batch into its queue. If the half batch is settled already, do nothing.
        Raises LedgerError."""
        replica = self._replica
        half = self._waiting(number)
        if half is None:
            return
        try:
            batch = carried_out(replica, half, decides=False)
            await replica.settle_half(batch, number)
        except (UnknownTopicError, UnknownQueueError):
            # The topic is being deleted, which settles the half batch.
            return

    async def bury(self, number: int, *, decides: bool) -> bool:
        """Put the messages of a half batch into the dead-letter topic of its producer group. With `decides`, this ends
        its transaction. Return False if the half batch is being settled otherwise. Raises LedgerError."""
        replica = self._replica
        half = self._waiting(number)
        if half is None:
            return False
        projected = replica.check_leads(0)
        if decides and not is_open(replica.state, projected, number):
            return False  # a commit of several half batches is being carried out
        if projected.is_being_deleted(half.topic_id):
            return False  # the deletion settles the half batch
        topic = replica.state.topics.named(dead_letter_topic(half.group))
        if topic is None or replica.shard not in topic.shards:
            await self._others.prepare_transactions(half.group)
            raise BusyError(f"the dead-letter topic of group {half.group!r} is being created")
        try:
            batch = dead_letters(replica, half, topic, decides=decides)
        except InvalidArgumentError as error:
            log.error("shard %d: dead letters of group %s are too large: %s", replica.shard, half.group, error)
            raise
        await replica.settle_half(batch, number)
        log.warning(
            "shard %d: no producer of group %s knows the outcome of a transaction: its messages are dead letters now",
            replica.shard,
            half.group,
        )
        return True

    def _waiting(self, number: int) -> HalfBatch | None:
        """Return the half batch if it waits and no entry on its way settles it. Raises LedgerError if this node does
        not lead."""
        projected = self._replica.check_leads(0)
        if not projected.transactions.waits(number):
            return None
        return self._replica.state.transactions.waiting[number]

    # -- half batches of this shard's transactions

    def _orphans(self) -> tuple[list[int], list[int]]:
        """Return the half batches of transactions of this shard that are neither open nor named by a commit: those
        that shall be rolled back, and those that shall get into the dead letters. If replicas will soon forget that a
        transaction went to the dead letters, its half batches wait until they have forgotten it: a replica that has
        forgotten it cannot apply the dead letters."""
        table = self._replica.state.transactions
        dead: list[int] = []
        orphans: list[int] = []
        for number in list(table.joined):
            half = table.waiting[number]
            if half.shard != HERE or table.is_open(half.transaction) or not self._may_try(number):
                continue
            if table.names(half.transaction, HalfName(HERE, number)):
                continue
            ended = table.outcomes.get(half.transaction)
            if ended is None or ended.outcome is not TransactionOutcome.DEAD_LETTERS:
                orphans.append(number)
            elif ended.at_ms + OUTCOME_MS > self._replica.driver.now_ms() + OUTCOME_MARGIN_MS:
                dead.append(number)
        return orphans, dead

    async def _bury_joined(self, number: int) -> None:
        """Bury a half batch whose transaction has ended."""
        await self.bury(number, decides=False)

    async def _roll_back(self, numbers: Sequence[int]) -> None:
        projected = self._replica.check_leads(0).transactions
        some = [number for number in numbers if projected.waits(number)][:MAX_HALF_ITEMS]
        if some:
            await self._replica.end_halves(RollBackHalves(tuple(some)), some)

    # -- other shards

    def _elsewhere(self) -> dict[int, list[HalfOfTransaction]]:
        """Return the half batches of commits that other shards have to carry out, by shard."""
        by_shard = self._replica.state.transactions.names_in.items()
        return {
            shard: [HalfOfTransaction(*name) for name in islice(names, MAX_ASKED)]
            for shard, names in by_shard
            if shard != HERE
        }

    def _call_others(self, *, dead: Sequence[int]) -> None:
        """Begin what needs other shards, without what is on its way. Shard 0 makes the topics of dead letters."""
        for shard, halves in self._elsewhere().items():
            self._begin(_Call("tell", shard), partial(self._tell, shard, halves))
        for shard, halves in self._asked().items():
            self._begin(_Call("ask", shard), partial(self._ask, shard, halves))
        if dead:
            self._begin(_Call("bury", TOPICS_SHARD), partial(self._each, dead, self._bury_joined))

    def _begin(self, call: _Call, work: Callable[[], Coroutine[None, None, None]]) -> None:
        if call not in self._calls:
            task = self._calls[call] = asyncio.get_running_loop().create_task(
                self._report(work(), f"half batches wait for an answer of shard {call.shard}")
            )
            task.add_done_callback(lambda done: self._is_over(call, done))

    def _is_over(self, call: _Call, done: asyncio.Task[None]) -> None:
        self._calls.pop(call, None)
        if not done.cancelled() and (error := done.exception()) is not None:
            self._failure = error
            self._news.set()

    async def _tell(self, shard: int, halves: Sequence[HalfOfTransaction]) -> None:
        settled = await self._others.settle_halves(shard, self._replica.shard, halves)
        done = tuple(
            SettledHalf(half.transaction, HalfName(shard, half.number))
            for half, is_settled in zip(halves, settled, strict=True)
            if is_settled
        )
        if done:
            await self._replica.propose_checked(ConfirmHalves(done))
            if len(halves) == MAX_ASKED:
                self.look_soon()  # there may be more

    def _asked(self) -> dict[int, list[HalfOfTransaction]]:
        """Return the half batches that wait for transactions of other shards, by decision shard. Return none if this
        was done lately."""
        if self._monotonic_s() < self._ask_again_s:
            return {}
        self._ask_again_s = self._monotonic_s() + ASK_AFTER_S
        table, waited = self._replica.state.transactions, self._waited
        self._waited = frozenset(table.joined)
        asked: dict[int, list[HalfOfTransaction]] = {}
        shards = self._replica.shards
        for number in table.joined:
            half = table.waiting[number]
            # Earlier versions took half batches of shards that do not exist.
            if half.shard == HERE or half.shard not in shards or number not in waited or not self._may_try(number):
                continue
            if len(halves := asked.setdefault(half.shard, [])) < MAX_ASKED:
                halves.append(HalfOfTransaction(half.transaction, number))
        return asked

    async def _ask(self, shard: int, halves: Sequence[HalfOfTransaction]) -> None:
        """Ask a decision shard about half batches, and do what it says."""
        await self._follow(halves, await self._others.judge_halves(shard, self._replica.shard, halves))

    async def _follow(self, halves: Sequence[HalfOfTransaction], verdicts: Sequence[DecisionVerdict]) -> None:
        by_verdict: dict[DecisionVerdict, list[int]] = {}
        for half, verdict in zip(halves, verdicts, strict=True):
            by_verdict.setdefault(verdict, []).append(half.number)
        await self._each(by_verdict.get(DecisionVerdict.COMMIT, ()), self.carry_out)
        await self._each(by_verdict.get(DecisionVerdict.DEAD_LETTERS, ()), self._bury_joined)
        await self._roll_back(by_verdict.get(DecisionVerdict.ROLL_BACK, ()))
