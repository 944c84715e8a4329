"""The consumers of a chaos run read from the leader or from one node. From time to time a consumer restarts or seeks.

In the history, each consumer is a separate process. A consumer records the offset at which each reading begins, and
every message that it receives. For each message the consumer also records the producer, epoch and sequence in the
message's batch. Of messages that had waited for their delivery times, and of messages of transactions, it records what
the batch says about them, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import google_crc32c

from chaos.live.load.spec import ClientSpec
from ledger.batch import decided_column, fired_column
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.consumer.cursor import QueueBatch
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.errors import LedgerError
from ledger.history import Assign, Delivery, HistoryWriter, Poll, ProgressReport, Reveal, now_ns

_POLL_MS = 200
_AGAIN_S = 0.3
# The shortest and the longest life of a consumer, in seconds. Then the consumer is closed, and a new one starts.
_LIVES_S = (2.0, 15.0)
# The share of polls after which a consumer seeks.
_SEEKS = 0.02
# A node serves messages of a shard in which it has one of these roles.
_READABLE = ("leader", "candidate", "pre-candidate", "follower", "learner")


class HistoryReader:
    """One consumer of one topic, which records what it receives."""

    def __init__(self, writer: HistoryWriter, process: int, topic: str, node: int, *, final: bool = False) -> None:
        self._writer = writer
        self._process = process
        self._topic = topic
        self._node = node
        self._final = final
        # By queue: messages before this offset were not requested. A consumer may return them, since it returns whole
        # batches.
        self._from: dict[int, int] = {}

    def assigned(self, queue: int, offset: int) -> None:
        """Record that the consumer reads this queue from `offset` on."""
        self._from[queue] = offset
        self._writer.write(Assign(self._process, self._topic, queue, offset, now_ns()))

    async def poll(self, consumer: AsyncConsumer, timeout_ms: float) -> int:
        """Poll the consumer and record what it returns. Returns the number of messages."""
        start = now_ns()
        by_queue: dict[int, list[QueueBatch]] = {}
        for batch in await consumer.getbatches(timeout_ms):
            by_queue.setdefault(batch.queue, []).append(batch)
        return sum(self._polled(queue, batches, start) for queue, batches in by_queue.items())

    def nothing(self, queue: int, start: int) -> None:
        """Record that a queue was read to its end and has no messages."""
        self._write(queue, [], start, now_ns())

    def _polled(self, queue: int, batches: list[QueueBatch], start: int) -> int:
        first, start_and_end = self._from.pop(queue, 0), (start, now_ns())
        rows = []
        waited: list[tuple[int, int, int, int, int]] = []
        decided: list[tuple[int, int, int, int, int]] = []
        for one in batches:
            waited += _waited(one, first)
            decided += _decided(one, first)
            header, producer = one.batch.header, f"{one.batch.header.producer_id:016x}"
            for number, value in enumerate(one.batch.values()):
                if one.base_offset + number >= first:
                    sequence, crc = header.first_sequence + number, google_crc32c.value(value)
                    rows.append((one.base_offset + number, producer, header.epoch, sequence, crc))
        # Before the poll, so that no poll of a killed process lacks these lines.
        if decided:
            offsets, shards, numbers, halves, crcs = (list(column) for column in zip(*decided, strict=True))
            self._writer.write(
                Reveal(self._process, self._topic, queue, offsets, shards, numbers, halves, crcs, *start_and_end)
            )
        if waited:
            offsets, identities, times_ms, appended_ms, crcs = (list(column) for column in zip(*waited, strict=True))
            self._writer.write(
                Delivery(
                    self._process,
                    self._topic,
                    queue,
                    offsets,
                    identities,
                    times_ms,
                    appended_ms,
                    crcs,
                    *start_and_end,
                )
            )
        self._write(queue, rows, *start_and_end)
        return len(rows)

    def _write(self, queue: int, rows: list[tuple[int, str, int, int, int]], start: int, end: int) -> None:
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
                end,
            )
        )


def _waited(one: QueueBatch, first: int) -> list[tuple[int, int, int, int, int]]:
    """Return the values of a history line `delivery` for those messages of the batch that had waited, from the offset
    `first` on; an empty list if the batch delivers no waiting messages."""
    fired = fired_column(one.batch.data)
    if fired is None:
        return []
    crcs = map(google_crc32c.value, one.batch.values())
    rows = zip(one.offsets.tolist(), fired.identities.tolist(), fired.times_ms.tolist(), crcs, strict=True)
    return [
        (offset, identity, time_ms, one.append_time_ms, crc)
        for offset, identity, time_ms, crc in rows
        if offset >= first
    ]


def _decided(one: QueueBatch, first: int) -> list[tuple[int, int, int, int, int]]:
    """Return the values of a history line `reveal` for the messages of the batch from the offset `first` on; an empty
    list if no commit made the batch."""
    decided = decided_column(one.batch.data)
    if decided is None:
        return []
    crcs = map(google_crc32c.value, one.batch.values())
    return [
        (offset, decided.shard, decided.transaction, decided.half, crc)
        for offset, crc in zip(one.offsets.tolist(), crcs, strict=True)
        if offset >= first
    ]


async def consume(spec: ClientSpec, stop: asyncio.Event) -> None:
    """Run consumers until `stop`: one consumer that always reads from the leader, and for each node one consumer
    that reads only from this node."""
    with HistoryWriter(Path(spec.history)) as writer:
        numbers = iter(range(spec.first_process, spec.first_process + 1_000_000))
        async with asyncio.TaskGroup() as tasks:
            for place, node in enumerate((0, *spec.nodes)):
                random = Random(f"{spec.seed} consumer {place}")
                topic = spec.topics[place % len(spec.topics)]
                tasks.create_task(_lives(spec, writer, numbers, topic, node, random, stop))


async def _lives(
    spec: ClientSpec,
    writer: HistoryWriter,
    numbers: Iterator[int],
    topic: str,
    node: int,
    random: Random,
    stop: asyncio.Event,
) -> None:
    """Run one consumer after another until `stop`. When a consumer ends or fails, the next consumer starts."""
    while not stop.is_set():
        reader = HistoryReader(writer, next(numbers), topic, node)
        try:
            await _life(spec, reader, topic, node, random, stop)
        except LedgerError:
            await asyncio.sleep(_AGAIN_S)


async def _life(
    spec: ClientSpec, reader: HistoryReader, topic: str, node: int, random: Random, stop: asyncio.Event
) -> None:
    """Read from the beginning or from the end, and seek from time to time."""
    loop = asyncio.get_running_loop()
    over = loop.time() + random.uniform(*_LIVES_S)
    start = random.choice(("earliest", "latest"))
    settings = {"bootstrap_servers": list(spec.bootstrap), "node": node or None, "max_wait_ms": _POLL_MS}
    queues = await _queues_on(spec, topic, node) if node else list(range(spec.queues))
    if not queues:
        await asyncio.sleep(_AGAIN_S)
        return
    async with AsyncConsumer(topic, start=start, queues=queues, rng=random, **settings) as consumer:  # type: ignore[arg-type]
        for queue in queues:
            reader.assigned(queue, consumer.position(topic, queue))
        while not stop.is_set() and loop.time() < over:
            await reader.poll(consumer, _POLL_MS)
            if random.random() < _SEEKS:
                queue = random.choice(queues)
                offset = random.randint(0, consumer.position(topic, queue))
                await consumer.seek(topic, queue, offset)
                reader.assigned(queue, offset)


async def _queues_on(spec: ClientSpec, topic: str, node: int) -> list[int]:
    """Return the queues of the topic that the node has at this moment."""
    async with AsyncAdmin(list(spec.bootstrap)) as admin:
        shards = (await admin.describe_topic(topic)).shards
        statuses = [status for status in await admin.cluster() if status.node == node]
        held = {one.shard for status in statuses for one in status.shards if one.role in _READABLE}
        return [queue for queue, shard in enumerate(shards) if shard in held]


async def watch_progress(spec: ClientSpec, group: str, stop: asyncio.Event) -> None:
    """Run a member of a consumer group that reads all topics, and a client that asks for the offsets of the group."""
    with HistoryWriter(Path(spec.history)) as writer:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_member(spec, group, stop))
            tasks.create_task(_ask(spec, writer, group, stop))


async def _member(spec: ClientSpec, group: str, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            async with AsyncGroupConsumer(*spec.topics, group=group, bootstrap_servers=list(spec.bootstrap)) as member:
                while not stop.is_set():
                    await member.getmany(timeout_ms=_POLL_MS)
        except LedgerError:
            await asyncio.sleep(_AGAIN_S)


async def _ask(spec: ClientSpec, writer: HistoryWriter, group: str, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            async with AsyncAdmin(list(spec.bootstrap)) as admin:
                while not stop.is_set():
                    start = now_ns()
                    described = await admin.describe_consumer_group(group)
                    for one in described.queues:
                        if one.offset is not None:
                            writer.write(
                                ProgressReport(
                                    spec.first_process, group, one.topic, one.queue, one.offset, start, now_ns()
                                )
                            )
                    await asyncio.sleep(_AGAIN_S)
        except LedgerError:
            await asyncio.sleep(_AGAIN_S)
