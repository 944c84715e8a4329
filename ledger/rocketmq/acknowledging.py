"""Takes the acknowledgements of RocketMQ consumers, and changes the leases of their messages.

A receipt handle has all that is needed, so any node takes it. The leader of the shard decides whether the consumer
still has the message: leases end by the lease time of the shard, and not by the clock of a node. A repeated
acknowledgement counts again, because a client that hears no answer asks again, at this node or another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ledger.client.connection.route_table import RoutedTopic
from ledger.client.shared.shared_message import ACKNOWLEDGE, EXTEND
from ledger.errors import ConsumerFencedError, LedgerError, UnknownQueueError
from ledger.rocketmq.durations import milliseconds
from ledger.rocketmq.handles import ReceiptHandle, invalid_handle
from ledger.rocketmq.leases import FrontLeases
from ledger.rocketmq.names import group_of
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.refusals import FrontRefusal, ok, refusal_of
from ledger.rocketmq.routing import routed_topic
from ledger.rocketmq.sending import common_status
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledger.shared import MIN_LEASE_MS
from ledger.v1 import consumer_group_pb2

MAX_INVISIBLE_MS = 12 * 3_600_000
MAX_ENTRIES = 1_024


class FrontAcknowledging:
    """Serves the consumers of this node."""

    def __init__(self, leases: FrontLeases) -> None:
        self._leases = leases

    async def acknowledge(
        self, request: service_pb2.AckMessageRequest, clients: NativeClients
    ) -> service_pb2.AckMessageResponse:
        """Raises FrontRefusal, LedgerError."""
        group, topic = group_of(request.group), await routed_topic(clients.cluster, request.topic)
        if not 1 <= len(request.entries) <= MAX_ENTRIES:
            raise FrontRefusal(pb.BAD_REQUEST, f"a request has 1 to {MAX_ENTRIES} entries")
        handles = await _handles([entry.receipt_handle for entry in request.entries], group, topic, clients)
        newest: dict[object, int] = {}
        for handle in handles:
            if isinstance(handle, ReceiptHandle):
                newest[handle.lease] = max(newest.get(handle.lease, 0), handle.serial)
        works = [
            self._acknowledged(
                handle if not isinstance(handle, ReceiptHandle) or handle.serial == newest[handle.lease] else _old(),
                group,
                clients,
            )
            for handle in handles
        ]
        results = [await works[0]] if len(works) == 1 else await asyncio.gather(*works)
        response = service_pb2.AckMessageResponse(status=common_status(results))
        for entry, status in zip(request.entries, results, strict=True):
            response.entries.add(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status)
        return response

    async def _acknowledged(
        self, handle: ReceiptHandle | FrontRefusal, group: str, clients: NativeClients
    ) -> pb.Status:
        if isinstance(handle, FrontRefusal):
            return handle.status
        try:
            outcome = await self._leases.change(clients, group, ACKNOWLEDGE, handle.lease, in_time=handle.in_time)
        except LedgerError as error:
            return refusal_of(error).status
        return ok() if outcome.settled else _ended().status

    async def change_invisible_duration(
        self, request: service_pb2.ChangeInvisibleDurationRequest, clients: NativeClients
    ) -> service_pb2.ChangeInvisibleDurationResponse:
        """Raises FrontRefusal, LedgerError."""
        group, topic = group_of(request.group), await routed_topic(clients.cluster, request.topic)
        duration_ms = milliseconds(request.invisible_duration)
        if not 0 <= duration_ms <= MAX_INVISIBLE_MS:
            raise FrontRefusal(
                pb.ILLEGAL_INVISIBLE_TIME, f"the invisible duration is 0 to {MAX_INVISIBLE_MS // 3_600_000} h"
            )
        handle = await _handle(request.receipt_handle, group, topic, clients)
        self._leases.drop(clients, group, handle.lease)
        lease_ms = max(duration_ms, MIN_LEASE_MS)
        outcome = await self._leases.change(clients, group, EXTEND, handle.lease, lease_ms, in_time=handle.in_time)
        if not outcome.changed:
            raise _ended()
        return service_pb2.ChangeInvisibleDurationResponse(status=ok(), receipt_handle=str(handle.changed()))

    async def forward_to_dead_letters(
        self, request: service_pb2.ForwardMessageToDeadLetterQueueRequest, clients: NativeClients
    ) -> service_pb2.ForwardMessageToDeadLetterQueueResponse:
        """Raises FrontRefusal, LedgerError."""
        group, topic = group_of(request.group), await routed_topic(clients.cluster, request.topic)
        lease = (await _handle(request.receipt_handle, group, topic, clients)).lease
        move = consumer_group_pb2.MoveRequest(
            shard=lease.shard,
            consumer_group=group,
            topic_id=lease.topic_id,
            queue=lease.queue,
            offset=lease.offset,
            attempt=1,
            give_up=True,
            resets=lease.resets,
            lease=lease.entry,
        )
        self._leases.drop(clients, group, lease)
        try:
            await clients.cluster.call(lease.shard, lambda stub, seconds: stub.Move(move, timeout=seconds))
        except (ConsumerFencedError, UnknownQueueError) as error:
            raise _ended() from error
        return service_pb2.ForwardMessageToDeadLetterQueueResponse(status=ok())


def _ended() -> FrontRefusal:
    return invalid_handle("the lease of the message has ended, or another consumer has the message")


def _old() -> FrontRefusal:
    return invalid_handle("the receipt handle was replaced by a newer one of the same message")


async def _handle(text: str, group: str, topic: RoutedTopic, clients: NativeClients) -> ReceiptHandle:
    """Return the handle that the text contains. Raises FrontRefusal, LedgerError."""
    (handle,) = await _handles([text], group, topic, clients)
    if isinstance(handle, FrontRefusal):
        raise handle
    return handle


async def _handles(
    texts: Sequence[str], group: str, topic: RoutedTopic, clients: NativeClients
) -> list[ReceiptHandle | FrontRefusal]:
    """Return the handle that each text contains, or why it is refused. A handle must name a queue of the topic and the
    shard of this queue. Raises LedgerError."""
    parsed = [_parsed(text, group, topic.topic_id) for text in texts]
    queues = [each.lease.queue for each in parsed if isinstance(each, ReceiptHandle)]
    if max(queues, default=0) >= len(topic.shards):  # the topic may have got more queues
        topic = await clients.cluster.topic(topic.name, newest=True)
    return [
        invalid_handle("the receipt handle names no queue of the topic")
        if isinstance(each, ReceiptHandle)
        and topic.shards[each.lease.queue : each.lease.queue + 1] != (each.lease.shard,)
        else each
        for each in parsed
    ]


def _parsed(text: str, group: str, topic_id: int) -> ReceiptHandle | FrontRefusal:
    try:
        return ReceiptHandle.parse(text, group, topic_id)
    except FrontRefusal as refusal:
        return refusal
