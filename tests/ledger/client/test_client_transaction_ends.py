"""The ends of transactions, as a client sends them: how long it tries, and what it raises."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.client.transactions.ends import EndSender
from ledger.errors import (
    DeliveryTimeoutError,
    LedgerError,
    NoLeaderError,
    RequestTimeoutError,
    TransactionEndedError,
    to_wire,
)
from ledger.transactions import TransactionId
from ledger.v1 import transaction_pb2

TRANSACTION = TransactionId(0, 1, 7)


class Cluster:
    """A client whose calls raise these errors, one after another, and then have no answer."""

    def __init__(self, *errors: LedgerError) -> None:
        self.errors = list(errors)
        self.backoff = SimpleNamespace(wait_ms=lambda failures: 1)

    def check_open(self) -> None:
        """Be open."""

    async def call(self, shard: int, send: Any) -> transaction_pb2.EndTransactionsResponse:
        if not self.errors:
            await asyncio.sleep(30)
        error = self.errors.pop(0)
        if isinstance(error, TransactionEndedError):
            refused = transaction_pb2.TransactionEnded(error=to_wire(error))
            return transaction_pb2.EndTransactionsResponse(results=[refused])
        raise error


def sender(*errors: LedgerError) -> EndSender:
    cluster: Any = Cluster(*errors)
    return EndSender(cluster, timeout_ms=100)


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ([], "within 0.1 s. It may"),
        ([NoLeaderError("no leader")], "the last error was: no leader. It may"),
        ([RequestTimeoutError("late")], "the last error was: late. It may"),
    ],
)
async def test_an_end_takes_no_longer_than_its_time_limit(errors: list[LedgerError], text: str) -> None:
    """The limit is shorter than the time for which a call to the cluster is repeated."""
    async with asyncio.timeout(5):
        with pytest.raises(DeliveryTimeoutError, match=f"rolled back the transaction.*{text}") as late:
            await sender(*errors).end(TRANSACTION, [], commit=False)
    assert late.value.maybe_committed


async def test_an_end_that_is_refused_says_so() -> None:
    with pytest.raises(TransactionEndedError, match="was committed before"):
        await sender(NoLeaderError("no leader"), TransactionEndedError("was committed before")).end(
            TRANSACTION, [], commit=False
        )


async def test_an_error_that_is_a_timeout_of_something_else_is_raised_as_it_is() -> None:
    refusal = DeliveryTimeoutError("of something else", maybe_committed=False)
    with pytest.raises(DeliveryTimeoutError, match="of something else"):
        await sender(refusal).end(TRANSACTION, [], commit=False)


async def test_a_program_can_cancel_an_end() -> None:
    with pytest.raises(TimeoutError) as late:
        await asyncio.wait_for(sender().end(TRANSACTION, [], commit=True), 0.01)
    assert not isinstance(late.value, LedgerError)
