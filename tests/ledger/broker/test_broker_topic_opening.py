"""Tests how the leader of shard 0 opens a new topic in all its shards, and how a node finds the replica of a queue.

The replicas are fakes with a state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.members.membership import Membership
from ledger.broker.replicas import Replicas
from ledger.broker.topics import topic_opening
from ledger.broker.topics.topic_opening import TopicOpening
from ledger.errors import BusyError, InvalidArgumentError, NoLeaderError, NotLeaderError, UnavailableError
from ledger.state import State, Topic
from ledger.state.command_encoding import encode_command
from ledger.state.commands import Command
from ledger.v1 import command_pb2


class Shard:
    """Stands for a replica. Each proposed command is applied to its state at once."""

    def __init__(self, shard: int, *, leads: bool = True) -> None:
        self.shard = shard
        self.state = State()
        self.knows_the_end = leads
        self.membership = Membership(1, b"", {})
        self.proposed: list[str | None] = []

    def apply(self, **command: Any) -> Any:
        return self.state.apply_command(command_pb2.Command(**command).SerializeToString(), 7, index=1)

    def propose_checked(self, command: Command) -> asyncio.Future[Any]:
        if not self.knows_the_end:
            raise self.not_leading()
        self.proposed.append(type(command).__name__)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.set_result(self.state.apply_command(encode_command(command), 7, index=1))
        return answer

    def not_leading(self) -> NotLeaderError:
        return NotLeaderError("not here")


class Elsewhere:
    """Stands for the leaders of shards on other nodes. Requests to open a topic fail unless `there` is set."""

    def __init__(self) -> None:
        self.there = asyncio.Event()
        self.there.set()
        self.asked: list[tuple[int, str]] = []
        self.was_asked = asyncio.Event()

    async def open_topic(self, shard: int, topic: Topic) -> None:
        self.asked.append((shard, topic.name))
        self.was_asked.set()
        if not self.there.is_set():
            raise NoLeaderError(f"nobody leads shard {shard}")

    async def drop_topic(self, shard: int, topic_id: int) -> None:
        raise AssertionError("an opening deletes nothing")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_opening, "RETRY_S", 0)
    monkeypatch.setattr(topic_opening, "PATIENCE_S", 0.2)


def spawn(work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
    return asyncio.create_task(work, name=name)


def cluster(*shards: Shard) -> Replicas:
    """Return the replicas of node 1 in a cluster of four shards; `shards` are those that have started. Shard 3 has no
    replica on node 1.
    """
    for number in (1, 2, 3):
        nodes = [2, 3, 4] if number == 3 else [1, 2, 3]
        incarnations = [bytes(16)] * len(nodes)
        shards[0].apply(add_shard=command_pb2.AddShard(shard=number, nodes=nodes, incarnations=incarnations))
    replicas = Replicas()
    for shard in shards:
        replicas.add(cast(BrokerReplica, shard))
    return replicas


def made(first: Shard, *shards: int) -> Topic:
    wanted = command_pb2.CreateTopic(name="t", queues=len(shards), shards=shards)
    return cast(Topic, first.apply(create_topic=wanted))


# --- opening


async def test_queues_are_opened_here_and_elsewhere_and_then_the_topic_is_open() -> None:
    first, second, elsewhere = Shard(0), Shard(1), Elsewhere()
    opening = TopicOpening(cluster(first, second), elsewhere, spawn)
    opened = await opening.wait(made(first, 0, 1, 2, 1))
    assert opened.is_open
    assert (second.proposed, elsewhere.asked) == (["OpenTopic"], [(2, "t")])
    assert first.proposed == ["TopicOpened"]
    assert second.state.topics.require(opened.topic_id, 3) == opened


async def test_it_goes_on_until_every_shard_has_answered() -> None:
    first, elsewhere = Shard(0), Elsewhere()
    elsewhere.there.clear()
    opening = TopicOpening(cluster(first), elsewhere, spawn)
    topic = made(first, 0, 2)
    with pytest.raises(BusyError, match=r"not open yet \(nobody leads shard 2\): try again shortly"):
        await opening.wait(topic)
    assert first.proposed == []
    assert len(elsewhere.asked) > 1
    elsewhere.there.set()
    assert (await opening.wait(topic)).is_open
    await opening.stop()


async def test_the_next_leader_goes_on_by_itself() -> None:
    first, elsewhere = Shard(0, leads=False), Elsewhere()
    opening = TopicOpening(cluster(first), elsewhere, spawn)
    topic = made(first, 2)
    opening.look()  # a follower does nothing
    with pytest.raises(NotLeaderError):
        await opening.wait(topic)
    assert elsewhere.asked == []
    first.knows_the_end = True
    opening.look()
    await opening.wait(topic)
    assert not first.state.topics.opening()


async def test_who_leads_no_more_stops() -> None:
    first, elsewhere = Shard(0), Elsewhere()
    elsewhere.there.clear()
    opening = TopicOpening(cluster(first), elsewhere, spawn)
    waiting = asyncio.create_task(opening.wait(made(first, 2)))
    await elsewhere.was_asked.wait()
    first.knows_the_end = False
    with pytest.raises(NotLeaderError):
        await waiting
    asked = len(elsewhere.asked)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(elsewhere.asked) == asked


async def test_only_what_is_new_is_opened() -> None:
    first, second, elsewhere = Shard(0), Shard(1), Elsewhere()
    opening = TopicOpening(cluster(first, second), elsewhere, spawn)
    topic = await opening.wait(made(first, 0, 1))
    altered = first.apply(alter_topic=command_pb2.AlterTopic(topic_id=topic.topic_id, shards=[0, 1, 2]))
    assert (await opening.wait(altered)).opened == 3
    assert (second.proposed, elsewhere.asked) == (["OpenTopic"], [(2, "t")])


# --- the replica of a queue


def test_a_queue_lives_where_shard_0_says() -> None:
    first, second = Shard(0), Shard(1)
    replicas = cluster(first, second)
    topic = made(first, 0, 1, 2, 3)
    assert [replicas.of_queue(topic.topic_id, queue).shard for queue in (0, 1)] == [0, 1]
    with pytest.raises(UnavailableError, match="shard 2 has not started on this node yet"):
        replicas.of_queue(topic.topic_id, 2)
    with pytest.raises(NotLeaderError, match="no replica of shard 3"):
        replicas.of_queue(topic.topic_id, 3)
    with pytest.raises(InvalidArgumentError, match="there is no shard 9: the last one is 3"):
        replicas.require(9)
    assert replicas.of_queue(topic.topic_id, 9).shard == replicas.of_queue(99, 0).shard == 0


def test_a_shard_that_a_topic_was_opened_in_knows_it_before_shard_0_here_does() -> None:
    first, second = Shard(0), Shard(1)
    replicas = cluster(first, second)
    opened = command_pb2.OpenTopic(topic_id=5, name="t", shards=[0, 1], created_ms=3)
    second.apply(open_topic=opened)
    assert replicas.of_queue(5, 1).shard == 1


def test_before_the_first_start_there_is_nothing_to_ask() -> None:
    with pytest.raises(UnavailableError, match="does not serve yet"):
        Replicas().of_queue(1, 0)
