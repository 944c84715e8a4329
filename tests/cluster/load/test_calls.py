"""Calls of a producer: how many are in flight, what the recorder learns, and how a load ends."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from cluster.load.calls import CallSource, ProducerCall, Receipt, make_calls
from cluster.load.in_flight import keep_in_flight
from ledger.errors import BusyError, LedgerError
from ledgermq import AsyncProducer, RecordMetadata


class CountingProducer:
    """Acknowledges every call after a turn of the event loop, except values that begin with b"bad"."""

    def __init__(self) -> None:
        self.in_flight = self.most_in_flight = 0
        self.calls: list[tuple[str, int, dict[str, Any]]] = []

    async def send(self, topic: str, value: bytes, **where: Any) -> RecordMetadata:
        return await self._answer("send", [value], where)

    def send_nowait(self, topic: str, value: bytes, **where: Any) -> asyncio.Future[RecordMetadata]:
        return asyncio.ensure_future(self._answer("send-nowait", [value], where))

    async def send_many(self, topic: str, values: list[bytes], **where: Any) -> RecordMetadata:
        return await self._answer("send-many", values, where)

    async def _answer(self, way: str, values: list[bytes], where: dict[str, Any]) -> RecordMetadata:
        self.calls.append((way, len(values), where))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0)
            if values[0].startswith(b"bad"):
                raise BusyError("busy")
        finally:
            self.in_flight -= 1
        return RecordMetadata("topic", 0, 0, 0, 1, False)


class ListRecorder:
    """Keeps the values of acknowledged and failed calls. With `ends`, the first failure ends the load."""

    def __init__(self, *, ends: bool = False) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[bytes] = []
        self._ends = ends

    def record_acknowledged(self, call: ProducerCall, receipt: Receipt) -> None:
        self.acknowledged += call.values

    def record_failed(self, call: ProducerCall, error: LedgerError) -> None:
        self.failed += call.values
        if self._ends:
            raise error


def source_of(*calls: ProducerCall) -> CallSource:
    left = iter(calls)

    async def next_call() -> ProducerCall | None:
        return next(left, None)

    return next_call


def sends(*values: bytes) -> list[ProducerCall]:
    return [ProducerCall("send", "topic", [value]) for value in values]


async def make(calls: list[ProducerCall], recorder: ListRecorder, in_flight: int) -> CountingProducer:
    producer = CountingProducer()
    await make_calls([cast("AsyncProducer", producer)], source_of(*calls), recorder, in_flight)
    return producer


async def test_every_call_is_made_once_and_never_more_than_that_many_at_a_time() -> None:
    recorder, values = ListRecorder(), [b"%d" % number for number in range(100)]
    producer = await make(sends(*values), recorder, 7)
    assert sorted(recorder.acknowledged) == sorted(values)
    assert producer.most_in_flight == 7


async def test_each_way_is_its_own_call_with_key_tag_and_queue() -> None:
    calls = [
        ProducerCall("send", "topic", [b"a"], b"k", "t", 1),
        ProducerCall("send-nowait", "topic", [b"b"], queue=2),
        ProducerCall("send-many", "topic", [b"c", b"d"]),
    ]
    recorder = ListRecorder()
    producer = await make(calls, recorder, 1)
    assert producer.calls == [
        ("send", 1, {"key": b"k", "tag": "t", "queue": 1}),
        ("send-nowait", 1, {"key": None, "tag": None, "queue": 2}),
        ("send-many", 2, {"key": None, "tag": None, "queue": None}),
    ]
    assert recorder.acknowledged == [b"a", b"b", b"c", b"d"]


async def test_a_failure_is_recorded_and_the_load_continues() -> None:
    recorder = ListRecorder()
    await make(sends(b"1", b"bad", b"2"), recorder, 2)
    assert (sorted(recorder.acknowledged), recorder.failed) == ([b"1", b"2"], [b"bad"])


async def test_a_recorder_that_raises_ends_the_load_with_that_error() -> None:
    recorder = ListRecorder(ends=True)
    with pytest.raises(BusyError):
        await make(sends(b"bad", *(b"%d" % number for number in range(100))), recorder, 2)
    assert len(recorder.acknowledged) < 10


async def test_keep_in_flight_raises_the_first_error_itself() -> None:
    async def work(item: int) -> None:
        await asyncio.sleep(0)
        if item == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        await keep_in_flight(work, range(10), 4)
