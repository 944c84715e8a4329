"""Tests the timer of the sender under uvloop, which nodes and benchmarks use, and what `flush` waits for."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from ledger.client.connection.backoff import Backoff
from ledger.client.connection.cluster_link import LinkKey, own_link
from ledger.client.connection.environment import PROCESS
from ledger.client.producer.accumulator import Accumulator
from ledger.client.producer.producer_batch import Acknowledged, BatchResult, Piece, ProducerBatch
from ledger.client.producer.queue_sequencer import QueueSequencer
from ledger.client.producer.receipts import SingleReceipt
from ledger.client.producer.sender import Sender
from ledger.client.producer.wait_warnings import Wait
from ledger.client.records import RecordMetadata
from ledger.errors import InternalError

SECONDS = 10


class Waking:
    """Stands for an accumulator without messages. The next wake is due at `wake`, and a poll at or after that time sets
    `polled`.
    """

    def __init__(self) -> None:
        self.wake: float | None = None
        self.polled = asyncio.Event()

    def next_wake(self) -> float | None:
        return self.wake

    def poll(self, now: float) -> SimpleNamespace:
        if self.wake is None or now >= self.wake:
            self.wake = None
            self.polled.set()
        return SimpleNamespace(results=[], dispatches=[])

    def abandon(self) -> list[Any]:
        return []

    def hasten(self, now: float) -> None: ...

    def unresolved(self) -> list[ProducerBatch]:
        return []

    def waits(self, now: float) -> dict[int, Wait]:
        return {}


def sender_of(accumulator: Waking) -> Sender:
    key = LinkKey((), None, PROCESS.channel, 30_000)
    link = own_link(key, Backoff(50, 500, random.Random(1)))
    return Sender(link, cast(Accumulator, accumulator), now_ms=PROCESS.now_ms, release=lambda _: None)


async def set_twice() -> None:
    loop, accumulator = asyncio.get_running_loop(), Waking()
    sender = sender_of(accumulator)
    accumulator.wake = loop.time() * 1000 + 0.2
    sender._set_timer()
    accumulator.wake += 5
    sender._set_timer()
    await asyncio.wait_for(accumulator.polled.wait(), SECONDS)
    await sender.close()


def test_a_timer_that_is_nearly_due_does_not_stop_the_next_ones() -> None:
    uvloop.run(set_twice())


async def set_to_fractions() -> None:
    loop, accumulator = asyncio.get_running_loop(), Waking()
    sender = sender_of(accumulator)
    for tenths in range(1, 40):
        accumulator.polled.clear()
        accumulator.wake = loop.time() * 1000 + tenths / 10
        sender._set_timer()
        await asyncio.wait_for(accumulator.polled.wait(), SECONDS)
    await sender.close()


def test_a_timer_that_fires_a_little_early_is_set_once_more() -> None:
    uvloop.run(set_to_fractions())


async def test_a_flush_waits_for_receipts_of_batches_that_are_settled() -> None:
    sender, answer = sender_of(Waking()), Acknowledged(0, 1, 2, duplicate=False)
    futures: list[asyncio.Future[RecordMetadata]] = [asyncio.Future() for _ in range(2_000)]
    for half in (futures[:1_000], futures[1_000:]):
        receipts = [(SingleReceipt("t", future), 1) for future in half]
        sender._conclude([BatchResult(0, receipts, answer, 0, ProducerBatch(0, 0.0, 0.0))])
    sender._tell()
    assert not futures[-1].done()
    await sender.flush()
    assert all(future.done() for future in futures)
    await sender.close()


async def test_after_a_defect_of_its_watch_a_sender_refuses_messages(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the watch, a message could wait for ever for the answer of a stream."""
    monkeypatch.setattr("ledger.client.producer.sender._WATCH_SECONDS", 0.001)
    accumulator, released = Waking(), list[int]()
    sender = sender_of(accumulator)
    sender._release = released.append
    accumulator.waits = None  # type: ignore[assignment, method-assign]
    await asyncio.wait([sender._watcher], timeout=SECONDS)
    future: asyncio.Future[RecordMetadata] = asyncio.Future()
    piece = cast(Piece, SimpleNamespace(size=7, receipt=SingleReceipt("t", future)))
    sender.add(cast(QueueSequencer, None), piece, close=False)
    with pytest.raises(InternalError, match="watch over the streams of a producer"):
        await future
    assert released == [7]
    assert "Traceback" in caplog.text
    await sender.close()
