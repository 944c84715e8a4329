"""The ConsumerGroups service: requests of the members of consumer groups.

Each method turns its request into a command or a call of ledger/broker/consumer_groups, and the result into protobuf.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from grpc import StatusCode

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.consumed_offsets import start_offset
from ledger.broker.consumer_groups.moved_batch import MessageMove
from ledger.broker.consumer_groups.shard_consumption import ShardConsumption, ShardConsumptions
from ledger.broker.rpc.refusals import Context, RefusingService, answers
from ledger.broker.rpc.routes_wire import topic_route
from ledger.broker.rpc.share_stream import MAX_SHARE_STREAMS, serve_share
from ledger.broker.rpc.topic_rights import TopicRights
from ledger.broker.shared.group_lookup import GroupLookup
from ledger.broker.shared.lease_turns import LeaseTurns
from ledger.broker.topics.retry_topics import RetryTopics
from ledger.consumer_groups import check_queue_count, parts_of_entries, validate_consumed_name
from ledger.errors import LedgerError, to_wire
from ledger.state import QueueResults, TopicQueueId
from ledger.state.commands import (
    AcknowledgedOffset,
    ClaimedQueue,
    ClaimQueues,
    JoinConsumerGroup,
    QueueEpoch,
    ReleaseQueues,
)
from ledger.state.consumer_group_table import MemberDetails
from ledger.v1 import consumer_group_pb2, consumer_group_pb2_grpc

# The longest time that `AwaitAssignment` waits.
MAX_WAIT_MS = 60_000


# Is called with the id of a topic, the number of messages, and their size in bytes.
OnGiven = Callable[[int, int, int], None]


class ConsumerGroupService(RefusingService, consumer_group_pb2_grpc.ConsumerGroupsServicer):
    """The gRPC service for the members of consumer groups. Requests for a shard that has not started on this node
    are refused."""

    def __init__(
        self,
        consumptions: ShardConsumptions,
        retry_topics: RetryTopics,
        rights: TopicRights | None = None,
        on_given: OnGiven = lambda topic_id, messages, size: None,
    ) -> None:
        """`rights` decides what callers may do; None means that every caller may do everything. `on_given` counts
        messages that members of shared groups get."""
        self.given = on_given
        self._rights = rights
        self._streams = 0
        self._consumptions = consumptions
        self._retry_topics = retry_topics
        # Refusals that consumers received, by code.
        self.refusals: Counter[str] = Counter()

    @property
    def shard_consumptions(self) -> dict[int, ShardConsumption]:
        """The shards that have started on this node, by shard number."""
        return self._consumptions.started()

    def refused(self, error: LedgerError) -> None:
        self.refusals[error.code] += 1

    # -- requests to the coordinator

    @answers(consumer_group_pb2.JoinResponse)
    async def Join(  # noqa: N802 (gRPC names)
        self, request: consumer_group_pb2.JoinRequest, response: consumer_group_pb2.JoinResponse
    ) -> None:
        member = MemberDetails(
            request.member,
            request.client_id,
            request.room,
            request.session_timeout_ms,
            tuple((each.topic_id, each.queues) for each in request.subscriptions),
            tuple(TopicQueueId(each.topic_id, each.queue) for each in request.configured),
        )
        rooms = tuple((each.shard, each.room) for each in request.rooms)
        wanted = JoinConsumerGroup(request.consumer_group, request.strategy, member, rooms)
        await self._consumptions.coordinator(request.shard, request.consumer_group).join(wanted)

    @answers(consumer_group_pb2.AwaitAssignmentResponse)
    async def AwaitAssignment(  # noqa: N802
        self, request: consumer_group_pb2.AwaitAssignmentRequest, response: consumer_group_pb2.AwaitAssignmentResponse
    ) -> None:
        wait_s = min(request.max_wait_ms, MAX_WAIT_MS) / 1000
        coordinator = self._consumptions.coordinator(request.shard, request.consumer_group)
        group = await coordinator.attend(request.consumer_group, request.member, request.version, wait_s)
        response.version = group.members[request.member].version
        for each in group.view(request.member):
            response.queues.add(
                topic_id=each.queue.topic_id, queue=each.queue.queue, epoch=each.epoch, leaving=each.is_leaving
            )

    @answers(consumer_group_pb2.ReleaseResponse)
    async def Release(  # noqa: N802
        self, request: consumer_group_pb2.ReleaseRequest, response: consumer_group_pb2.ReleaseResponse
    ) -> None:
        check_queue_count(request.queues)
        queues = tuple(QueueEpoch(TopicQueueId(each.topic_id, each.queue), each.epoch) for each in request.queues)
        coordinator = self._consumptions.coordinator(request.shard, request.consumer_group)
        for part in parts_of_entries(queues):
            await coordinator.release(ReleaseQueues(request.consumer_group, request.member, tuple(part)))

    @answers(consumer_group_pb2.LeaveResponse)
    async def Leave(  # noqa: N802
        self, request: consumer_group_pb2.LeaveRequest, response: consumer_group_pb2.LeaveResponse
    ) -> None:
        coordinator = self._consumptions.coordinator(request.shard, request.consumer_group)
        await coordinator.leave(request.consumer_group, [request.member])

    # -- requests to the shard of the queues

    @answers(consumer_group_pb2.ClaimResponse)
    async def Claim(  # noqa: N802
        self, request: consumer_group_pb2.ClaimRequest, response: consumer_group_pb2.ClaimResponse
    ) -> None:
        validate_consumed_name(request.consumer_group)
        check_queue_count(request.queues)
        shard_consumption = self._consumptions.require(request.shard)
        queues = tuple(claimed(shard_consumption.replica, each) for each in request.queues)
        for part in parts_of_entries(queues):
            claiming = shard_consumption.claims.claim(ClaimQueues(request.consumer_group, tuple(part)))
            response.queues.extend(self._progress_of(await asyncio.shield(claiming)))

    @answers(consumer_group_pb2.AcknowledgeResponse)
    async def Acknowledge(  # noqa: N802
        self, request: consumer_group_pb2.AcknowledgeRequest, response: consumer_group_pb2.AcknowledgeResponse
    ) -> None:
        check_queue_count(request.queues)
        offsets = [
            AcknowledgedOffset(each.topic_id, each.queue, each.epoch, each.resets, each.offset)
            for each in request.queues
        ]
        acknowledgements = self._consumptions.require(request.shard).acknowledgements
        for part in parts_of_entries(offsets):
            results = await acknowledgements.add(request.consumer_group, part)
            response.queues.extend(self._progress_of(results))

    @answers(consumer_group_pb2.MoveResponse)
    async def Move(  # noqa: N802
        self, request: consumer_group_pb2.MoveRequest, response: consumer_group_pb2.MoveResponse
    ) -> None:
        wanted = MessageMove(
            consumer_group=request.consumer_group,
            topic_id=request.topic_id,
            queue=request.queue,
            epoch=request.epoch,
            resets=request.resets,
            offset=request.offset,
            attempt=request.attempt,
            give_up=request.give_up,
        )
        consumption = self._consumptions.require(request.shard)
        if request.lease:
            moving = consumption.turns.give_up(wanted, request.lease)
        else:
            moving = consumption.claims.move(wanted)
        if moving is not None:
            await asyncio.shield(moving)

    # -- the stream of a member of a shared group

    async def Share(self, request_iterator: Any, context: Context) -> None:  # noqa: N802
        if self._streams >= MAX_SHARE_STREAMS:
            reason = f"this node has {self._streams} streams of shared groups, which is the limit: try again shortly"
            await context.abort(StatusCode.RESOURCE_EXHAUSTED, reason)
        self._streams += 1
        try:
            await serve_share(self, context, self.refused)
        finally:
            self._streams -= 1

    @property
    def lookup(self) -> GroupLookup:
        """Finds the modes of groups. For `serve_share`, as the next two methods."""
        return self._consumptions.lookup

    def turns(self, shard: int) -> LeaseTurns:
        return self._consumptions.require(shard).turns

    def check_rights(self, consumer_group: str, topics: Iterable[int]) -> None:
        if self._rights is not None:
            self._rights.check_member(consumer_group, topics)

    # -- requests to shard 0

    @answers(consumer_group_pb2.FindCoordinatorResponse)
    async def FindCoordinator(  # noqa: N802
        self, request: consumer_group_pb2.FindCoordinatorRequest, response: consumer_group_pb2.FindCoordinatorResponse
    ) -> None:
        response.shard = await self._consumptions.places.find(request.consumer_group)

    @answers(consumer_group_pb2.PrepareRetriesResponse)
    async def PrepareRetries(  # noqa: N802
        self, request: consumer_group_pb2.PrepareRetriesRequest, response: consumer_group_pb2.PrepareRetriesResponse
    ) -> None:
        retry, dead_letters = await self._retry_topics.prepare(request.consumer_group)
        response.retry.CopyFrom(topic_route(retry))
        response.dead_letters.CopyFrom(topic_route(dead_letters))

    def _progress_of(self, results: QueueResults) -> list[consumer_group_pb2.QueueProgress]:
        progress = []
        for each in results:
            if isinstance(each, LedgerError):
                self.refusals[each.code] += 1
                progress.append(consumer_group_pb2.QueueProgress(error=to_wire(each)))
            else:
                progress.append(
                    consumer_group_pb2.QueueProgress(
                        offset=each.offset, settled=each.settled, epoch=each.epoch, resets=each.resets
                    )
                )
        return progress


def claimed(replica: BrokerReplica, wanted: consumer_group_pb2.QueueClaim) -> ClaimedQueue:
    """Convert the claim of one queue from protobuf. If the claim starts at the first or the last offset, the result
    has the offset that this replica knows. Raises UnknownTopicError, UnknownQueueError, InvalidArgumentError."""
    start = start_offset(replica, wanted.topic_id, wanted.queue, wanted.start_offset)
    return ClaimedQueue(wanted.topic_id, wanted.queue, wanted.epoch, start)
