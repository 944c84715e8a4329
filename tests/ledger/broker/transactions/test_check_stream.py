"""The stream in which a node asks a producer for the ends of transactions: how it ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from grpc import aio

from ledger.broker.rpc.transactions import TransactionService
from ledger.broker.transactions.checkers import AskedTransaction, Checkers
from ledger.v1 import transaction_pb2

ASKED = AskedTransaction(shard=0, transaction=7, topic_id=1, queue=0, since_ms=5, unknowns=0, body=b"")


class AbortedError(Exception):
    pass


class Client:
    """The client of a stream, as its node sees it. None ends the stream."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[transaction_pb2.CheckAnswer | None] = asyncio.Queue()
        self.answers.put_nowait(transaction_pb2.CheckAnswer(producer_group="billing"))
        self.checks: list[transaction_pb2.TransactionCheck] = []
        self.may_send = asyncio.Event()
        self.is_sending = False

    async def read(self) -> Any:
        return await self.answers.get() or aio.EOF

    async def write(self, check: transaction_pb2.TransactionCheck) -> None:
        self.is_sending = True
        await self.may_send.wait()  # if this is cancelled, gRPC goes on sending
        self.is_sending = False
        self.checks.append(check)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        assert not self.is_sending
        raise AbortedError(code)


@pytest.mark.parametrize(
    "last", [None, transaction_pb2.CheckAnswer(check=1, outcome=cast(Any, 9))], ids=["end", "no outcome"]
)
async def test_a_stream_ends_when_its_check_is_sent(last: transaction_pb2.CheckAnswer | None) -> None:
    checkers, client, unused = Checkers(), Client(), cast(Any, SimpleNamespace())
    service = TransactionService({}, unused, unused, checkers)
    stream = asyncio.create_task(service.CheckTransactions(None, cast(Any, client)))
    await asyncio.sleep(0.001)
    producer = checkers.next_of("billing", 1)
    assert producer is not None
    producer.ask(ASKED).add_done_callback(lambda answer: answer.exception())
    client.answers.put_nowait(last)
    await asyncio.sleep(0.001)
    assert client.is_sending
    assert not stream.done()
    client.may_send.set()
    (ended,) = await asyncio.gather(stream, return_exceptions=True)
    assert isinstance(ended, AbortedError) == (last is not None)
    assert [check.transaction for check in client.checks] == [7]
