"""The stream in which a node asks a producer for the ends of transactions: how it ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.rpc import transactions
from ledger.broker.rpc.transactions import TransactionService
from ledger.broker.transactions.checkers import MAX_UNANSWERED, AskedTransaction, Checker, Checkers
from ledger.errors import UnavailableError
from ledger.v1 import transaction_pb2
from tests.ledger.broker.stream_client import AbortedError, StreamClient

ASKED = AskedTransaction(shard=0, transaction=7, topic_id=1, queue=0, since_ms=5, unknowns=0, body=b"")


def client_of_billing() -> StreamClient:
    """Return a client that reads no check yet."""
    client = StreamClient(transaction_pb2.CheckAnswer(producer_group="billing"))
    client.may_send.clear()
    return client


async def stream_with_a_check(checkers: Checkers, client: Any) -> asyncio.Task[None]:
    """Return the stream of a producer of "billing", whom a check was given that it has not answered."""
    unused = cast(Any, SimpleNamespace())
    stream = asyncio.create_task(TransactionService({}, unused, unused, checkers).CheckTransactions(None, client))
    await asyncio.sleep(0.001)
    producer = checkers.next_of("billing", 1)
    assert producer is not None
    producer.ask(ASKED).add_done_callback(lambda answer: answer.exception())
    return stream


@pytest.mark.parametrize(
    "last", [None, transaction_pb2.CheckAnswer(check=1, outcome=cast(Any, 9))], ids=["end", "no outcome"]
)
async def test_a_stream_ends_when_its_check_is_sent(last: transaction_pb2.CheckAnswer | None) -> None:
    checkers, client = Checkers(), client_of_billing()
    stream = await stream_with_a_check(checkers, client)
    client.requests.put_nowait(last)
    await asyncio.sleep(0.001)
    assert client.is_sending
    assert not stream.done()
    client.may_send.set()
    (ended,) = await asyncio.gather(stream, return_exceptions=True)
    assert isinstance(ended, AbortedError) == (last is not None)
    assert [check.transaction for check in client.received] == [7]


async def test_a_client_that_reads_no_check_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "STALLED_S", 0.01)
    checkers, client, unused = Checkers(), client_of_billing(), cast(Any, SimpleNamespace())
    client.gives_up = True
    service = TransactionService({}, unused, unused, checkers)
    stream = asyncio.create_task(service.CheckTransactions(None, cast(Any, client)))
    await asyncio.sleep(0.001)
    producer = checkers.next_of("billing", 1)
    assert producer is not None
    answer = producer.ask(ASKED)
    async with asyncio.timeout(5):
        with pytest.raises(AbortedError, match="RESOURCE_EXHAUSTED"):
            await stream
    assert isinstance(answer.exception(), UnavailableError)
    assert checkers.next_of("billing", 1) is None


async def test_checks_that_are_not_sent_are_bounded_although_nobody_waits_for_their_answers() -> None:
    producer = Checker("billing", lambda topic_id: True)
    for _ in range(MAX_UNANSWERED):
        assert producer.has_room
        producer.ask(ASKED).cancel()
    await asyncio.sleep(0)
    assert not producer.has_room
    producer.questions.get_nowait()
    assert producer.has_room


@pytest.mark.parametrize("failing", ["answered", "_check"], ids=["reading", "writing"])
async def test_a_defect_of_a_stream_ends_it_with_the_defect(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checkers, client = Checkers(), client_of_billing()
    client.may_send.set()

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    if failing == "answered":
        monkeypatch.setattr(Checker, "answered", fail)
    else:
        monkeypatch.setattr(transactions, "_check", fail)
    stream = await stream_with_a_check(checkers, client)
    client.requests.put_nowait(transaction_pb2.CheckAnswer(check=1))
    async with asyncio.timeout(5):
        with pytest.raises(RuntimeError, match="a defect"):
            await stream
    assert checkers.next_of("billing", 1) is None


def test_producers_with_names_are_asked_in_one_order_at_all_nodes() -> None:
    first, second, other = (Checker("billing", lambda topic_id: True, name) for name in ("a", "b", ""))
    for order in ((first, second, other), (other, second, first)):
        checkers = Checkers()
        for checker in order:
            checkers.add(checker)
        assert [checkers.next_of("billing", 1, unknowns) for unknowns in (0, 0, 1, 2)] == [first, first, second, first]


async def test_a_transaction_waits_until_the_producer_at_its_place_has_room() -> None:
    checkers, first = Checkers(), Checker("billing", lambda topic_id: True, "a")
    checkers.add(first)
    checkers.add(Checker("billing", lambda topic_id: False, "b"))
    assert checkers.next_of("billing", 1, unknowns=1) is first
    for _ in range(MAX_UNANSWERED):
        first.ask(ASKED).add_done_callback(lambda answer: answer.exception())
    assert checkers.next_of("billing", 1, unknowns=1) is None
    checkers.remove(first)
    assert checkers.next_of("billing", 1) is None


async def test_a_stream_gives_its_name_to_the_order() -> None:
    checkers, unused = Checkers(), cast(Any, SimpleNamespace())
    service = TransactionService({}, unused, unused, checkers)
    clients = [StreamClient(transaction_pb2.CheckAnswer(producer_group="billing", name=name)) for name in ("b", "a")]
    streams = [asyncio.create_task(service.CheckTransactions(None, cast(Any, client))) for client in clients]
    await asyncio.sleep(0.001)
    assert [checkers.next_of("billing", 1, unknowns).name for unknowns in (0, 1)] == ["a", "b"]  # type: ignore[union-attr]
    for client in clients:
        client.requests.put_nowait(None)
    await asyncio.gather(*streams)


async def test_a_long_name_is_refused() -> None:
    unused = cast(Any, SimpleNamespace())
    client = StreamClient(transaction_pb2.CheckAnswer(producer_group="billing", name="x" * 65))
    await TransactionService({}, unused, unused, Checkers()).CheckTransactions(None, cast(Any, client))
    assert "at most 64 characters" in client.received[0].error.message
