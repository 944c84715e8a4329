"""Two requests that create the same topic: the second one is answered when it is decided whether the topic exists."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.topics.topic_commands import alter_topic, create_topic
from ledger.broker.topics.topic_deletion import TopicDeletion
from ledger.broker.topics.topic_opening import TopicOpening
from ledger.broker.topics.topics import Topics
from ledger.errors import BusyError, InvalidArgumentError, TopicExistsError
from ledger.state import Projected
from ledger.state.commands import Command
from tests.ledger.broker.test_broker_topic_opening import Elsewhere, Shard, cluster, spawn


class SlowLeader(Shard):
    """Stands for the replica of a leader, whose commands are committed when `commit` is set."""

    def __init__(self) -> None:
        super().__init__(0)
        self.projected = Projected(self.state)
        self.commit = asyncio.Event()

    def leading_state(self, size: int) -> Projected:
        return self.projected

    def propose_command(self, command: Command) -> asyncio.Future[Any]:
        async def committed() -> Any:
            await self.commit.wait()
            return await self.propose_checked(command)

        return asyncio.ensure_future(committed())


async def test_a_topic_exists_only_when_its_creation_is_committed() -> None:
    leader = SlowLeader()
    replicas = cluster(leader)
    topics = Topics(replicas, TopicOpening(replicas, Elsewhere(), spawn), cast(TopicDeletion, None))
    first = asyncio.create_task(topics.create("t", 1))
    await asyncio.sleep(0)
    with pytest.raises(BusyError, match="'t' is being created"):
        await topics.create("t", 1)
    assert leader.state.topics.named("t") is None
    leader.commit.set()
    assert (await first).name == "t"
    with pytest.raises(TopicExistsError):
        await topics.create("t", 1)


async def test_more_queues_than_the_cluster_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.state.projected.MAX_ALL_QUEUES", 3)
    leader = SlowLeader()
    leader.commit.set()
    await create_topic(cast(BrokerReplica, leader), "t", 2)
    with pytest.raises(InvalidArgumentError, match="have 2 queues, and 2 more would be over the limit of 3"):
        await alter_topic(cast(BrokerReplica, leader), "t", 4)
    with pytest.raises(InvalidArgumentError, match="have 2 queues, and 2 more would be over the limit of 3"):
        await create_topic(cast(BrokerReplica, leader), "u", 2)
    assert (await alter_topic(cast(BrokerReplica, leader), "t", 3)).queues == 3
