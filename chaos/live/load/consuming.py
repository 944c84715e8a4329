"""Consumers under load: they follow the leader or a node, start anew, and go where they like.

Each consumer is a process of the history that knows nothing of what others read; it writes down where it is told to
go on, and whatever it is handed, with the names that producers wrote into their batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import google_crc32c

from chaos.live.load.spec import Spec
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.consumer.cursor import QueueBatch
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.errors import LedgerError
from ledger.history import Assign, HistoryWriter, Poll, Progress, now_ns

_POLL_MS = 200
_AGAIN_S = 0.3
# After so long a consumer is closed, and another begins.
_LIVES_S = (2.0, 15.0)
# Share of polls after which one goes elsewhere.
_SEEKS = 0.02


class Reader:
    """One consumer of one topic: writes down what it is handed."""

    def __init__(self, writer: HistoryWriter, process: int, topic: str, node: int, *, final: bool = False) -> None:
        self._writer = writer
        self._process = process
        self._topic = topic
        self._node = node
        self._final = final
        # By queue: what lies before it was not asked for, though a batch is given whole.
        self._from: dict[int, int] = {}

    def assigned(self, queue: int, offset: int) -> None:
        self._from[queue] = offset
        self._writer.write(Assign(self._process, self._topic, queue, offset, now_ns()))

    def polled(self, batches: list[QueueBatch], start: int) -> int:
        """Returns the number of messages."""
        by_queue: dict[int, list[QueueBatch]] = {}
        for batch in batches:
            by_queue.setdefault(batch.queue, []).append(batch)
        return sum(self._polled(queue, ones, start) for queue, ones in by_queue.items())

    def nothing(self, queue: int, start: int) -> None:
        """It was read to its end, and has nothing."""
        self._write(queue, [], start)

    def _polled(self, queue: int, batches: list[QueueBatch], start: int) -> int:
        first = self._from.pop(queue, 0)
        rows = []
        for one in batches:
            header, producer = one.batch.header, f"{one.batch.header.producer_id:016x}"
            for number, value in enumerate(one.batch.values()):
                if one.base_offset + number >= first:
                    sequence, crc = header.first_sequence + number, google_crc32c.value(value)
                    rows.append((one.base_offset + number, producer, header.epoch, sequence, crc))
        self._write(queue, rows, start)
        return len(rows)

    def _write(self, queue: int, rows: list[tuple[int, str, int, int, int]], start: int) -> None:
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], [], []]
        offsets, producers, epochs, sequences, crcs = columns
        self._writer.write(
            Poll(
                self._process,
                self._topic,
                queue,
                offsets,
                producers,
                epochs,
                sequences,
                crcs,
                self._node,
                self._final,
                start,
                now_ns(),
            )
        )


async def consume(spec: Spec, stop: asyncio.Event) -> None:
    """Until `stop`: one that follows the leader, and one for each node."""
    with HistoryWriter(Path(spec.history)) as writer:
        numbers = iter(range(spec.first_process, spec.first_process + 1_000_000))
        async with asyncio.TaskGroup() as tasks:
            for place, node in enumerate((0, *spec.nodes)):
                random = Random(f"{spec.seed} consumer {place}")
                topic = spec.topics[place % len(spec.topics)]
                tasks.create_task(_lives(spec, writer, numbers, topic, node, random, stop))


async def _lives(
    spec: Spec,
    writer: HistoryWriter,
    numbers: Iterator[int],
    topic: str,
    node: int,
    random: Random,
    stop: asyncio.Event,
) -> None:
    """One consumer after the other."""
    while not stop.is_set():
        reader = Reader(writer, next(numbers), topic, node)
        try:
            await _life(spec, reader, topic, node, random, stop)
        except LedgerError:
            await asyncio.sleep(_AGAIN_S)


async def _life(spec: Spec, reader: Reader, topic: str, node: int, random: Random, stop: asyncio.Event) -> None:
    """From the beginning, or the end; now and then it goes elsewhere."""
    loop = asyncio.get_running_loop()
    over = loop.time() + random.uniform(*_LIVES_S)
    start = random.choice(("earliest", "latest"))
    settings = {"bootstrap_servers": list(spec.bootstrap), "node": node or None, "max_wait_ms": _POLL_MS}
    async with AsyncConsumer(topic, start=start, rng=random, **settings) as consumer:  # type: ignore[arg-type]
        for queue in range(spec.queues):
            reader.assigned(queue, consumer.position(topic, queue))
        while not stop.is_set() and loop.time() < over:
            began = now_ns()
            reader.polled(await consumer.getbatches(_POLL_MS), began)
            if random.random() < _SEEKS:
                queue = random.randrange(spec.queues)
                offset = random.randint(0, consumer.position(topic, queue))
                await consumer.seek(topic, queue, offset)
                reader.assigned(queue, offset)


async def watch_progress(spec: Spec, group: str, stop: asyncio.Event) -> None:
    """A member of a consumer group that reads all topics, and somebody who asks how far it has come."""
    with HistoryWriter(Path(spec.history)) as writer:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_member(spec, group, stop))
            tasks.create_task(_ask(spec, writer, group, stop))


async def _member(spec: Spec, group: str, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            async with AsyncGroupConsumer(*spec.topics, group=group, bootstrap_servers=list(spec.bootstrap)) as member:
                while not stop.is_set():
                    await member.getmany(timeout_ms=_POLL_MS)
        except LedgerError:
            await asyncio.sleep(_AGAIN_S)


async def _ask(spec: Spec, writer: HistoryWriter, group: str, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            async with AsyncAdmin(list(spec.bootstrap)) as admin:
                while not stop.is_set():
                    start = now_ns()
                    described = await admin.describe_consumer_group(group)
                    for one in described.queues:
                        if one.offset is not None:
                            writer.write(
                                Progress(spec.first_process, group, one.topic, one.queue, one.offset, start, now_ns())
                            )
                    await asyncio.sleep(_AGAIN_S)
        except LedgerError:
            await asyncio.sleep(_AGAIN_S)
