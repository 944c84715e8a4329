"""The admin client's operations on consumer groups.

The members of a consumer group are stored in the shard of the group's coordinator. The group's progress in a queue is
stored in the shard of that queue, so this module asks all shards about consumer groups and combines their answers. The
module sends a change to each shard that the change concerns.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from ledger.client.admin.consumer_group_records import (
    ConsumerGroupDescription,
    ConsumerGroupMember,
    ConsumerGroupSummary,
    OffsetReset,
    QueueConsumption,
)
from ledger.client.admin.offsets import in_ms, list_offsets, offsets_for_times
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.records import TopicQueue
from ledger.consumer_groups import is_broadcast, validate_consumed_name, validate_group_name
from ledger.errors import (
    GroupNotEmptyError,
    InvalidArgumentError,
    OffsetBeyondEndError,
    OffsetTooLowError,
    UnknownGroupError,
    UnknownQueueError,
)
from ledger.topics import TOPICS_SHARD, is_system_topic
from ledger.v1 import broker_pb2
from ledger.v1 import consumer_group_operations_pb2 as pb2
from ledger.v1.consumer_group_pb2 import QueueEpoch

ResetTarget = Literal["earliest", "latest"] | int | datetime
QUEUES_AT_ONCE = 1_000


class ConsumerGroupsAdmin:
    """Reads and changes consumer groups, over the connections of one admin client."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def list_all(self) -> list[ConsumerGroupSummary]:
        found: dict[str, ConsumerGroupSummary] = {}
        for response in await asyncio.gather(*map(self._listed, self._shards())):
            for each in response.consumer_groups:
                found[each.name] = _together(found.get(each.name), each, response.now_ms)
        return [found[name] for name in sorted(found)]

    async def create(self, name: str, mode: str, order: str | None, max_attempts: int) -> None:
        """Raises GroupConflictError, InvalidArgumentError."""
        validate_group_name(name)
        if mode not in ("queue", "shared"):
            raise InvalidArgumentError(f'mode is "{mode}": it must be "queue" or "shared".')
        if order not in (None, "key"):
            raise InvalidArgumentError(f'order is "{order}": it must be "key" or None.')
        wanted = pb2.GroupMode(shared=mode == "shared", by_key=order == "key", max_attempts=max_attempts)
        request = pb2.CreateConsumerGroupRequest(shard=TOPICS_SHARD, consumer_group=name, mode=wanted)
        await self._client.call(request.shard, lambda stub, s: stub.CreateConsumerGroup(request, timeout=s))

    async def describe(self, name: str) -> ConsumerGroupDescription:
        """Raises UnknownGroupError."""
        validate_consumed_name(name)
        answers = await asyncio.gather(*(self._described(shard, name) for shard in self._shards()))
        if not any(answer.members or answer.queues or answer.HasField("mode") for answer in answers):
            raise UnknownGroupError(
                f'There is no consumer group "{name}": no member has joined it, and it has consumed no queue. Check '
                "the name."
            )
        return _description(name, answers, await self._topic_names())

    async def reset(
        self, name: str, to: ResetTarget, *, topic: str | None, queues: Iterable[int] | None, dry_run: bool
    ) -> list[OffsetReset]:
        described = await self.describe(name)
        chosen = await self._chosen(described, topic, queues)
        if isinstance(to, int) and topic is None:
            raise InvalidArgumentError("A reset to an offset applies to one topic only: name the topic.")
        after = await self._targets(chosen, to)
        before = {TopicQueue(one.topic, one.queue): one.offset for one in described.queues}
        if not dry_run:
            await self.set_offsets(name, after, shared=described.mode == "shared")
            if described.members:
                await self._renew(name, list(after), described.coordinator)
        return [OffsetReset(place.topic, place.queue, before.get(place), after[place]) for place in sorted(after)]

    async def delete(self, name: str) -> int:
        """Raises UnknownGroupError or GroupNotEmptyError."""
        described = await self.describe(name)
        first = described.coordinator
        if first != TOPICS_SHARD and described.members:
            raise GroupNotEmptyError(
                f'Consumer group "{name}" has members ({len(described.members)}): stop its consumers first.'
            )
        request = pb2.ForgetRetriesRequest(consumer_group=name, is_empty=first != TOPICS_SHARD)
        await self._client.call(TOPICS_SHARD, lambda stub, s: stub.ForgetRetries(request, timeout=s))
        others = [shard for shard in self._shards() if shard != first]
        # The coordinator comes first: it rejects the request if the consumer group has members.
        return sum([await self._forgotten(shard, name) for shard in (first, *others)])

    async def move_coordinator(self, name: str, shard: int) -> None:
        """Raises UnknownGroupError, GroupConflictError, InvalidArgumentError."""
        await self.describe(name)
        request = pb2.MoveCoordinatorRequest(consumer_group=name, shard=shard)
        await self._client.call_feature(
            "coordinators in other shards", TOPICS_SHARD, lambda stub, s: stub.MoveCoordinator(request, timeout=s)
        )

    # -- requests to one shard

    async def _listed(self, shard: int) -> pb2.ListConsumerGroupsResponse:
        request = pb2.ListConsumerGroupsRequest(shard=shard)
        return await self._client.call(shard, lambda stub, s: stub.ListConsumerGroups(request, timeout=s))

    async def _described(self, shard: int, name: str) -> pb2.DescribeConsumerGroupResponse:
        request = pb2.DescribeConsumerGroupRequest(shard=shard, consumer_group=name)
        return await self._client.call(shard, lambda stub, s: stub.DescribeConsumerGroup(request, timeout=s))

    async def _forgotten(self, shard: int, name: str) -> int:
        request = pb2.ForgetConsumerGroupRequest(shard=shard, consumer_group=name)
        response = await self._client.call(shard, lambda stub, s: stub.ForgetConsumerGroup(request, timeout=s))
        queues: int = response.queues
        return queues

    async def _reset_some(self, shard: int, name: str, queues: Iterable[pb2.QueueReset], *, shared: bool) -> None:
        request = pb2.ResetOffsetsRequest(shard=shard, consumer_group=name, queues=queues, shared=shared)
        await self._client.call(shard, lambda stub, s: stub.ResetOffsets(request, timeout=s))

    # -- the new offsets of a reset

    async def _chosen(
        self, described: ConsumerGroupDescription, topic: str | None, queues: Iterable[int] | None
    ) -> dict[str, Sequence[int]]:
        """Return the numbers of the queues to reset, by topic. Raises UnknownTopicError, UnknownQueueError or
        InvalidArgumentError."""
        if topic is None:
            if queues is not None:
                raise InvalidArgumentError("Queue numbers apply to one topic only: name the topic.")
            names = sorted({one.topic for one in described.queues if not is_system_topic(one.topic)})
            return {name: range(len((await self._client.topic(name)).shards)) for name in names}
        count = len((await self._client.topic(topic)).shards)
        chosen = range(count) if queues is None else sorted(set(queues))
        if wrong := [queue for queue in chosen if not 0 <= queue < count]:
            raise UnknownQueueError(f'Topic "{topic}" has no queue {wrong[0]}: its queues are 0 to {count - 1}.')
        return {topic: chosen}

    async def _targets(self, chosen: Mapping[str, Sequence[int]], to: ResetTarget) -> dict[TopicQueue, int]:
        """Return the offset to which each queue is reset. Raises OffsetTooLowError, OffsetBeyondEndError or
        InvalidArgumentError."""
        if isinstance(to, datetime):
            time_ms = in_ms(to)
            return await offsets_for_times(
                self._client,
                {TopicQueue(name, queue): time_ms for name, queues in chosen.items() for queue in queues},
            )
        if not isinstance(to, int) and to not in ("earliest", "latest"):
            raise InvalidArgumentError(f'{to!r} is not allowed: use "earliest", "latest", an offset or a datetime.')
        targets = {}
        for name, queues in chosen.items():
            for queue, there in (await list_offsets(self._client, await self._client.topic(name), queues)).items():
                if isinstance(to, int):
                    _check(to, name, queue, there.first_offset, there.end_offset)
                    targets[TopicQueue(name, queue)] = to
                else:
                    targets[TopicQueue(name, queue)] = there.first_offset if to == "earliest" else there.end_offset
        return targets

    # -- changes

    async def set_offsets(self, name: str, after: Mapping[TopicQueue, int], *, shared: bool = False) -> None:
        """Set the offsets of a group in these queues. `shared` says that the group was created as a shared group.
        Raises LedgerError; then the offsets of some shards may be set."""
        by_shard: defaultdict[int, list[pb2.QueueReset]] = defaultdict(list)
        for place, offset in sorted(after.items()):
            topic = await self._client.topic(place.topic)
            by_shard[topic.shards[place.queue]].append(
                pb2.QueueReset(topic_id=topic.topic_id, queue=place.queue, offset=offset)
            )
        for shard, queues in sorted(by_shard.items()):
            for at in range(0, len(queues), QUEUES_AT_ONCE):
                await self._reset_some(shard, name, queues[at : at + QUEUES_AT_ONCE], shared=shared)

    async def _renew(self, name: str, places: Sequence[TopicQueue], coordinator: int) -> None:
        """Ask the coordinator to make the owners of these queues claim the queues again. Without this request, an
        owner that has nothing to acknowledge would not notice the reset."""
        request = pb2.RenewQueuesRequest(shard=coordinator, consumer_group=name)
        for place in places:
            topic_id = (await self._client.topic(place.topic)).topic_id
            request.queues.append(QueueEpoch(topic_id=topic_id, queue=place.queue))
        await self._client.call(request.shard, lambda stub, s: stub.RenewQueues(request, timeout=s))

    # -- shards and topics

    def _shards(self) -> Sequence[int]:
        return sorted(self._client.routes.table.leaders)

    async def _topic_names(self) -> dict[int, str]:
        request = broker_pb2.GetRouteRequest(linearizable=True)
        response = await self._client.call(TOPICS_SHARD, lambda stub, s: stub.GetRoute(request, timeout=s))
        self._client.routes.learn(response)
        return {topic.topic_id: topic.name for topic in response.topics}


