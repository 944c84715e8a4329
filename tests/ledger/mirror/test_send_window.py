"""The window of batches in flight: order, bounds and the first failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.client.producer.produce_stream import AttemptResult
from ledger.client.producer.producer_batch import Acknowledged
from ledger.errors import BusyError, LedgerError, NoLeaderError, SequenceGapError
from ledger.mirror.send_window import SendWindow, SentCopy


class FakeStreams:
    """Keeps what is submitted."""

    def __init__(self) -> None:
        self.submitted: list[SentCopy] = []

    def to(self, address: str, shard: int) -> FakeStreams:
        return self

    def submit(self, user: SendWindow, shard: int, batches: Sequence[SentCopy]) -> None:
        self.submitted += batches


class Bench:
    def __init__(self, most_bytes: int = 1_000, leader: str | None = "node:1") -> None:
        self.copied: list[int] = []
        self.noted: list[LedgerError] = []
        self.streams = FakeStreams()
        routes = SimpleNamespace(
            table=SimpleNamespace(leader_address=lambda shard: leader),
            refresh_soon=lambda: None,
            note=lambda shard, address, error: self.noted.append(error),
        )
        client: Any = SimpleNamespace(routes=routes)
        streams: Any = self.streams
        self.window = SendWindow(
            client, streams, 0, lambda copy, _: self.copied.append(copy.source), lambda: most_bytes
        )
        self._answered = 0

    def answer(self, *answers: Acknowledged | LedgerError) -> None:
        """Answer the next batches in flight."""
        batches = self.streams.submitted[self._answered : self._answered + len(answers)]
        self._answered += len(answers)
        self.window.attempts_ended(
            "node:1", [AttemptResult(0, batch, answer) for batch, answer in zip(batches, answers, strict=True)]
        )


DONE = Acknowledged(0, 1, 0, duplicate=False)


def batch(source: int, size: int = 10) -> SentCopy:
    return SentCopy(bytes(size), source, 1, 0)


async def in_flight(bench: Bench) -> int:
    await asyncio.sleep(0)
    return len(bench.streams.submitted)


async def test_it_begins_with_one_batch_and_doubles() -> None:
    bench = Bench()

    async def send_all() -> None:
        for source in range(20):
            await bench.window.send(batch(source))

    sending = asyncio.create_task(send_all())
    assert await in_flight(bench) == 1
    bench.answer(DONE)
    assert await in_flight(bench) == 3
    bench.answer(DONE)
    assert await in_flight(bench) == 6
    bench.answer(DONE, DONE, DONE, DONE)
    assert await in_flight(bench) == 20
    await sending
    assert bench.copied == [0, 1, 2, 3, 4, 5]
    assert [each.source for each in bench.streams.submitted] == list(range(20))


async def test_bytes_in_flight_are_bounded_but_one_batch_always_goes() -> None:
    bench = Bench(most_bytes=25)
    await bench.window.send(batch(0, 1_000))
    bench.answer(DONE)
    await bench.window.send(batch(1, 20))
    waiting = asyncio.create_task(bench.window.send(batch(2, 20)))
    assert await in_flight(bench) == 2
    bench.answer(DONE)
    await waiting
    assert await in_flight(bench) == 3


async def test_the_first_failure_counts_and_later_results_do_not() -> None:
    bench = Bench()
    await bench.window.send(batch(0))
    bench.answer(DONE)
    for source in (1, 2):
        await bench.window.send(batch(source))
    waiting = asyncio.create_task(bench.window.send(batch(3)))
    await asyncio.sleep(0)
    bench.answer(BusyError("busy"))
    with pytest.raises(BusyError):
        await waiting
    draining = asyncio.create_task(bench.window.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    bench.answer(SequenceGapError("gap"))
    await draining
    assert bench.window.failed == batch(1)
    assert isinstance(bench.window.failure, BusyError)
    assert bench.copied == [0]
    assert len(bench.noted) == 2
    with pytest.raises(BusyError):
        bench.window.raise_failure()


async def test_without_a_leader_nothing_is_sent() -> None:
    bench = Bench(leader=None)
    with pytest.raises(NoLeaderError):
        await bench.window.send(batch(0))
    await bench.window.drain()
    assert bench.streams.submitted == []
