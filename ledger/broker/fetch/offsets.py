"""Finds the first and the end offset of queues on this node, and the first offset that was appended at a given time or
later.

A query with a time searches the log of each shard once for this time. The ConsumeQueue of each queue then turns the
found log position into an offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.fetch.queue_sizes import about_bytes
from ledger.broker.replicas import Replicas
from ledger.errors import StorageFailedError
from ledger.state import Topic
from store import UNREADABLE
from store.index.time_index import offset_at, position_at

# Queues that are searched for a time before other tasks run.
QUEUES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class OffsetsQuery:
    """A query for the offsets of a topic's queues. If `queues` is empty, the query is for all queues of the topic.
    With `time_ms`, the query also asks for the offset of the first message that was appended at this time (ms since
    1970) or later. With `sizes`, it also asks how many bytes the messages take."""

    topic_id: int
    queues: tuple[int, ...] = ()
    time_ms: int | None = None
    linearizable: bool = False
    sizes: bool = False


@dataclass(frozen=True, slots=True)
class OffsetsAnswer:
    """The offsets of the messages in one queue, which are [first_offset, end_offset). If the query has no time,
    `time_offset` is None."""

    queue: int
    first_offset: int
    end_offset: int
    time_offset: int | None = None
    # About how many bytes the messages take in the log; 0 if the query does not ask.
    about_bytes: int = 0


async def list_offsets(replicas: Replicas, query: OffsetsQuery) -> list[OffsetsAnswer]:
    """Return the offsets of the queues of the query, sorted by shard. Raises LedgerError, for example
    UnknownTopicError or UnknownQueueError. If the search for the time reads a damaged entry, raises
    StorageFailedError."""
    topic = await _topic(replicas, query)
    queues = query.queues or range(topic.queues)
    found: list[OffsetsAnswer] = []
    for shard in sorted({topic.shards[queue] for queue in queues}):
        replica = await replicas.require(shard).up_to_date(linearizable=query.linearizable)
        here = [queue for queue in queues if topic.shards[queue] == shard]
        found += await shard_offsets(replica, query.topic_id, here, query.time_ms, sizes=query.sizes)
    return found


async def _topic(replicas: Replicas, query: OffsetsQuery) -> Topic:
    topic = replicas.topic(query.topic_id)
    last = max(query.queues, default=0)
    if topic is not None and last < topic.queues:
        return topic
    replica = await replicas.topics.up_to_date(linearizable=query.linearizable)
    return replica.state.topics.require(query.topic_id, last)


async def shard_offsets(
    replica: BrokerReplica, topic_id: int, queues: Sequence[int], time_ms: int | None, *, sizes: bool = False
) -> list[OffsetsAnswer]:
    """Return the offsets of `queues`, which are in the replica's shard. Raises the same errors as `list_offsets`."""
    topic = replica.state.topics.require(topic_id, max(queues))
    try:
        position = 0 if time_ms is None else position_at(replica.log, time_ms, replica.driver.applied)
    except UNREADABLE as damage:
        raise StorageFailedError(f"this node cannot search its log for the time: {damage}") from damage
    found = []
    for number, queue in enumerate(queues, 1):
        units = replica.queues.get(topic.topic_id, queue)
        first, end = units.first_offset, replica.state.next_offset(topic.topic_id, queue)
        at = None if time_ms is None else offset_at(units, position)
        size = about_bytes(replica.log, units, first, units.end_offset) if sizes else 0
        found.append(OffsetsAnswer(queue, first, end, at, size))
        if (sizes or time_ms is not None) and number % QUEUES_AT_ONCE == 0:
            await asyncio.sleep(0)
    return found
