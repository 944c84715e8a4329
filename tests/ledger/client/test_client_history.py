"""Tests the history file of a producer: it has the result and the sequence number of every send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

import ledgermq
from ledger.errors import BusyError, DeliveryTimeoutError, LedgerError
from ledger.history import Close, HistoryError, Open, OperationOutcome, Send, read_history
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster

pytestmark = pytest.mark.real


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    cluster = FakeCluster()
    cluster.create("t", 2)
    broker = FakeBroker(1, cluster)
    await broker.start()
    yield broker
    await broker.stop()


def producer(broker: FakeBroker, path: Path, **settings: Any) -> ledgermq.AsyncProducer:
    return ledgermq.AsyncProducer(broker.cluster.addresses[1], history=path, history_process=7, **settings)


def sends(path: Path) -> list[Send]:
    return [operation for operation in read_history(path) if isinstance(operation, Send)]


async def test_what_was_acknowledged(broker: FakeBroker, tmp_path: Path) -> None:
    path = tmp_path / "history"
    async with producer(broker, path) as one:
        receipt = await one.send("t", b"a", queue=1)
        ranges = await one.send_many("t", [b"bb", b"ccc"], queue=1)
    opened, *told, closed = read_history(path)
    assert isinstance(opened, Open)
    assert isinstance(closed, Close)
    assert opened.producer == closed.producer
    first, second = sends(path)
    assert told == [first, second]
    assert (first.process, first.outcome, first.topic, first.queue, first.bound) == (
        7,
        OperationOutcome.OK,
        "t",
        1,
        True,
    )
    assert (first.offset, second.offset) == (receipt.offset, ranges[0].first_offset)
    assert (first.sequence, second.sequence) == (0, 1)
    assert second.crcs == [google_crc32c.value(b"bb"), google_crc32c.value(b"ccc")]
    assert second.sizes == [2, 3]
    assert first.start <= first.end <= second.end


async def test_messages_of_one_batch_have_their_own_numbers(broker: FakeBroker, tmp_path: Path) -> None:
    path = tmp_path / "history"
    async with producer(broker, path) as one:
        await asyncio.gather(*(one.send("t", bytes([number]), queue=0) for number in range(50)))
    told = sends(path)
    assert [send.sequence for send in told] == list(range(50))
    assert [send.offset for send in told] == list(range(50))
    assert not any(send.error for send in told)


async def test_what_goes_round_is_not_bound(broker: FakeBroker, tmp_path: Path) -> None:
    path = tmp_path / "history"
    async with producer(broker, path) as one:
        await one.send("t", b"a")
        await one.send("t", b"b", key="k")
    assert [send.bound for send in sends(path)] == [False, True]


async def test_nobody_knows_of_what_was_never_answered(broker: FakeBroker, tmp_path: Path) -> None:
    path = tmp_path / "history"
    broker.silent = True
    async with producer(broker, path, delivery_timeout_ms=200) as one:
        with pytest.raises(DeliveryTimeoutError):
            await one.send("t", b"a", queue=0)
    (send,) = sends(path)
    assert (send.outcome, send.offset, send.error) == (OperationOutcome.UNKNOWN, None, "DeliveryTimeoutError")
    assert (send.queue, send.sequence) == (0, 0)


async def test_what_was_refused_each_time_has_failed(broker: FakeBroker, tmp_path: Path) -> None:
    path = tmp_path / "history"
    broker.refusal = BusyError("full")
    async with producer(broker, path, retries=2) as one:  # a deadline could pass while an attempt has no answer
        with pytest.raises(DeliveryTimeoutError):
            await one.send("t", b"a", queue=0)
    (send,) = sends(path)
    assert send.outcome is OperationOutcome.FAIL


async def test_what_never_found_a_queue_has_failed(broker: FakeBroker, tmp_path: Path) -> None:
    path = tmp_path / "history"
    async with producer(broker, path) as one:
        with pytest.raises(LedgerError):
            await one.send("nowhere", b"a")
    (send,) = sends(path)
    assert (send.outcome, send.sequence, send.producer) == (OperationOutcome.FAIL, -1, "")


async def test_a_history_that_cannot_be_written_is_told_at_the_start(broker: FakeBroker, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="cannot be written"):
        await producer(broker, tmp_path / "none" / "history").start()
