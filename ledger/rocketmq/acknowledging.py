"""Takes the acknowledgements of RocketMQ consumers, and changes the leases of their messages.

A receipt handle has all that is needed, so any node takes it. The leader of the shard decides whether the consumer
still has the message: leases end by the lease time of the shard, and not by the clock of a node. A repeated
acknowledgement counts again, because a client that hears no answer asks again, at this node or another.
"""

from __future__ import annotations

import asyncio

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
        handles = [_parsed(entry.receipt_handle, group, topic) for entry in request.entries]
        newest: dict[object, int] = {}
        for handle in handles:
            if isinstance(handle, ReceiptHandle):
                newest[handle.lease] = max(newest.get(handle.lease, 0), handle.serial)
        works = [
            self._acknowledged(
                handle if not isinstance(handle, ReceiptHandle) or handle.serial == newest[handle.lease] else _OLD,
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
            outcome = await self._leases.change(clients, group, ACKNOWLEDGE, handle.lease)
        except LedgerError as error:
            return refusal_of(error).status
        return ok() if outcome.settled else _ENDED.status

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
        handle = ReceiptHandle.parse(request.receipt_handle, group, topic.topic_id)
        self._leases.drop(group, handle.lease)
        outcome = await self._leases.change(clients, group, EXTEND, handle.lease, max(duration_ms, MIN_LEASE_MS))
        if not outcome.changed:
            raise _ENDED
        return service_pb2.ChangeInvisibleDurationResponse(status=ok(), receipt_handle=str(handle.changed()))

    async def forward_to_dead_letters(
        self, request: service_pb2.ForwardMessageToDeadLetterQueueRequest, clients: NativeClients
    ) -> service_pb2.ForwardMessageToDeadLetterQueueResponse:
        """Raises FrontRefusal, LedgerError."""
        group, topic = group_of(request.group), await routed_topic(clients.cluster, request.topic)
        handle = ReceiptHandle.parse(request.receipt_handle, group, topic.topic_id)
        lease = handle.lease
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
        self._leases.drop(group, lease)
        try:
            await clients.cluster.call(lease.shard, lambda stub, seconds: stub.Move(move, timeout=seconds))
        except (ConsumerFencedError, UnknownQueueError) as error:
            raise _ENDED from error
        return service_pb2.ForwardMessageToDeadLetterQueueResponse(status=ok())


_ENDED = invalid_handle("the lease of the message has ended, or another consumer has the message")
_OLD = invalid_handle("the receipt handle was replaced by a newer one of the same message")


def _parsed(text: str, group: str, topic: RoutedTopic) -> ReceiptHandle | FrontRefusal:
    try:
        return ReceiptHandle.parse(text, group, topic.topic_id)
    except FrontRefusal as refusal:
        return refusal
