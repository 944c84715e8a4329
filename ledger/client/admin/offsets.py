"""Reads the first and end offsets of queues, and the offsets at given times.

By default, the leader of each shard answers for the queues of its shard, after a linearizable read index. If the
caller names a node, this node answers for all queues, from the entries that it has applied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from ledger.client.checked_arguments import checked_pair, shown
from ledger.client.checked_numbers import as_whole
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.records import QueueOffsets, TopicQueue
from ledger.errors import InvalidArgumentError, UnknownQueueError
from ledger.v1 import broker_pb2
from ledger.v1.broker_pb2_grpc import BrokerStub

# A time in ms since 1970 for each queue.
QueueTimes = Mapping[TopicQueue, int] | Mapping[tuple[str, int], int]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def list_offsets(
    client: ClusterClient, topic: RoutedTopic, queues: Sequence[int], *, node: int | None = None, sizes: bool = False
) -> dict[int, QueueOffsets]:
    """Return the first offset and the end offset of each given queue, by queue number. If `node` is given, ask this
    node instead of the leaders of the shards. With `sizes`, also about how many bytes the messages take."""
    found: dict[int, QueueOffsets] = {}
    for shard in sorted({topic.shards[queue] for queue in queues}):
        of_shard = [queue for queue in queues if topic.shards[queue] == shard]
        request = broker_pb2.ListOffsetsRequest(
            topic_id=topic.topic_id, queues=of_shard, linearizable=node is None, sizes=sizes
        )
        response = await client.call(shard, _asking(request), node=node)
        for one in response.queues:
            found[one.queue] = QueueOffsets(one.queue, one.first_offset, one.end_offset, one.about_bytes)
    return found


async def offsets_for_times(
    client: ClusterClient, times: QueueTimes, *, node: int | None = None
) -> dict[TopicQueue, int]:
    """Return for each queue the offset of the first message that was appended at the given time or later.

    If a queue has no message from the given time or later, its result is the end offset of the queue. One request asks
    for all queues that have the same shard, topic and time. Raises UnknownTopicError, UnknownQueueError or
    InvalidArgumentError.
    """
    together: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for (name, queue), time_ms in _checked_times(times).items():
        together[name, time_ms].append(queue)
    found: dict[TopicQueue, int] = {}
    for (name, time_ms), queues in together.items():
        topic = await client.topic(name)
        if wrong := [queue for queue in queues if not 0 <= queue < len(topic.shards)]:
            raise UnknownQueueError(
                f'Topic "{name}" has no queue {wrong[0]}: its queues are 0 to {len(topic.shards) - 1}.'
            )
        for shard in sorted({topic.shards[queue] for queue in queues}):
            request = broker_pb2.ListOffsetsRequest(
                topic_id=topic.topic_id,
                queues=[queue for queue in queues if topic.shards[queue] == shard],
                linearizable=node is None,
                time_ms=time_ms,
            )
            response = await client.call(shard, _asking(request), node=node)
            found |= {TopicQueue(name, one.queue): one.time_offset for one in response.queues}
    return found


def _checked_times(times: object) -> dict[TopicQueue, int]:
    if not isinstance(times, Mapping):
        raise InvalidArgumentError(
            f'times is {shown(times)}: give a dict of pairs (topic, queue) and times, such as {{("orders", 0): 0}}.'
        )
    return {checked_pair("times", place): checked_time(time_ms) for place, time_ms in times.items()}


def checked_time(time_ms: object) -> int:
    """Return `time_ms` as an int if it is a valid time in ms since 1970; it may be an integer of NumPy. Raises
    InvalidArgumentError if `time_ms` is not a valid time."""
    number = as_whole(time_ms)
    if number is None or not 0 <= number < 1 << 62:
        raise InvalidArgumentError(f"A time must be milliseconds since 1970; it is {time_ms!r}.")
    return number


def in_ms(moment: datetime) -> int:
    """Return `moment` in milliseconds since 1970, rounded up. Raises InvalidArgumentError if `moment` has no time
    zone."""
    if moment.tzinfo is None:
        raise InvalidArgumentError(f"The time {moment} has no time zone: add one, as in datetime.now(UTC).")
    return -((_EPOCH - moment) // timedelta(milliseconds=1))


def _asking(
    request: broker_pb2.ListOffsetsRequest,
) -> Callable[[BrokerStub, float], Awaitable[broker_pb2.ListOffsetsResponse]]:
    return lambda stub, seconds: stub.ListOffsets(request, timeout=seconds)
