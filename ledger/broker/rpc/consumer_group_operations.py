"""The ConsumerGroupOperations service: operators list, describe, reset and forget consumer groups.

Each response covers one shard and comes from the leader of the shard. The client combines the responses of all shards.
"""

from __future__ import annotations

import asyncio

from ledger.broker.consumer_groups.consumed_offsets import check_offset
from ledger.broker.consumer_groups.shard_consumption import ShardConsumptions
from ledger.broker.consumer_groups.summaries import WINDOWS_AT_ONCE, lags, summaries
from ledger.broker.rpc.refusals import RefusingService, answers
from ledger.broker.rpc.topic_rights import TopicRights
from ledger.broker.shared.first_leases import begin_leases
from ledger.broker.shared.shared_lag import SharedLag, shared_lags
from ledger.broker.topics.retry_topics import RetryTopics
from ledger.broker.turn_budget import TurnBudget
from ledger.consumer_groups import MAX_QUEUES_OF_ENTRY, check_queue_count, parts_of_entries, validate_consumed_name
from ledger.errors import LedgerError
from ledger.state import ConsumerGroup, TopicQueueId
from ledger.state.commands import CreateConsumerGroup, ResetOffset, ResetOffsets
from ledger.state.group_modes import DEFAULT_ATTEMPTS, GroupMode
from ledger.topics import TOPICS_SHARD
from ledger.v1 import consumer_group_operations_pb2, consumer_group_operations_pb2_grpc

# Steps of all look-ups in one turn of the event loop. A step takes about 0.5 ms.
MAX_TURN_STEPS = 8
# Members and queues of a group that are described in one step.
MEMBERS_AT_ONCE = 256


