"""Tests that the topic of messages with delivery times is created on demand, with a queue in each shard."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ledger.broker.topics.timed_topic import TimedTopic
from ledger.broker.topics.topic_deletion import TopicDeletion
from ledger.broker.topics.topic_opening import TopicOpening
from ledger.broker.topics.topics import Topics
from ledger.errors import InvalidArgumentError
from ledger.state import Projected, feature_levels
from ledger.state.commands import Command
from ledger.timed import TIMED_TOPIC
from ledger.v1 import command_pb2
from tests.ledger.broker.test_broker_topic_opening import Elsewhere, Shard, cluster, spawn


class Level:
    """Stands for the feature level of a shard whose members support `supported`."""

    def __init__(self, shard: Shard, supported: int) -> None:
        self._shard = shard
        self._supported = supported

    async def reach(self, level: int) -> None:
        self._shard.state.feature_level = min(level, self._supported)


class Leader(Shard):
    """Stands for the replica of a leader."""

    def __init__(self, shard: int, supported: int = feature_levels.TIMED) -> None:
        super().__init__(shard)
        self.feature_level: Any = Level(self, supported)

    def check_leads(self, size: int) -> Projected:
        return Projected(self.state)

    leading_state = check_leads

    def propose_command(self, command: Command) -> asyncio.Future[Any]:
        return self.propose_checked(command)


def timed_topic(*shards: Leader) -> TimedTopic:
    replicas = cluster(*shards)
    opening = TopicOpening(replicas, Elsewhere(), spawn)
    return TimedTopic(replicas, Topics(replicas, opening, cast(TopicDeletion, None)))


async def test_it_has_one_queue_in_each_shard() -> None:
    first, second = Leader(0), Leader(1)
    prepared = timed_topic(first, second)
    topic = await prepared.prepare()
    assert (topic.name, topic.shards, topic.is_open) == (TIMED_TOPIC, (0, 1, 2, 3), True)
    assert second.state.topics.named(TIMED_TOPIC) == topic
    assert first.proposed == ["CreateTopic", "TopicOpened"]
    assert await prepared.prepare() == topic
    assert len(first.proposed) == 2


async def test_a_new_shard_gets_a_queue() -> None:
    first = Leader(0)
    prepared = timed_topic(first, Leader(1))
    before = await prepared.prepare()
    first.apply(add_shard=command_pb2.AddShard(shard=4, nodes=[2, 3, 4], incarnations=[bytes(16)] * 3))
    after = await prepared.prepare()
    assert (after.topic_id, after.shards, after.is_open) == (before.topic_id, (0, 1, 2, 3, 4), True)


async def test_it_waits_for_the_level_of_a_cluster_that_has_just_started() -> None:
    first = Leader(0)
    assert first.state.feature_level == 0
    assert (await timed_topic(first).prepare()).name == TIMED_TOPIC


async def test_below_level_3_it_is_not_created() -> None:
    first = Leader(0, feature_levels.TIMED - 1)
    with pytest.raises(InvalidArgumentError, match=r"feature level 2, and .* need level 3"):
        await timed_topic(first).prepare()
    assert first.proposed == []
