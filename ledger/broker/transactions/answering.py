"""Answers the leaders of other shards about transactions, on the leader of a shard."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.transactions.other_shards import DecisionVerdict, HalfOfTransaction
from ledger.broker.transactions.settling import MAX_ASKED, HalfSettling
from ledger.errors import InvalidArgumentError, LedgerError
from ledger.state import HalfName
from ledger.transactions import MAX_HALF, TransactionOutcome


class ShardAnswers:
    """Answers other shards about the transactions and the half batches of one shard."""

    def __init__(self, replica: BrokerReplica, settling: HalfSettling) -> None:
        self._replica = replica
        self._settling = settling

    async def settle(self, decision_shard: int, halves: Sequence[HalfOfTransaction]) -> list[bool]:
        """Carry out commits of `decision_shard` here. Return for each half batch whether it is settled: also if it was
        settled before, or never was a half batch of this transaction. Raises LedgerError."""
        _check(halves)
        await self._replica.confirm_still_leading()
        self._replica.check_leads(0)
        return list(await asyncio.gather(*[self._settle(decision_shard, half) for half in halves]))

    async def _settle(self, decision_shard: int, asked: HalfOfTransaction) -> bool:
        table = self._replica.state.transactions
        half = table.waiting.get(asked.number)
        if half is None or (half.shard, half.transaction) != (decision_shard, asked.transaction):
            return True
        try:
            await self._settling.carry_out(asked.number)
        except LedgerError:
            return False
        return asked.number not in table.waiting

    async def judge(self, asking_shard: int, halves: Sequence[HalfOfTransaction]) -> list[DecisionVerdict]:
        """Return how half batches of `asking_shard` shall be settled. Raises LedgerError."""
        _check(halves)
        await self._replica.confirm_still_leading()
        self._replica.check_leads(0)
        return [self._verdict(HalfName(asking_shard, half.number), half.transaction) for half in halves]

    def _verdict(self, half: HalfName, transaction: int) -> DecisionVerdict:
        table = self._replica.state.transactions
        if table.is_open(transaction):
            return DecisionVerdict.UNDECIDED
        if table.names(transaction, half):
            return DecisionVerdict.COMMIT
        ended = table.outcomes.get(transaction)
        if ended is not None and ended.outcome is TransactionOutcome.DEAD_LETTERS:
            return DecisionVerdict.DEAD_LETTERS
        # A commit is kept until all half batches that it names are settled, so it does not name this one.
        return DecisionVerdict.ROLL_BACK

    async def find(self, decision_shard: int, transaction: int) -> list[int]:
        """Return the numbers of the half batches that wait here for a transaction of `decision_shard`. Raises
        LedgerError."""
        await self._replica.confirm_still_leading()
        self._replica.check_leads(0)
        return [half.number for half in self._replica.state.transactions.halves_of(transaction, decision_shard)]


def _check(halves: Sequence[HalfOfTransaction]) -> None:
    if not 1 <= len(halves) <= MAX_ASKED:
        raise InvalidArgumentError(f"{len(halves)} half batches were given: ask for 1 to {MAX_ASKED} at a time.")
    if any(number > MAX_HALF for half in halves for number in half):
        raise InvalidArgumentError(f"numbers of half batches are 0 to {MAX_HALF}")
