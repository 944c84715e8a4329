"""Runs the consumers of a measurement. The consumers read a topic from its beginning to the end offsets that the topic
had when the measurement started.

    consumer 1 ── queues 0, 2 ──┐
    consumer 2 ── queues 1, 3 ──┴──> messages as objects, or batches as arrays; checked on request

The number of messages to read is computed before the load starts (`messages_in`), so the load ends by itself. The
number of messages is the same with and without a consumer group.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from cluster.load.failure import LoadError
from cluster.load.processes import Progress
from cluster.load.reading import Shape, take
from cluster.load.stamped_payloads import PayloadCheck
from cluster.load.topics import messages_in
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.client.records import TopicDescription
from ledger.errors import LedgerError

_CLOSE_S = 5.0
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class ConsumerLoad:
    """Describes what the consumers of a measurement do. The consumers stop at the end of the topic, or earlier
    after `count` messages or `seconds`; 0 means no limit."""

    bootstrap: str
    topic: TopicDescription
    shape: Shape = "objects"
    group: str | None = None
    consumers: int = 1
    count: int = 0
    seconds: float = 0.0
    # The load fails if no message comes for so long.
    silence_s: float = 30.0
    # The first offset of each queue, for consumers without a group; empty: the first offset that the topic has.
    begin: tuple[int, ...] = ()

    @property
    def wanted(self) -> int:
        """Return how many messages the load reads."""
        total = messages_in(self.topic)
        if self.begin:
            total = sum(each.end_offset - begin for each, begin in zip(self.topic.offsets, self.begin, strict=True))
        return min(total, self.count) if self.count else total


@dataclass(slots=True)
class ConsumerFigures:
    """The result of a measurement of consumers. `seconds` is the time from the start of the first consumer to the
    last message."""

    records: int = 0
    size: int = 0
    seconds: float = 0.0
    by_consumer: list[int] = field(default_factory=list)


class Consuming:
    """One run of the consumers of a measurement. Other tasks are allowed to read `got.records` while the load runs."""

    def __init__(self, load: ConsumerLoad, check: PayloadCheck | None, progress: Progress) -> None:
        """`check` checks the payload of every message; None switches this check off."""
        self._load, self._check, self._progress = load, check, progress
        self._done = asyncio.Event()
        self._heard = 0.0
        self.got = ConsumerFigures(by_consumer=[0] * load.consumers)

    async def run(self) -> ConsumerFigures:
        """Read messages until the load ends. Raises LedgerError.

        Raises LoadError if no message arrives for `load.silence_s` seconds, or if the messages have no stamps that can
        be checked.
        """
        started = self._heard = time.perf_counter()
        consumers = self._make()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._consume(place, one)) for place, one in enumerate(consumers)]
                await self._wait(started)
                for task in tasks:
                    task.cancel()
        except* (LoadError, LedgerError) as several:
            raise several.exceptions[0] from None
        finally:
            for consumer in consumers:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CLOSE_S):
                        await consumer.stop()
        self.got.seconds = self._heard - started
        return self.got

    def _make(self) -> Sequence[AsyncConsumer | AsyncGroupConsumer]:
        load, name = self._load, self._load.topic.name
        if load.group is not None:
            return [
                AsyncGroupConsumer(name, group=load.group, bootstrap_servers=load.bootstrap, max_attempts=1)
                for _ in range(load.consumers)
            ]
        queues = range(load.topic.queues)
        return [
            AsyncConsumer(name, bootstrap_servers=load.bootstrap, queues=queues[place :: load.consumers])
            for place in range(load.consumers)
        ]

    async def _seek(self, consumer: AsyncConsumer | AsyncGroupConsumer) -> None:
        if self._load.begin and isinstance(consumer, AsyncConsumer):
            for place in await consumer.end_offsets():
                await consumer.seek(place.topic, place.queue, self._load.begin[place.queue])

    async def _wait(self, started: float) -> None:
        """Return when all messages are read or the time of the load is over. Raises LoadError if no message arrives
        for `load.silence_s` seconds."""
        load = self._load
        while not self._done.is_set():
            left = load.silence_s - (time.perf_counter() - self._heard)
            if load.seconds:
                left = min(left, load.seconds - (time.perf_counter() - started))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(left, _LOOK_S))):
                    await self._done.wait()
            now = time.perf_counter()
            if load.seconds and now - started >= load.seconds:
                return
            if now - self._heard >= load.silence_s:
                raise LoadError(
                    f"{self.got.records} of {load.wanted} messages came, and no message for {load.silence_s:g} s"
                    + (f": has consumer group {load.group} consumed the others before?" if load.group else "")
                )

    async def _consume(self, place: int, consumer: AsyncConsumer | AsyncGroupConsumer) -> None:
        """Start the consumer, and read until the load ends. The consumers that have started read while others start."""
        await consumer.start()
        await self._seek(consumer)
        while not self._done.is_set():
            await self._poll(place, consumer)

    async def _poll(self, place: int, consumer: AsyncConsumer | AsyncGroupConsumer) -> None:
        """Take messages once, and count them. This is a separate function, so that the messages of a poll leave the
        memory before the next poll waits."""
        taken = await take(consumer, self._load.shape)
        if not taken.count:
            return
        if self._check is not None:
            for rows in taken.rows():
                self._check.add(rows)
        self._heard = time.perf_counter()
        self.got.by_consumer[place] += taken.count
        self.got.records += taken.count
        self.got.size += taken.size
        self._progress(self.got.records)
        if self.got.records >= self._load.wanted:
            self._done.set()
