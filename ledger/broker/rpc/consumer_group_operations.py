"""The gRPC rim of what operators ask about consumer groups: which there are, how far they have come; to set them back
or forward, and to forget them.

Each answer is about one shard, from its leader, as of that moment; whoever asks puts them together. It must not
decide anything of its own: that is in the state, claims.py and coordinator.py.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.consumed_offsets import check_offset
from ledger.broker.consumer_groups.lag import lag_of
from ledger.broker.rpc.consumer_groups import ConsumerGroupService, ShardConsumption
from ledger.broker.rpc.refusals import RefusingService, answers
from ledger.broker.topics.topic_deletion import TopicDeletion
from ledger.consumer_groups import validate_consumed_name
from ledger.errors import LedgerError
from ledger.retries import DEAD_LETTERS, RETRY, dead_letter_topic, resending_group, retry_topic
from ledger.state import ConsumerGroup, Topic, TopicQueueId
from ledger.state.consumption import check_has_no_members
from ledger.state.progress_table import ConsumedQueue, Progress
from ledger.topics import TOPICS_SHARD
from ledger.v1 import command_pb2, consumer_group_operations_pb2, consumer_group_operations_pb2_grpc

QUEUES_AT_ONCE = 100
"""Looked at before others have their turn."""


class ConsumerGroupOperations(RefusingService, consumer_group_operations_pb2_grpc.ConsumerGroupOperationsServicer):
    """`service` has the shards that this node serves. `now_ms`: since 1970."""

    def __init__(self, service: ConsumerGroupService, deletion: TopicDeletion, now_ms: Callable[[], int]) -> None:
        self._service = service
        self._deletion = deletion
        self._now_ms = now_ms

    @answers(consumer_group_operations_pb2.ListConsumerGroupsResponse)
    async def ListConsumerGroups(  # noqa: N802 (gRPC names)
        self,
        request: consumer_group_operations_pb2.ListConsumerGroupsRequest,
        response: consumer_group_operations_pb2.ListConsumerGroupsResponse,
    ) -> None:
        response.now_ms = self._now_ms()
        response.consumer_groups.extend(await summaries((await self._leading(request.shard)).replica))

    @answers(consumer_group_operations_pb2.DescribeConsumerGroupResponse)
    async def DescribeConsumerGroup(  # noqa: N802
        self,
        request: consumer_group_operations_pb2.DescribeConsumerGroupRequest,
        response: consumer_group_operations_pb2.DescribeConsumerGroupResponse,
    ) -> None:
        response.now_ms = self._now_ms()
        validate_consumed_name(request.consumer_group)
        replica = (await self._leading(request.shard)).replica
        group = replica.state.consumption.groups.get(request.consumer_group)
        if group is not None:
            put_members(group, response)
        for number, (key, progress) in enumerate(replica.state.consumption.progress.of(request.consumer_group), 1):
            lag = lag_of(replica, key, progress)
            response.queues.add(
                topic_id=key.topic_id,
                queue=key.queue,
                first_offset=lag.first_offset,
                end_offset=lag.end_offset,
                offset=progress.offset,
                settled=len(progress.settled),
                epoch=progress.epoch,
                lag_messages=lag.messages,
                waiting_since_ms=lag.waiting_since_ms,
            )
            if number % QUEUES_AT_ONCE == 0:
                await asyncio.sleep(0)

    @answers(consumer_group_operations_pb2.ResetOffsetsResponse)
    async def ResetOffsets(  # noqa: N802
        self,
        request: consumer_group_operations_pb2.ResetOffsetsRequest,
        response: consumer_group_operations_pb2.ResetOffsetsResponse,
    ) -> None:
        wanted = command_pb2.ResetOffsets(
            consumer_group=request.consumer_group,
            offsets=[
                command_pb2.ResetOffset(topic_id=each.topic_id, queue=each.queue, offset=each.offset)
                for each in request.queues
            ],
        )
        validate_consumed_name(request.consumer_group)
        shard_consumption = await self._leading(request.shard)
        for each in wanted.offsets:
            check_offset(shard_consumption.replica, each.topic_id, each.queue, each.offset)
        results = await asyncio.shield(shard_consumption.claims.reset(wanted))
        for result in results:
            if isinstance(result, LedgerError):
                raise result

    @answers(consumer_group_operations_pb2.RenewQueuesResponse)
    async def RenewQueues(  # noqa: N802
        self,
        request: consumer_group_operations_pb2.RenewQueuesRequest,
        response: consumer_group_operations_pb2.RenewQueuesResponse,
    ) -> None:
        coordinator = self._service.coordinator(request.shard, request.consumer_group)
        queues = [TopicQueueId(each.topic_id, each.queue) for each in request.queues]
        await coordinator.renew(request.consumer_group, queues)

    @answers(consumer_group_operations_pb2.ForgetConsumerGroupResponse)
    async def ForgetConsumerGroup(  # noqa: N802
        self,
        request: consumer_group_operations_pb2.ForgetConsumerGroupRequest,
        response: consumer_group_operations_pb2.ForgetConsumerGroupResponse,
    ) -> None:
        validate_consumed_name(request.consumer_group)
        forgetting = self._service.shard_consumption(request.shard).claims.forget(request.consumer_group)
        response.queues = await asyncio.shield(forgetting)

    @answers(consumer_group_operations_pb2.ForgetRetriesResponse)
    async def ForgetRetries(  # noqa: N802
        self,
        request: consumer_group_operations_pb2.ForgetRetriesRequest,
        response: consumer_group_operations_pb2.ForgetRetriesResponse,
    ) -> None:
        name = request.consumer_group
        validate_consumed_name(name)
        state = (await self._leading(TOPICS_SHARD)).replica.state
        for topic in map(state.topics.named, (retry_topic(name), dead_letter_topic(name))):
            check_has_no_members(state.consumption.groups, name)
            if topic is not None:
                await self._deletion.delete(topic.topic_id)

    async def _leading(self, shard: int) -> ShardConsumption:
        """Of the shard, which this node leads at this moment, with all applied that was committed before."""
        shard_consumption = self._service.shard_consumption(shard)
        await shard_consumption.replica.confirm_still_leading()
        return shard_consumption


async def summaries(replica: BrokerReplica) -> list[consumer_group_operations_pb2.ConsumerGroupSummary]:
    """Of every consumer group that this shard knows of, by name."""
    found: defaultdict[str, consumer_group_operations_pb2.ConsumerGroupSummary] = defaultdict(
        consumer_group_operations_pb2.ConsumerGroupSummary
    )
    for group in replica.state.consumption.groups:
        found[group.name].members, found[group.name].strategy = len(group.members), group.strategy
    for number, (key, progress) in enumerate(replica.state.consumption.progress.in_any_order(), 1):
        topic = replica.state.topics.get(key.topic_id)
        if topic is None or topic.name.startswith(DEAD_LETTERS):
            continue
        lag, one = lag_of(replica, key, progress), found[key.consumer_group]
        if topic.name.startswith(RETRY):
            one.retry_messages += lag.messages
        else:
            one.queues += 1
            one.lag_messages += lag.messages
            if lag.messages:
                one.waiting_since_ms = min(one.waiting_since_ms or lag.waiting_since_ms, lag.waiting_since_ms)
        if number % QUEUES_AT_ONCE == 0:
            await asyncio.sleep(0)
    for topic in replica.state.topics:
        if topic.name.startswith(DEAD_LETTERS):
            name = topic.name.removeprefix(DEAD_LETTERS)
            found[name].dead_letters = not_sent_again(replica, topic, resending_group(name))
    for name, one in found.items():
        one.name = name
    return [found[name] for name in sorted(found)]


def not_sent_again(replica: BrokerReplica, topic: Topic, resending: str) -> int:
    """So many dead letters are kept in that topic that were not sent again by that consumer group."""
    count = 0
    for queue in [queue for queue, shard in enumerate(topic.shards) if shard == replica.shard]:
        key = ConsumedQueue(resending, topic.topic_id, queue)
        progress = replica.state.consumption.progress.get(key) or Progress(epoch=0, offset=0)
        count += lag_of(replica, key, progress).messages
    return count


def put_members(group: ConsumerGroup, response: consumer_group_operations_pb2.DescribeConsumerGroupResponse) -> None:
    response.strategy, response.rebalancing = group.strategy, group.assigned != group.generation
    for _, member in sorted(group.members.items()):
        told = member.told
        response.members.add(
            member=told.member,
            client_id=told.client_id,
            room=told.room,
            session_timeout_ms=told.session_timeout_ms,
        )
    for queue, share in sorted(group.shares.items()):
        response.shares.add(
            topic_id=queue.topic_id, queue=queue.queue, owner=share.owner, epoch=share.epoch, target=share.target
        )
