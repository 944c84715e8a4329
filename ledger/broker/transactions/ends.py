"""Ends transactions, on the leader of their decision shard.

    commit of one half batch         one entry: the batch with its messages, in the target queue
    commit of several half batches   one entry: `CommitTransaction`; settling.py carries it out
    rollback                         one entry: `RollBackHalves`

The entry decides, and not the leader's look at the state. While an entry is on its way, no other entry ends the same
transaction: a second end waits for it, and is judged by its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.produce.proposals import Committed
from ledger.broker.produce.transaction_admission import check_shard, is_open, not_open
from ledger.broker.transactions.halves import carried_out, topic_of_half
from ledger.errors import (
    BusyError,
    InvalidArgumentError,
    LedgerError,
    TransactionEndedError,
    UnknownTransactionError,
)
from ledger.state import HalfBatch, HalfName
from ledger.state.command_checks import MAX_HALF_ITEMS
from ledger.state.commands import CommitTransaction, RollBackHalves
from ledger.state.transaction_table import HERE, check_halves
from ledger.transactions import MAX_COMMITTED_HALVES, TransactionOutcome

# The ends of one request.
MAX_ENDS = 1_000
_OF_ANOTHER_TOPIC = "there is no such transaction: its id is of another cluster, or was changed"


def check_ends(count: int) -> None:
    """Raise InvalidArgumentError if one request cannot have so many ends."""
    if not 1 <= count <= MAX_ENDS:
        raise InvalidArgumentError(f"{count} transactions were given: end 1 to {MAX_ENDS} in one request.")


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """How a transaction shall end. `topic_id` is the id of the topic of its first message; None: it does not matter.
    `halves` has all half batches of a commit, with the numbers of their shards; empty: only the first one."""

    transaction: int
    topic_id: int | None
    commit: bool
    halves: tuple[HalfName, ...] = ()


class TransactionEnds:
    """Ends the transactions of one shard while this node leads the shard."""

    def __init__(self, replica: BrokerReplica) -> None:
        self._replica = replica
        # By transaction: the end that is on its way.
        self._under_way: dict[int, asyncio.Future[Any]] = {}
        # The half batches that the ends on their way name.
        self._naming = 0
        # Called after a commit of several half batches.
        self.on_commit: Callable[[], None] = lambda: None
        # The transactions that ended while this node led the shard, by outcome.
        self.ended = dict.fromkeys(TransactionOutcome, 0)

    async def end_all(self, ends: Sequence[TransactionEnd]) -> list[Committed | LedgerError | None]:
        """End transactions, all at the same time. Return for each of them the place of its messages, if this call has
        committed its only half batch, or None, or the error. Raises InvalidArgumentError if there are too many, or
        another LedgerError if this node does not lead."""
        check_ends(len(ends))
        self._replica.check_leads(0)
        results = await asyncio.gather(*[self.end(each) for each in ends], return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, LedgerError):
                raise result
        return [
            result for result in results if not isinstance(result, BaseException) or isinstance(result, LedgerError)
        ]

    def is_of(self, end: TransactionEnd) -> bool:
        """Return True if this shard has an open transaction with this number that begins in the topic of the end.
        Raises LedgerError if this node does not lead."""
        self._replica.check_leads(0)
        table = self._replica.state.transactions
        return table.is_open(end.transaction) and end.topic_id in (None, table.waiting[end.transaction].topic_id)

    async def end(self, end: TransactionEnd) -> Committed | None:
        """End a transaction. Return the place of its messages if this call has committed its only half batch, and None
        otherwise. If the transaction has ended before as it shall end now, change nothing. Raises
        TransactionEndedError, UnknownTransactionError, or another LedgerError."""
        while (first := self._under_way.get(end.transaction)) is not None:
            await asyncio.wait((first,))
        replica = self._replica
        projected = replica.check_leads(0)
        if not is_open(replica.state, projected, end.transaction):
            await self._tell_ended(end)
            return None
        half = replica.state.transactions.waiting[end.transaction]
        if end.topic_id is not None and half.topic_id != end.topic_id:
            raise UnknownTransactionError(_OF_ANOTHER_TOPIC)
        future = self._propose(end, half)
        self._under_way[end.transaction] = future
        self._naming += len(end.halves)
        future.add_done_callback(lambda _: self._is_over(end))
        result = await asyncio.shield(future)
        if isinstance(result, Committed):
            self.ended[TransactionOutcome.COMMITTED] += 1
            return result
        if not (result if isinstance(result, bool) else result[0]):
            await self._tell_ended(end)
            return None
        self.ended[TransactionOutcome.COMMITTED if end.commit else TransactionOutcome.ROLLED_BACK] += 1
        if end.commit:
            self.on_commit()
        return None

    def _is_over(self, end: TransactionEnd) -> None:
        self._under_way.pop(end.transaction, None)
        self._naming -= len(end.halves)

    def _propose(self, end: TransactionEnd, half: HalfBatch) -> asyncio.Future[Any]:
        """Propose the entry that ends an open transaction. The result is a Committed, or a bool, or one bool for each
        half batch."""
        replica = self._replica
        if not end.commit:
            # The first half batch is the first of them. Without it, the others are rolled back when they are settled.
            numbers = [each.number for each in replica.state.transactions.halves_of(half.number)][:MAX_HALF_ITEMS]
            return replica.end_halves(RollBackHalves(tuple(numbers)), numbers)
        halves = self._named(end)
        if halves == (HalfName(HERE, half.number),):
            return replica.settle_half(carried_out(replica, half, decides=True), half.number)
        check_halves(halves)
        own = [name.number for name in halves if name.shard == HERE]
        waiting = {each.number for each in replica.state.transactions.halves_of(half.number)}
        if HalfName(HERE, half.number) not in halves or len(set(halves)) != len(halves) or not waiting.issuperset(own):
            raise InvalidArgumentError(
                "a commit must name each half batch of its transaction once: send messages in a new transaction"
            )
        named = replica.state.transactions.names_count + self._naming
        if named + len(halves) > MAX_COMMITTED_HALVES:
            raise BusyError(
                f"commits of this shard with {named} half batches are being carried out, and the limit is "
                f"{MAX_COMMITTED_HALVES}: try again shortly"
            )
        replica.leading_state(0)
        return replica.end_halves(CommitTransaction(half.number, halves), [half.number])

    def _named(self, end: TransactionEnd) -> tuple[HalfName, ...]:
        shard = self._replica.shard
        if not end.halves:
            return (HalfName(HERE, end.transaction),)
        for number in {each.shard for each in end.halves} - {shard}:
            check_shard(number, self._replica.shards)
        return tuple(HalfName(HERE, each.number) if each.shard == shard else each for each in end.halves)

    async def _tell_ended(self, end: TransactionEnd) -> None:
        """Return if a transaction that is not open has ended as it shall end. Raise an error otherwise."""
        replica = self._replica
        wanted = TransactionOutcome.COMMITTED if end.commit else TransactionOutcome.ROLLED_BACK
        ended = replica.state.transactions.outcomes.get(end.transaction)
        if ended is None:
            # Only a leader knows that there is no outcome.
            await replica.confirm_still_leading()
            ended = replica.state.transactions.outcomes.get(end.transaction)
        if ended is not None and end.topic_id is not None:
            # The caller has a right on the topic that the end names, and perhaps none on that of the transaction.
            topic_id = topic_of_half(replica, end.transaction)
            if topic_id is not None and topic_id != end.topic_id:
                raise UnknownTransactionError(_OF_ANOTHER_TOPIC)
        if ended is None or ended.outcome is not wanted:
            error = not_open(replica.state, end.transaction)
            if ended is not None and not end.commit and ended.outcome is TransactionOutcome.DEAD_LETTERS:
                error = TransactionEndedError(f"{error.message}: handle them there (`ledgermq dlq`)")
            raise error