def _together(known: ConsumerGroupSummary | None, one: pb2.ConsumerGroupSummary, now_ms: int) -> ConsumerGroupSummary:
    """Add the figures that one more shard reported to the summary `known`, and return the new summary."""
    known = known or ConsumerGroupSummary(one.name, 0, "", 0, 0, 0.0, 0, 0)
    return ConsumerGroupSummary(
        one.name,
        max(known.members, one.members) if one.shared else known.members + one.members,
        known.strategy or one.strategy or ("broadcast" if is_broadcast(one.name) else ""),
        known.queues + one.queues,
        known.lag + one.lag_messages,
        max(known.lag_s, _seconds(one.waiting_since_ms, now_ms)),
        known.retries + one.retry_messages,
        known.dead_letters + one.dead_letters,
        "shared" if one.shared else known.mode,
    )


def _description(
    name: str, answers: Sequence[pb2.DescribeConsumerGroupResponse], names: Mapping[int, str]
) -> ConsumerGroupDescription:
    queues: dict[TopicQueue, QueueConsumption] = {}
    members: list[pb2.GroupMember] = []
    strategy, rebalancing = "", False
    for answer in answers:
        members += answer.members
        strategy, rebalancing = strategy or answer.strategy, rebalancing or answer.rebalancing
        for share in answer.shares:
            place = TopicQueue(names.get(share.topic_id, f"topic {share.topic_id}"), share.queue)
            queues[place] = replace(
                queues.get(place, QueueConsumption(*place)),
                owner=share.owner,
                epoch=share.epoch,
                next_owner=share.target,
            )
        for each in answer.queues:
            place = TopicQueue(names.get(each.topic_id, f"topic {each.topic_id}"), each.queue)
            queues[place] = replace(
                queues.get(place, QueueConsumption(*place)),
                offset=each.offset,
                settled=each.settled,
                first_offset=each.first_offset,
                end_offset=each.end_offset,
                lag=each.lag_messages,
                lag_s=_seconds(each.waiting_since_ms, answer.now_ms),
            )
            if each.HasField("leases"):
                leases = each.leases
                queues[place] = replace(
                    queues[place],
                    leased=leases.leased,
                    waiting=leases.waiting,
                    window=leases.window,
                    lease_left_s=leases.lease_left_ms / 1000,
                    attempts=leases.most_attempts,
                )
    mode = next((answer.mode for answer in answers if answer.HasField("mode")), None)
    is_shared = mode is not None and mode.shared
    owned: defaultdict[str, list[TopicQueue]] = defaultdict(list)
    for place in sorted(queues):
        owned[queues[place].owner].append(place)
    return ConsumerGroupDescription(
        name,
        strategy or ("broadcast" if is_broadcast(name) else ""),
        rebalancing,
        tuple(
            ConsumerGroupMember(
                each.member, each.client_id, each.room, each.session_timeout_ms, tuple(owned[each.member])
            )
            for each in members
        ),
        tuple(queues[place] for place in sorted(queues)),
        "shared" if is_shared else "queue",
        "key" if mode is not None and mode.by_key else "",
        mode.max_attempts if mode is not None and is_shared else None,
        max(answer.shared_members for answer in answers) if is_shared else None,
        next((answer.coordinator for answer in answers if answer.HasField("coordinator")), TOPICS_SHARD),
    )


def _seconds(since_ms: int, now_ms: int) -> float:
    return max(0, now_ms - since_ms) / 1000 if since_ms else 0.0


def _check(offset: int, topic: str, queue: int, first: int, end: int) -> None:
    if not first <= offset <= end:
        wrong = OffsetTooLowError if offset < first else OffsetBeyondEndError
        raise wrong(
            f'Queue {queue} of topic "{topic}" cannot be reset to offset {offset}: valid are {first} to {end}.',
            first_offset=first,
            end_offset=end,
        )
