"""Answers the requests of RocketMQ's service Admin that the cluster can answer truthfully."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from ledger.client.admin.consumer_group_records import QueueConsumption
from ledger.client.admin.consumer_groups_admin import ConsumerGroupsAdmin
from ledger.rocketmq.durations import time_ms, timestamp
from ledger.rocketmq.names import group_of, topic_of
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.refusals import FrontRefusal, ok
from ledger.rocketmq.routing import routed_topic
from ledger.rocketmq.topic_types import accepted_types
from ledger.rocketmq.v2 import admin_pb2
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.topics import is_system_topic

MAX_TOPICS = 1_000


async def describe_topic_status(
    request: admin_pb2.DescribeTopicStatusRequest, clients: NativeClients
) -> admin_pb2.DescribeTopicStatusResponse:
    """Return the type of a topic, which is unspecified if it takes several, and its time of creation. Raises
    FrontRefusal, LedgerError."""
    topic = await routed_topic(clients.cluster, request.topic)
    accepted = accepted_types(topic)
    return admin_pb2.DescribeTopicStatusResponse(
        status=ok(),
        topic_message_type=accepted[0] if len(accepted) == 1 else pb.MESSAGE_TYPE_UNSPECIFIED,
        description=topic.type,
        create_timestamp=timestamp(topic.created_ms),
    )


async def describe_group_accumulation(
    request: admin_pb2.DescribeGroupAccumulationRequest, clients: NativeClients
) -> admin_pb2.DescribeGroupAccumulationResponse:
    """Return how many messages a group has not consumed, of all topics or of those that the request names. Raises
    FrontRefusal, LedgerError."""
    if request.lite_topic:
        raise FrontRefusal(pb.ILLEGAL_LITE_TOPIC, "this cluster has no lite topics")
    if len(request.topics) > MAX_TOPICS:
        raise FrontRefusal(pb.BAD_REQUEST, f"a request names at most {MAX_TOPICS} topics")
    wanted = {topic_of(each): each.name for each in request.topics}
    described = await ConsumerGroupsAdmin(clients.cluster).describe(group_of(request.group))
    found = [
        queue
        for queue in described.queues
        if (queue.topic in wanted if wanted else not is_system_topic(queue.topic)) and queue.lag is not None
    ]
    answer = admin_pb2.DescribeGroupAccumulationResponse(status=ok(), accumulation=_accumulation(found))
    for topic in sorted({queue.topic for queue in found}):
        each = _accumulation(queue for queue in found if queue.topic == topic)
        answer.topic_accumulation[wanted.get(topic, topic)].CopyFrom(each)
    return answer


def _accumulation(
    queues: Iterable[QueueConsumption],
) -> admin_pb2.DescribeGroupAccumulationResponse.GroupAccumulation:
    queues = list(queues)
    leased, lag = sum(each.leased or 0 for each in queues), sum(each.lag or 0 for each in queues)
    found = admin_pb2.DescribeGroupAccumulationResponse.GroupAccumulation(
        inflight_messages=leased, ready_messages=max(0, lag - leased), accumulation=lag
    )
    found.deliver_delay_time.FromMilliseconds(round(max((each.lag_s or 0 for each in queues), default=0) * 1000))
    return found


async def reset_group_offset(
    request: admin_pb2.ResetGroupOffsetRequest, clients: NativeClients
) -> admin_pb2.ResetGroupOffsetResponse:
    """Move a group to the first message of a topic that is not older than a time. Raises FrontRefusal, LedgerError."""
    told = request.reset_timestamp
    if not request.HasField("reset_timestamp") or time_ms(told) is None:
        raise FrontRefusal(pb.BAD_REQUEST, "the time of the reset is missing, or is no time")
    topic = await routed_topic(clients.cluster, request.topic)
    to = datetime.fromtimestamp(told.seconds, UTC).replace(microsecond=told.nanos // 1_000)
    await ConsumerGroupsAdmin(clients.cluster).reset(
        group_of(request.group), to, topic=topic.name, queues=None, dry_run=False
    )
    return admin_pb2.ResetGroupOffsetResponse(status=ok())
