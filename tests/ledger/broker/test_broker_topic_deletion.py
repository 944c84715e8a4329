"""Tests how a topic that was deleted in shard 0 is removed from all other shards. The replicas are fakes with a
state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.batch import encode
from ledger.broker.replicas import Replicas
from ledger.broker.topics import topic_deletion
from ledger.broker.topics.topic_commands import delete_topic, open_topic
from ledger.broker.topics.topic_deletion import TopicDeletion
from ledger.errors import (
    BusyError,
    InvalidArgumentError,
    NoLeaderError,
    NotLeaderError,
    ReplicaBehindError,
    UnknownTopicError,
)
from ledger.state import Topic
from ledger.state.commands import Command
from ledger.v1 import command_pb2
from tests.ledger.broker.test_broker_topic_opening import Shard, cluster, made
from tests.ledger.broker.timed.leader import NOW_MS, ORDERS, Leader


class Elsewhere:
    """Stands for the leaders of shards on other nodes. The fake records requests, and raises `trouble` if set."""

    def __init__(self, trouble: Exception | None = None) -> None:
        self.trouble = trouble
        self.asked: list[tuple[int, int]] = []

    async def drop_topic(self, shard: int, topic_id: int) -> None:
        self.asked.append((shard, topic_id))
        if self.trouble is not None:
            raise self.trouble

    async def open_topic(self, shard: int, topic: Topic) -> None:
        raise AssertionError("a deletion opens nothing")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_deletion, "LOOK_S", 0)
    monkeypatch.setattr(topic_deletion, "PATIENCE_S", 0.2)


class Leading(Shard):
    """A fake replica with the members that the deletion uses in addition."""

    @property
    def leading_term(self) -> int:
        return 1 if self.knows_the_end else 0

    def check_leads(self, size: int) -> Any:
        if not self.knows_the_end:
            raise self.not_leading()
        return self

    def delete_topic(self, command: Command) -> asyncio.Future[Any]:
        return self.propose_checked(command)


def opened(shard: Shard, topic: Topic) -> None:
    wanted = command_pb2.OpenTopic(topic_id=topic.topic_id, name=topic.name, shards=topic.shards, created_ms=7)
    shard.apply(open_topic=wanted)


async def looks(deletion: TopicDeletion, done: Callable[[], bool]) -> None:
    running = asyncio.create_task(deletion.run())
    async with asyncio.timeout(5):
        while not done():  # noqa: ASYNC110 (there is no event to wait for)
            await asyncio.sleep(0)
    running.cancel()


async def test_it_goes_from_shard_0_and_then_from_those_that_have_queues_of_it() -> None:
    first, second, elsewhere = Leading(0), Leading(1), Elsewhere()
    replicas = cluster(first, second)
    topic = made(first, 0, 1, 2)
    opened(second, topic)
    await TopicDeletion(replicas, elsewhere).delete(topic.topic_id)
    assert first.proposed == second.proposed == ["DeleteTopic"]
    assert elsewhere.asked == [(2, topic.topic_id)]
    assert len(first.state.topics) == len(second.state.topics) == 0


async def test_to_ask_once_more_is_no_error_and_asks_all_shards() -> None:
    first, elsewhere = Leading(0), Elsewhere(NoLeaderError("nobody leads"))
    deletion = TopicDeletion(cluster(first), elsewhere)
    topic = made(first, 0, 2)
    with pytest.raises(BusyError, match=r"not removed from every shard yet \(nobody leads\): the removal continues"):
        await deletion.delete(topic.topic_id)
    elsewhere.trouble = None
    await deletion.delete(topic.topic_id)
    assert first.proposed == ["DeleteTopic"]
    assert sorted(elsewhere.asked[1:]) == [(shard, topic.topic_id) for shard in (1, 2, 3)]
    with pytest.raises(UnknownTopicError):
        await deletion.delete(topic.topic_id + 1)


async def test_a_leader_deletes_by_itself_what_its_node_knows_to_be_deleted() -> None:
    """The leader of another shard deletes a topic by itself if its own replica of shard 0 shows the deletion.
    Therefore a topic also goes if the leader of shard 0 failed before it sent a request, or if the topic was opened
    again late.
    """
    first, second = Leading(0, leads=False), Leading(1)
    replicas = cluster(first, second)
    topic, kept = made(first, 1), made_as(first, "kept", 1)
    opened(second, topic)
    opened(second, kept)
    first.apply(delete_topic=command_pb2.DeleteTopic(topic_id=topic.topic_id))
    deletion = TopicDeletion(replicas, Elsewhere())
    await looks(deletion, lambda: second.proposed == ["DeleteTopic"])
    opened(second, topic)
    second.state.topics.changed_at += 1  # needed because the fake gives every entry the same index
    await looks(deletion, lambda: second.proposed == ["DeleteTopic"] * 2)
    assert [each.name for each in second.state.topics] == ["kept"]


async def test_what_a_node_has_not_heard_of_is_not_deleted() -> None:
    first, second = Leading(0, leads=False), Leading(1)
    replicas = cluster(first, second)
    topic = made(first, 1)
    opened(second, topic)
    ahead = Topic(
        topic.topic_id + 1, "ahead", (1,), 7, 1
    )  # this node's replica of shard 0 lags, and does not know this topic
    opened(second, ahead)
    deletion = TopicDeletion(replicas, Elsewhere())
    for each in (topic, ahead):
        with pytest.raises(ReplicaBehindError):
            await deletion.drop(cast(Any, second), each.topic_id)
    await deletion._look(cast(Any, second))
    assert second.proposed == []
    assert len(second.state.topics) == 2


async def test_who_does_not_lead_leaves_it_to_the_leader() -> None:
    first, second = Leading(0, leads=False), Leading(1, leads=False)
    replicas = cluster(first, second)
    topic = made(first, 1)
    opened(second, topic)
    first.apply(delete_topic=command_pb2.DeleteTopic(topic_id=topic.topic_id))
    deletion = TopicDeletion(replicas, Elsewhere())
    refused: list[Awaitable[None]] = [
        deletion.delete(topic.topic_id), deletion.drop(cast(Any, second), topic.topic_id)
    ]  # fmt: skip
    for each in refused:
        with pytest.raises(NotLeaderError):
            await each
    await deletion._look(cast(Any, second))
    assert second.proposed == []


async def test_before_shard_0_has_started_nothing_is_looked_at() -> None:
    replicas = Replicas()
    replicas.add(cast(Any, Leading(1)))
    await TopicDeletion(replicas, Elsewhere())._look(cast(Any, Leading(1)))


def test_whoever_asks_for_a_queue_of_it_is_told_that_it_was_deleted() -> None:
    first, second = Leading(0, leads=False), Leading(1)
    replicas = cluster(first, second)
    topic = made(first, 1)
    opened(second, topic)
    assert replicas.of_queue(topic.topic_id, 0).shard == 1
    first.apply(delete_topic=command_pb2.DeleteTopic(topic_id=topic.topic_id))
    assert replicas.topic(topic.topic_id) is None
    with pytest.raises(UnknownTopicError, match="was deleted"):
        replicas.of_queue(topic.topic_id, 0)
    with pytest.raises(InvalidArgumentError):
        replicas.require(9)


async def test_no_batch_is_appended_between_two_deletions_of_its_topic() -> None:
    """A late `OpenTopic` brings the topic back between two deletions. Before, a batch was appended behind the second
    deletion, and no replica could apply it."""
    leader = Leader()
    topic = leader.replica.state.topics.require(ORDERS, 0)
    leader.replica.shard = 1  # shard 0 opens no topics
    delete_topic(leader.replica, ORDERS)
    open_topic(leader.replica, topic)
    delete_topic(leader.replica, ORDERS)
    leader.commit(2)
    assert leader.replica.state.topics.get(ORDERS) == topic
    batch = encode(
        [b"late"], topic_id=ORDERS, queue=0, producer_id=9, epoch=0, first_sequence=0, base_timestamp_ms=NOW_MS
    )
    with pytest.raises(UnknownTopicError, match="is being deleted"):
        leader.replica.append(batch)
    leader.commit()
    assert leader.replica.state.topics.get(ORDERS) is None
    assert not leader.replica.check_leads(0).is_being_deleted(ORDERS)


def made_as(first: Shard, name: str, *shards: int) -> Topic:
    wanted = command_pb2.CreateTopic(name=name, queues=len(shards), shards=shards)
    return cast(Topic, first.apply(create_topic=wanted))


def test_a_shard_can_be_added_in_the_middle_of_an_iteration() -> None:
    """`TopicDeletion.run` waits between two replicas. Before, a shard that was added meanwhile ended the node."""
    replicas = Replicas()
    for shard in (0, 2):
        replicas.add(cast(Any, SimpleNamespace(shard=shard)))
    seen = []
    for replica in replicas:
        seen.append(replica.shard)
        replicas.add(cast(Any, SimpleNamespace(shard=replica.shard + 1)))
    assert seen == [0, 2]
    assert [replica.shard for replica in replicas] == [0, 1, 2, 3]
