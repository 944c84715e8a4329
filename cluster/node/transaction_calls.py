"""Calls the leaders of shards about transactions: on this node directly, and on other nodes through `ShardCalls`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from cluster.node.shard_calls import ShardCalls
from ledger.broker.transactions.answering import ShardAnswers
from ledger.broker.transactions.other_shards import DecisionVerdict, HalfOfTransaction
from ledger.broker.transactions.shard_transactions import ShardTransactions
from ledger.errors import InternalError
from ledger.topics import TOPICS_SHARD
from ledger.v1 import transaction_pb2

_KNOWN_VERDICTS = frozenset(DecisionVerdict)


class LedShard(Protocol):
    """The interface through which `TransactionCalls` uses a shard of this node."""

    @property
    def shard_transactions(self) -> ShardTransactions | None: ...


class TransactionCalls:
    """Implements `ledger.broker.transactions.other_shards.OtherShards` on one node."""

    def __init__(self, local: Callable[[], Mapping[int, LedShard]], calls: ShardCalls) -> None:
        """`local()` returns the shards of this node."""
        self._local = local
        self._calls = calls

    def _answers(self, shard: int) -> ShardAnswers | None:
        """Return the answers of a shard that this node leads."""
        found = self._local().get(shard)
        transactions = None if found is None else found.shard_transactions
        if transactions is None or not transactions.replica.knows_the_end:
            return None
        return transactions.answers

    async def settle_halves(self, shard: int, decision_shard: int, halves: Sequence[HalfOfTransaction]) -> list[bool]:
        if (here := self._answers(shard)) is not None:
            return await here.settle(decision_shard, halves)
        request = transaction_pb2.SettleHalvesRequest(
            shard=shard, decision_shard=decision_shard, halves=_to_wire(halves)
        )
        client = await self._calls.client()
        response = await client.call(shard, lambda stub, seconds: stub.SettleHalves(request, timeout=seconds))
        _check_answer(shard, len(response.settled), len(halves))
        return list(response.settled)

    async def judge_halves(
        self, shard: int, asking_shard: int, halves: Sequence[HalfOfTransaction]
    ) -> list[DecisionVerdict]:
        if (here := self._answers(shard)) is not None:
            return await here.judge(asking_shard, halves)
        request = transaction_pb2.JudgeHalvesRequest(shard=shard, asking_shard=asking_shard, halves=_to_wire(halves))
        client = await self._calls.client()
        response = await client.call(shard, lambda stub, seconds: stub.JudgeHalves(request, timeout=seconds))
        _check_answer(shard, len(response.verdicts), len(halves))
        return [_verdict(each) for each in response.verdicts]

    async def find_halves(self, shard: int, decision_shard: int, transaction: int) -> list[int]:
        if (here := self._answers(shard)) is not None:
            return await here.find(decision_shard, transaction)
        request = transaction_pb2.FindHalvesRequest(shard=shard, decision_shard=decision_shard, transaction=transaction)
        client = await self._calls.client()
        response = await client.call(shard, lambda stub, seconds: stub.FindHalves(request, timeout=seconds))
        return list(response.numbers)

    async def prepare_transactions(self, producer_group: str) -> None:
        request = transaction_pb2.PrepareTransactionsRequest(producer_group=producer_group)
        client = await self._calls.client()
        await client.call(TOPICS_SHARD, lambda stub, seconds: stub.PrepareTransactions(request, timeout=seconds))


def _check_answer(shard: int, answers: int, asked: int) -> None:
    if answers != asked:
        raise InternalError(f"The leader of shard {shard} answered {answers} results for {asked} half batches.")


def _verdict(wire: int) -> DecisionVerdict:
    """Return the verdict. One that only a newer version knows settles nothing here."""
    return DecisionVerdict(wire) if wire in _KNOWN_VERDICTS else DecisionVerdict.UNDECIDED


def _to_wire(halves: Sequence[HalfOfTransaction]) -> list[transaction_pb2.HalfOfTransaction]:
    return [transaction_pb2.HalfOfTransaction(transaction=each.transaction, number=each.number) for each in halves]
