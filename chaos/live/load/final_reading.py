"""The final reading: every queue is read from every node that has a replica of it, from the beginning of the queue to
the end that the leader reports.

The checker treats each message that the final reading does not find as lost, so the run fails if a node does not reach
the end in time. The checker also compares the messages of the nodes with each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from chaos.live.checker.completeness import is_held
from chaos.live.load.consuming import HistoryReader
from chaos.live.load.running import running
from chaos.live.load.spec import ClientSpec
from cluster.load.reading import read_to_the_ends
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.records import TopicQueue
from ledger.errors import LedgerError, UnknownTopicError
from ledger.history import HistoryWriter, now_ns

_POLL_MS = 500
_AGAIN_S = 0.5


async def read_to_the_end(spec: ClientSpec, stop: asyncio.Event) -> None:
    """Run one consumer for each node and topic. Returns when all queues are read, or `stop` is set."""
    with HistoryWriter(Path(spec.history)) as writer:
        process = spec.first_process
        for topic in spec.read_at_the_end:
            try:
                ends = await _ends(spec, topic, stop)
            except UnknownTopicError:
                _nothing_is_left(spec, writer, topic)
                continue
            async with asyncio.TaskGroup() as tasks:
                for node in spec.nodes:
                    reader = HistoryReader(writer, process, topic, node, final=True)
                    tasks.create_task(_read(spec, reader, topic, node, ends, stop))
                    process += 1


async def _ends(spec: ClientSpec, topic: str, stop: asyncio.Event) -> dict[int, int]:
    """Return the end offset of each queue, as the leader reports it."""
    while True:
        try:
            async with AsyncAdmin(list(spec.bootstrap)) as admin:
                described = await admin.describe_topic(topic)
                return {one.queue: one.end_offset for one in described.offsets}
        except UnknownTopicError:
            raise
        except LedgerError:
            if stop.is_set():
                raise
            await asyncio.sleep(_AGAIN_S)


def _nothing_is_left(spec: ClientSpec, writer: HistoryWriter, topic: str) -> None:
    """Record that the topic no longer exists, so its queues were read to their end and had no messages."""
    for node in spec.nodes:
        reader = HistoryReader(writer, spec.first_process, topic, node, final=True)
        for queue in _queues_on(spec, topic, node):
            reader.nothing(queue, now_ns())


def _queues_on(spec: ClientSpec, topic: str, node: int) -> list[int]:
    """Return the queues of the topic of which the node has a replica."""
    return [queue for queue in range(spec.queues) if is_held(spec.holders, topic, queue, node)]


async def _read(
    spec: ClientSpec, reader: HistoryReader, topic: str, node: int, ends: dict[int, int], stop: asyncio.Event
) -> None:
    queues = _queues_on(spec, topic, node)
    if not queues:
        return
    ends = {queue: end for queue, end in ends.items() if queue in queues}

    def make() -> AsyncConsumer:
        rng = Random(f"{spec.seed} final {node}")
        return AsyncConsumer(topic, bootstrap_servers=list(spec.bootstrap), node=node, queues=queues, rng=rng)

    def poll(consumer: AsyncConsumer) -> Callable[[], Awaitable[int]]:
        async def once() -> int:
            try:
                return await reader.poll(consumer, _POLL_MS)
            except LedgerError:
                await asyncio.sleep(_AGAIN_S)
                return 0

        return once

    async with running(make, stop) as consumer:
        for queue in ends:
            reader.assigned(queue, consumer.position(topic, queue))
            if consumer.position(topic, queue) >= ends[queue]:
                reader.nothing(queue, now_ns())
        places = {TopicQueue(topic, queue): end for queue, end in ends.items()}
        await read_to_the_ends(consumer, places, poll(consumer), stop=stop)
