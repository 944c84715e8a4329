"""Asks where queues begin and end.

The one idea: each group's leader is asked for that group's queues, by read index; one pinned node is asked for all of
them, and tells what it has applied. It must not know what the offsets are for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ledger.client.cluster_client import ClusterClient
from ledger.client.records import QueueOffsets
from ledger.client.route_table import Topic
from ledger.v1 import broker_pb2
from ledger.v1.broker_pb2_grpc import BrokerStub


async def list_offsets(
    client: ClusterClient, topic: Topic, queues: Sequence[int], *, node: int | None = None
) -> dict[int, QueueOffsets]:
    """The offsets of these queues, by queue. `node`: the one to ask, instead of the leaders."""
    found: dict[int, QueueOffsets] = {}
    for group in sorted({topic.groups[queue] for queue in queues}):
        of_group = [queue for queue in queues if topic.groups[queue] == group]
        request = broker_pb2.ListOffsetsRequest(topic_id=topic.topic_id, queues=of_group, linearizable=node is None)
        response = await client.call(group, _asking(request), node=node)
        for one in response.queues:
            found[one.queue] = QueueOffsets(one.queue, one.first_offset, one.end_offset)
    return found


def _asking(
    request: broker_pb2.ListOffsetsRequest,
) -> Callable[[BrokerStub, float], Awaitable[broker_pb2.ListOffsetsResponse]]:
    return lambda stub, seconds: stub.ListOffsets(request, timeout=seconds)
