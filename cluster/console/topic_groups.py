"""Finds the consumer groups that read a topic, with their lag in this topic.

A group is known by its progress in the queues of the topic, so the shards of the topic are asked about each group.
Both the groups and the time are bounded: a page says if not all groups could be asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.errors import LedgerError
from ledger.v1 import consumer_group_operations_pb2 as pb2

# How many groups are asked about, in total and at the same time, and how long.
MAX_GROUPS = 100
AT_ONCE = 8
FIND_S = 2.0


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """A group that has read `queues` queues of a topic. `lag` counts the messages that it has not consumed, and the
    oldest of them is `lag_s` seconds old."""

    name: str
    queues: int
    lag: int
    lag_s: float


@dataclass(frozen=True, slots=True)
class TopicGroups:
    """The groups of a topic, sorted by name. `are_all` is False if not all groups of the cluster could be asked."""

    groups: list[TopicGroup]
    are_all: bool


async def groups_of(client: ClusterClient, topic: RoutedTopic) -> TopicGroups:
    """Return the groups that read the topic. Groups that the user may not see are left out. Raises LedgerError."""
    shards = sorted(set(topic.shards))
    names = await _names(client, shards)
    found: list[TopicGroup] = []
    are_all = len(names) <= MAX_GROUPS
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(name: str) -> None:
        nonlocal are_all
        try:
            async with gate:
                answers = [await _described(client, shard, name) for shard in shards]
        except LedgerError:
            are_all = False
            return
        queues = [each for answer in answers for each in answer.queues if each.topic_id == topic.topic_id]
        if queues:
            now_ms = max(answer.now_ms for answer in answers)
            since = min((each.waiting_since_ms for each in queues if each.waiting_since_ms), default=now_ms)
            lag = sum(each.lag_messages for each in queues)
            found.append(TopicGroup(name, len(queues), lag, max(0, now_ms - since) / 1000))

    tasks = [asyncio.create_task(ask(name)) for name in names[:MAX_GROUPS]]
    try:
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=FIND_S)
            are_all = are_all and not late
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return TopicGroups(sorted(found, key=lambda group: group.name), are_all)


async def _names(client: ClusterClient, shards: Sequence[int]) -> list[str]:
    """Return the names of the groups in these shards that the user may see."""
    found: set[str] = set()
    for shard in shards:
        request = pb2.ListConsumerGroupsRequest(shard=shard)
        response = await _listed(client, request)
        found.update(group.name for group in response.consumer_groups)
    return sorted(found)


async def _listed(client: ClusterClient, request: pb2.ListConsumerGroupsRequest) -> pb2.ListConsumerGroupsResponse:
    return await client.call(request.shard, lambda stub, s: stub.ListConsumerGroups(request, timeout=s))


async def _described(client: ClusterClient, shard: int, name: str) -> pb2.DescribeConsumerGroupResponse:
    request = pb2.DescribeConsumerGroupRequest(shard=shard, consumer_group=name)
    return await client.call(shard, lambda stub, s: stub.DescribeConsumerGroup(request, timeout=s))
