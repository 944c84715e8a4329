"""The load of consumers: a topic is read from its beginning, up to where it ended when the clock started.

    consumer 1 ── queues 0, 2 ──┐
    consumer 2 ── queues 1, 3 ──┴──> messages as objects, or batches as arrays; checked on request

What is to be read is known before (`messages_in`), so the load ends by itself, and it is the same with a consumer
group and without.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cluster.bench.failure import BenchError
from cluster.bench.payloads import Check, rows_of, rows_of_values
from cluster.bench.processes import Progress
from cluster.bench.topics import messages_in
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.client.records import TopicDescription

Shape = Literal["arrays", "objects"]
_AT_ONCE = 20_000
_WAIT_MS = 500.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What consumers are to do. `count` and `seconds` end it before the end of the topic; 0: they do not."""

    bootstrap: str
    topic: TopicDescription
    shape: Shape = "objects"
    group: str | None = None
    consumers: int = 1
    count: int = 0
    seconds: float = 0.0
    # So long nothing may come before it is given up.
    silence_s: float = 30.0

    # An offset for each queue, not for consumer groups; without: the first one that is there.
    begin: tuple[int, ...] = ()

    @property
    def wanted(self) -> int:
        """How many messages are read."""
        total = messages_in(self.topic)
        if self.begin:
            total = sum(each.end_offset - begin for each, begin in zip(self.topic.offsets, self.begin, strict=True))
        return min(total, self.count) if self.count else total


@dataclass(slots=True)
class Got:
    """`seconds` from the first consumer's start to the last message."""

    records: int = 0
    size: int = 0
    seconds: float = 0.0
    by_consumer: list[int] = field(default_factory=list)


class Consuming:
    """One load. `got.records` may be read while it runs."""

    def __init__(self, reading: Reading, check: Check | None, progress: Progress) -> None:
        """`check`: what is told of every message, where the reading is to be verified."""
        self._reading, self._check, self._progress = reading, check, progress
        self._done = asyncio.Event()
        self._heard = 0.0
        self.got = Got(by_consumer=[0] * reading.consumers)

    async def run(self) -> Got:
        """Raises LedgerError; BenchError where nothing comes any more, or what is to be verified is not ours."""
        started = self._heard = time.perf_counter()
        consumers = self._make()
        try:
            for consumer in consumers:
                await consumer.start()
                await self._seek(consumer)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._read(place, one)) for place, one in enumerate(consumers)]
                await self._wait(started)
                for task in tasks:
                    task.cancel()
        except* BenchError as several:
            raise several.exceptions[0] from None
        finally:
            for consumer in consumers:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(5):
                        await consumer.stop()
        self.got.seconds = self._heard - started
        return self.got

    def _make(self) -> Sequence[AsyncConsumer | AsyncGroupConsumer]:
        reading, name = self._reading, self._reading.topic.name
        if reading.group is not None:
            return [
                AsyncGroupConsumer(name, group=reading.group, bootstrap_servers=reading.bootstrap, max_attempts=1)
                for _ in range(reading.consumers)
            ]
        queues = range(reading.topic.queues)
        return [
            AsyncConsumer(name, bootstrap_servers=reading.bootstrap, queues=queues[place :: reading.consumers])
            for place in range(reading.consumers)
        ]

    async def _seek(self, consumer: AsyncConsumer | AsyncGroupConsumer) -> None:
        if self._reading.begin and isinstance(consumer, AsyncConsumer):
            for place in await consumer.end_offsets():
                await consumer.seek(place.topic, place.queue, self._reading.begin[place.queue])

    async def _wait(self, started: float) -> None:
        """Until all is read, time is over, or nothing comes."""
        reading = self._reading
        while not self._done.is_set():
            left = reading.silence_s - (time.perf_counter() - self._heard)
            if reading.seconds:
                left = min(left, reading.seconds - (time.perf_counter() - started))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._done.wait(), max(0.0, min(left, 1.0)))
            now = time.perf_counter()
            if reading.seconds and now - started >= reading.seconds:
                return
            if now - self._heard >= reading.silence_s:
                raise BenchError(
                    f"{self.got.records} of {reading.wanted} messages came, and none for {reading.silence_s:g} s"
                    + (f": has group {reading.group} consumed the others before?" if reading.group else "")
                )

    async def _read(self, place: int, consumer: AsyncConsumer | AsyncGroupConsumer) -> None:
        take = self._take_of(consumer)
        while not self._done.is_set():
            count, size = await take()
            if count:
                self._heard = time.perf_counter()
                self.got.by_consumer[place] += count
                self.got.records += count
                self.got.size += size
                self._progress(self.got.records)
                if self.got.records >= self._reading.wanted:
                    self._done.set()

    def _take_of(self, consumer: AsyncConsumer | AsyncGroupConsumer) -> Callable[[], Awaitable[tuple[int, int]]]:
        check = self._check

        async def objects() -> tuple[int, int]:
            messages = await consumer.getmany(_AT_ONCE, _WAIT_MS)
            if check is not None:
                for rows in rows_of_values([message.value for message in messages]):
                    check.add(rows)
            return len(messages), sum(len(message.value) for message in messages)

        async def arrays() -> tuple[int, int]:
            assert isinstance(consumer, AsyncConsumer)
            batches = [batch for _, _, batch in await consumer.getbatches(_WAIT_MS)]
            if check is not None:
                for batch in batches:
                    check.add(rows_of(batch.bodies, len(batch)))
            return sum(map(len, batches)), sum(len(batch.bodies) for batch in batches)

        return objects if self._reading.shape == "objects" else arrays
