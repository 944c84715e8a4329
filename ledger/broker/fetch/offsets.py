"""Where queues begin and end on this node, and where in them a time lies.

A time is looked for in the log once, and then in each queue by the position found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ledger.broker.broker_replica import BrokerReplica
from ledger.errors import StorageFailedError
from ledger.v1 import broker_pb2
from store import RangeDamagedError
from store.index.time_index import offset_at, position_at
from store.log.entry import EntryFlawError

QUEUES_AT_ONCE = 16
"""Searched for a time before others have their turn."""


async def list_offsets(
    replica: BrokerReplica,
    request: broker_pb2.ListOffsetsRequest,
    queues: Sequence[int],
    response: broker_pb2.ListOffsetsResponse,
) -> None:
    """Adds what is asked about these queues, which live in the replica's shard. Raises UnknownTopicError,
    UnknownQueueError; StorageFailedError where the log is damaged in the time's place."""
    topic = replica.state.topics.require(request.topic_id, max(queues))
    timed = request.HasField("time_ms")
    try:
        position = position_at(replica.log, request.time_ms, replica.driver.applied) if timed else 0
    except (RangeDamagedError, EntryFlawError) as damage:
        raise StorageFailedError(f"the time cannot be looked for on this node: {damage}") from damage
    for number, queue in enumerate(queues, 1):
        units = replica.queues.get(topic.topic_id, queue)
        given = response.queues.add(queue=queue, first_offset=units.first_offset)
        given.end_offset = replica.state.next_offset(topic.topic_id, queue)
        if timed:
            given.time_offset = offset_at(units, position)
            if number % QUEUES_AT_ONCE == 0:
                await asyncio.sleep(0)
