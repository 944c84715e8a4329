"""Serves consumers that read one queue by its offsets, and keep their progress as the offset of a group.

No official client calls these methods, and Apache's server has none of them. The offset of a group is the one that
`ledgermq group reset` sets, so it counts for the group's other consumers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.client.connection.route_table import RoutedTopic
from ledger.client.consumer.messages import decoded, messages_of
from ledger.client.records import Message
from ledger.errors import LedgerError, OffsetBeyondEndError, OffsetTooLowError, from_wire
from ledger.limits import MAX_OFFSET
from ledger.rocketmq.calls import ANSWER_MS, Context, FrontCall
from ledger.rocketmq.client_settings import RECEIVE_BATCH
from ledger.rocketmq.durations import milliseconds, time_ms
from ledger.rocketmq.filters import filter_of
from ledger.rocketmq.groups import FrontGroups
from ledger.rocketmq.incoming_message import incoming_message
from ledger.rocketmq.names import group_of
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.refusals import FrontRefusal, ok
from ledger.rocketmq.routing import routed_topic
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledger.v1 import broker_pb2, consumer_group_operations_pb2

MAX_PULL_BYTES = 4 << 20
MAX_PULL_WAIT_MS = 20_000


class FrontPulling:
    """Reads queues by their offsets, and keeps the offsets of groups."""

    def __init__(self, groups: FrontGroups) -> None:
        self._groups = groups

    async def pull(
        self, request: service_pb2.PullMessageRequest, call: FrontCall, clients: NativeClients, context: Context
    ) -> None:
        """Write a status, messages, and the offset of the next pull. Raises FrontRefusal, LedgerError."""
        group_of(request.group)
        topic, queue = await _queue(request.message_queue, clients)
        _check_offset(request.offset)
        wanted = filter_of(request.filter_expression)
        if wanted.condition:
            raise FrontRefusal(pb.ILLEGAL_FILTER_EXPRESSION, "a pull filters by tags only")
        if request.batch_size < 1:
            raise FrontRefusal(pb.BAD_REQUEST, "the batch size of a pull is at least 1")
        wait_ms = milliseconds(request.long_polling_timeout)
        left_ms = call.left_s * 1000 - ANSWER_MS
        fetched = await self._fetch(
            clients, topic, queue, request.offset, wanted.tag_hashes, max(0, min(wait_ms, MAX_PULL_WAIT_MS, left_ms))
        )
        messages = _messages(fetched, topic, queue, request.offset)[: min(request.batch_size, RECEIVE_BATCH)]
        found = ok() if messages else pb.Status(code=pb.MESSAGE_NOT_FOUND, message="there is no message now")
        await context.write(service_pb2.PullMessageResponse(status=found))
        for message in messages:
            answer = incoming_message(message, request.message_queue.topic, None)
            await context.write(service_pb2.PullMessageResponse(message=answer))
        after = messages[-1].offset + 1 if messages else max(fetched.next_offset, request.offset)
        await context.write(service_pb2.PullMessageResponse(next_offset=after))

    async def _fetch(
        self,
        clients: NativeClients,
        topic: RoutedTopic,
        queue: int,
        offset: int,
        tag_hashes: Sequence[int],
        wait_ms: float,
    ) -> broker_pb2.FetchedQueue:
        wanted = broker_pb2.QueueFetch(topic_id=topic.topic_id, queue=queue, offset=offset, tag_hashes=tag_hashes)
        request = broker_pb2.FetchRequest(
            queues=[wanted], max_wait_ms=round(wait_ms), max_bytes=MAX_PULL_BYTES, accepts_cut_batches=True
        )

        async def send(stub: Any, seconds: float) -> broker_pb2.FetchedQueue:
            response = await stub.Fetch(request, timeout=seconds + wait_ms / 1000)
            return response.queues[0]  # type: ignore[no-any-return]

        try:
            return await clients.cluster.call(topic.shards[queue], send)
        except (OffsetTooLowError, OffsetBeyondEndError) as error:
            raise FrontRefusal(pb.ILLEGAL_OFFSET, str(error)) from error

    async def query_offset(
        self, request: service_pb2.QueryOffsetRequest, clients: NativeClients
    ) -> service_pb2.QueryOffsetResponse:
        """Raises FrontRefusal, LedgerError."""
        topic, queue = await _queue(request.message_queue, clients)
        wanted = broker_pb2.ListOffsetsRequest(topic_id=topic.topic_id, queues=[queue], linearizable=True)
        if request.query_offset_policy == pb.TIMESTAMP:
            wanted_ms = time_ms(request.timestamp)
            if wanted_ms is None:
                raise FrontRefusal(pb.BAD_REQUEST, "the timestamp is no time")
            wanted.time_ms = wanted_ms
        response = await clients.cluster.call(
            topic.shards[queue], lambda stub, seconds: stub.ListOffsets(wanted, timeout=seconds)
        )
        (found,) = response.queues
        offset = {pb.BEGINNING: found.first_offset, pb.END: found.end_offset, pb.TIMESTAMP: found.time_offset}.get(
            request.query_offset_policy
        )
        if offset is None:
            raise FrontRefusal(pb.BAD_REQUEST, "the policy is BEGINNING, END or TIMESTAMP")
        return service_pb2.QueryOffsetResponse(status=ok(), offset=offset)

    async def get_offset(
        self, request: service_pb2.GetOffsetRequest, clients: NativeClients
    ) -> service_pb2.GetOffsetResponse:
        """Raises FrontRefusal, LedgerError."""
        group = group_of(request.group)
        topic, queue = await _queue(request.message_queue, clients)
        shard = topic.shards[queue]
        wanted = consumer_group_operations_pb2.DescribeConsumerGroupRequest(shard=shard, consumer_group=group)
        response = await clients.cluster.call(
            shard, lambda stub, seconds: stub.DescribeConsumerGroup(wanted, timeout=seconds)
        )
        for each in response.queues:
            if (each.topic_id, each.queue) == (topic.topic_id, queue):
                return service_pb2.GetOffsetResponse(status=ok(), offset=each.offset)
        raise FrontRefusal(pb.OFFSET_NOT_FOUND, f"group {request.group.name!r} has no offset in this queue")

    async def update_offset(
        self, request: service_pb2.UpdateOffsetRequest, clients: NativeClients
    ) -> service_pb2.UpdateOffsetResponse:
        """Raises FrontRefusal, LedgerError."""
        group = group_of(request.group)
        topic, queue = await _queue(request.message_queue, clients)
        _check_offset(request.offset)
        await self._groups.require(group, clients.cluster, [topic])
        shard = topic.shards[queue]
        reset = consumer_group_operations_pb2.QueueReset(topic_id=topic.topic_id, queue=queue, offset=request.offset)
        wanted = consumer_group_operations_pb2.ResetOffsetsRequest(
            shard=shard, consumer_group=group, queues=[reset], shared=True
        )
        await clients.cluster.call(shard, lambda stub, seconds: stub.ResetOffsets(wanted, timeout=seconds))
        return service_pb2.UpdateOffsetResponse(status=ok())


async def _queue(named: pb.MessageQueue, clients: NativeClients) -> tuple[RoutedTopic, int]:
    """Return the topic and the number of a queue. Raises FrontRefusal, LedgerError."""
    topic = await routed_topic(clients.cluster, named.topic)
    if not 0 <= named.id < len(topic.shards):
        raise FrontRefusal(pb.BAD_REQUEST, f"topic {topic.name!r} has the queues 0 to {len(topic.shards) - 1}")
    return topic, named.id


def _check_offset(offset: int) -> None:
    if not 0 <= offset <= MAX_OFFSET:
        raise FrontRefusal(pb.ILLEGAL_OFFSET, f"no queue has an offset {offset}")


def _messages(fetched: broker_pb2.FetchedQueue, topic: RoutedTopic, queue: int, offset: int) -> list[Message[bytes]]:
    """Return the messages from `offset` on. Raises LedgerError."""
    if fetched.HasField("error"):
        error: LedgerError = from_wire(fetched.error)
        raise error
    found: list[Message[bytes]] = []
    for each in fetched.batches:
        batch = decoded(each.body, topic.name, queue, each.base_offset)
        found += messages_of(
            batch,
            topic=topic.name,
            queue=queue,
            base_offset=each.base_offset,
            term=each.term,
            append_time_ms=each.append_time_ms,
        )
    return [message for message in found if message.offset >= offset]