class ConsumerGroupOperations(RefusingService, consumer_group_operations_pb2_grpc.ConsumerGroupOperationsServicer):
    """The gRPC service for operators of consumer groups. The age of a message is measured by the clock that dates the
    entries of its shard, so a wrong clock of this node does not change it by more than 5 s."""

    def __init__(
        self,
        consumptions: ShardConsumptions,
        retry_topics: RetryTopics,
        rights: TopicRights | None = None,
    ) -> None:
        """`rights` decides which groups a caller sees; None means all."""
        self._consumptions = consumptions
        self._rights = rights
        self._retry_topics = retry_topics
        # The look-ups of all callers together.
        self._turns = TurnBudget(MAX_TURN_STEPS)

    @answers(consumer_group_operations_pb2.ListConsumerGroupsResponse)
    async def ListConsumerGroups(  # noqa: N802 (gRPC names)
        self,
        request: consumer_group_operations_pb2.ListConsumerGroupsRequest,
        response: consumer_group_operations_pb2.ListConsumerGroupsResponse,
    ) -> None:
        replica = (await self._consumptions.leading(request.shard)).replica
        response.now_ms = replica.driver.now_ms()
        turns = self._consumptions.require(request.shard).turns
        found = await summaries(replica, self._turns)
        visible = self._rights.visible_groups(found) if self._rights is not None else set(found)
        for name, summary in found.items():
            if name not in visible:
                continue
            response.consumer_groups.add(
                name=name,
                members=summary.members + turns.members(name),
                strategy=summary.strategy,
                queues=summary.queues,
                lag_messages=summary.lag_messages,
                waiting_since_ms=summary.waiting_since_ms,
                retry_messages=summary.retry_messages,
                dead_letters=summary.dead_letters,
                shared=summary.is_shared,
            )

    @answers(consumer_group_operations_pb2.CreateConsumerGroupResponse)
    async def CreateConsumerGroup(  # noqa: N802
        self,
        request: consumer_group_operations_pb2.CreateConsumerGroupRequest,
        response: consumer_group_operations_pb2.CreateConsumerGroupResponse,
    ) -> None:
        mode = GroupMode(
            request.consumer_group,
            request.mode.shared,
            request.mode.by_key,
            request.mode.max_attempts or DEFAULT_ATTEMPTS,
        )
        coordinator = self._consumptions.coordinator(request.shard, request.consumer_group)
        await coordinator.create(CreateConsumerGroup(mode))

    @answers(consumer_group_operations_pb2.DescribeConsumerGroupResponse)
    async def DescribeConsumerGroup(  # noqa: N802
        self,
        request: consumer_group_operations_pb2.DescribeConsumerGroupRequest,
        response: consumer_group_operations_pb2.DescribeConsumerGroupResponse,
    ) -> None:
        validate_consumed_name(request.consumer_group)
        replica = (await self._consumptions.leading(request.shard)).replica
        response.now_ms = replica.driver.now_ms()
        await self._turns.spend(1)
        group = replica.state.consumption.groups.get(request.consumer_group)
        if group is not None:
            self._turns.charge((len(group.members) + len(group.shares)) // MEMBERS_AT_ONCE)
            put_members(group, response)
        if (mode := replica.state.shared.modes.get(request.consumer_group)) is not None:
            response.mode.shared, response.mode.by_key = mode.is_shared, mode.by_key
            response.mode.max_attempts = mode.max_attempts
        if replica.shard == TOPICS_SHARD:
            place = replica.state.coordinators.get(request.consumer_group)
            response.coordinator = TOPICS_SHARD if place is None else place.shard
        turns = self._consumptions.require(request.shard).turns
        response.shared_members = turns.members(request.consumer_group)
        for number, leased in enumerate(shared_lags(replica, request.consumer_group)):
            if number % WINDOWS_AT_ONCE == 0:
                await self._turns.spend(1)
            put_leases(leased, response)
        for each in await lags(replica, request.consumer_group, self._turns):
            response.queues.add(
                topic_id=each.topic_id,
                queue=each.queue,
                first_offset=each.lag.first_offset,
                end_offset=each.lag.end_offset,
                offset=each.offset,
                settled=each.settled,
                epoch=each.epoch,
                lag_messages=each.lag.messages,
                waiting_since_ms=each.lag.waiting_since_ms,
            )

    @answers(consumer_group_operations_pb2.ResetOffsetsResponse)
    async def ResetOffsets(  # noqa: N802
        self,
        request: consumer_group_operations_pb2.ResetOffsetsRequest,
        response: consumer_group_operations_pb2.ResetOffsetsResponse,
    ) -> None:
        validate_consumed_name(request.consumer_group)
        check_queue_count(request.queues)
        offsets = tuple(ResetOffset(each.topic_id, each.queue, each.offset) for each in request.queues)
        shard_consumption = await self._consumptions.leading(request.shard)
        for each in offsets:
            check_offset(shard_consumption.replica, each.topic_id, each.queue, each.offset)
        lookup, name = self._consumptions.lookup, request.consumer_group
        mode = await lookup.require(name) if request.shared else lookup.mode(name)
        if mode is not None:
            await begin_leases(shard_consumption.replica, mode, offsets[:MAX_QUEUES_OF_ENTRY])
        # All parts are proposed at once, so a caller that goes away ends none of them.
        resets = [shard_consumption.claims.reset(ResetOffsets(name, tuple(part))) for part in parts_of_entries(offsets)]
        for reset in resets:
            for result in await asyncio.shield(reset):
                if isinstance(result, LedgerError):
                    raise result

    @answers(consumer_group_operations_pb2.RenewQueuesResponse)
    async def RenewQueues(  # noqa: N802
        self,
        request: consumer_group_operations_pb2.RenewQueuesRequest,
        response: consumer_group_operations_pb2.RenewQueuesResponse,
    ) -> None:
        coordinator = self._consumptions.coordinator(request.shard, request.consumer_group)
        check_queue_count(request.queues)
        queues = [TopicQueueId(each.topic_id, each.queue) for each in request.queues]
        for part in parts_of_entries(queues):
            await coordinator.renew(request.consumer_group, part)

    @answers(consumer_group_operations_pb2.MoveCoordinatorResponse)
    async def MoveCoordinator(  # noqa: N802
        self,
        request: consumer_group_operations_pb2.MoveCoordinatorRequest,
        response: consumer_group_operations_pb2.MoveCoordinatorResponse,
    ) -> None:
        await self._consumptions.move_coordinator(request.consumer_group, request.shard)

    @answers(consumer_group_operations_pb2.ForgetConsumerGroupResponse)
    async def ForgetConsumerGroup(  # noqa: N802
        self,
        request: consumer_group_operations_pb2.ForgetConsumerGroupRequest,
        response: consumer_group_operations_pb2.ForgetConsumerGroupResponse,
    ) -> None:
        validate_consumed_name(request.consumer_group)
        consumption = self._consumptions.require(request.shard)
        consumption.turns.check_has_no_members(request.consumer_group)
        forgetting = consumption.claims.forget(request.consumer_group)
        consumption.turns.await_deletion(request.consumer_group, forgetting)
        response.queues = await asyncio.shield(forgetting)

    @answers(consumer_group_operations_pb2.ForgetRetriesResponse)
    async def ForgetRetries(  # noqa: N802
        self,
        request: consumer_group_operations_pb2.ForgetRetriesRequest,
        response: consumer_group_operations_pb2.ForgetRetriesResponse,
    ) -> None:
        await self._retry_topics.forget(request.consumer_group, is_empty=request.is_empty)


def put_leases(lag: SharedLag, response: consumer_group_operations_pb2.DescribeConsumerGroupResponse) -> None:
    """Put the leases of a shared group in one queue into the response."""
    added = response.queues.add(
        topic_id=lag.queue.topic_id,
        queue=lag.queue.queue,
        first_offset=lag.lag.first_offset,
        end_offset=lag.lag.end_offset,
        offset=lag.offset,
        settled=lag.window - lag.leased - lag.waiting,
        lag_messages=lag.lag.messages,
        waiting_since_ms=lag.lag.waiting_since_ms,
    )
    leases = added.leases
    leases.leased, leases.waiting, leases.window = lag.leased, lag.waiting, lag.window
    leases.lease_left_ms, leases.most_attempts = lag.lease_left_ms, lag.most_attempts


def put_members(group: ConsumerGroup, response: consumer_group_operations_pb2.DescribeConsumerGroupResponse) -> None:
    """Put the members and assignments of a consumer group into the response."""
    response.strategy, response.rebalancing = group.strategy, group.assigned != group.generation
    for _, member in sorted(group.members.items()):
        details = member.details
        response.members.add(
            member=details.member,
            client_id=details.client_id,
            room=details.room,
            session_timeout_ms=details.session_timeout_ms,
        )
    for queue, share in sorted(group.shares.items()):
        response.shares.add(
            topic_id=queue.topic_id, queue=queue.queue, owner=share.owner, epoch=share.epoch, target=share.target
        )
