"""Answers of other nodes about half batches: a wrong one raises an error and settles nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.node.transaction_calls import TransactionCalls
from ledger.broker.transactions.other_shards import DecisionVerdict, HalfOfTransaction
from ledger.errors import InternalError
from ledger.v1 import transaction_pb2

HALVES = [HalfOfTransaction(7, 8), HalfOfTransaction(7, 9)]


def calls(response: object) -> TransactionCalls:
    """Return the calls of a node that leads nothing. Other nodes answer with `response`."""

    async def call(*_: Any) -> object:
        return response

    async def client() -> Any:
        return SimpleNamespace(call=call)

    shard_calls: Any = SimpleNamespace(client=client)
    return TransactionCalls(dict, shard_calls)


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_an_answer_for_another_number_of_half_batches_is_refused(count: int) -> None:
    with pytest.raises(InternalError, match=f"shard 1 answered {count} results for 2 half batches"):
        await calls(transaction_pb2.SettleHalvesResponse(settled=[True] * count)).settle_halves(1, 0, HALVES)
    verdicts = [transaction_pb2.TO_COMMIT] * count
    with pytest.raises(InternalError, match=f"shard 1 answered {count} results for 2 half batches"):
        await calls(transaction_pb2.JudgeHalvesResponse(verdicts=verdicts)).judge_halves(1, 0, HALVES)


async def test_a_verdict_of_a_newer_version_settles_nothing() -> None:
    verdicts: Any = [transaction_pb2.TO_ROLL_BACK, 9]
    judged = await calls(transaction_pb2.JudgeHalvesResponse(verdicts=verdicts)).judge_halves(1, 0, HALVES)
    assert judged == [DecisionVerdict.ROLL_BACK, DecisionVerdict.UNDECIDED]


async def test_the_verdicts_of_the_wire_are_those_of_the_shards() -> None:
    wire = transaction_pb2
    verdicts = [wire.UNDECIDED, wire.TO_COMMIT, wire.TO_ROLL_BACK, wire.TO_DEAD_LETTERS]
    judged = await calls(wire.JudgeHalvesResponse(verdicts=verdicts)).judge_halves(1, 0, HALVES * 2)
    assert judged == list(DecisionVerdict)
