"""Tests topics with queues in several shards, the table of shards, and the placement of new queues and shards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.broker.topics.placement import REPLICAS, place_queues, place_shard
from ledger.errors import InvalidArgumentError, UnknownQueueError, UnknownTopicError
from ledger.state import CommandResult, State, Topic
from ledger.state.shard_table import MAX_SHARDS
from ledger.v1 import command_pb2


def apply(state: State, **command: object) -> CommandResult:
    return state.apply_command(command_pb2.Command(**command).SerializeToString(), 7, index=1)  # type: ignore[arg-type]


def with_shards(*shards: int) -> State:
    state = State()
    for shard in shards:
        assert apply(state, add_shard=adding(shard, 1, 2, 3)) is None
    return state


def adding(shard: int, *nodes: int) -> command_pb2.AddShard:
    return command_pb2.AddShard(shard=shard, nodes=nodes, incarnations=[bytes([node]) * 16 for node in nodes])


def create(state: State, *shards: int, name: str = "orders") -> CommandResult:
    wanted = command_pb2.CreateTopic(name=name, queues=len(shards), shards=shards)
    return apply(state, create_topic=wanted)


# --- topics


def test_a_topic_is_open_once_shard_0_was_told_that_its_queues_are() -> None:
    state = with_shards(1, 2)
    assert create(state, 0, 1, 2) == Topic(1, "orders", (0, 1, 2), 7, opened=0)
    assert [topic.name for topic in state.topics.opening()] == ["orders"]
    opened = apply(state, topic_opened=command_pb2.TopicOpened(topic_id=1, queues=3))
    assert opened == Topic(1, "orders", (0, 1, 2), 7, opened=3)
    assert state.topics.opening() == []
    # A repeated report, or a report with fewer queues, changes nothing.
    assert apply(state, topic_opened=command_pb2.TopicOpened(topic_id=1, queues=2)) == opened


def test_a_topic_of_shard_0_alone_is_open_at_once() -> None:
    state = with_shards(1)
    create(state, 0, 0)
    apply(state, create_topic=command_pb2.CreateTopic(name="old", queues=2))  # a command without shards
    assert [(topic.shards, topic.is_open) for topic in state.topics] == [((0, 0), True)] * 2
    assert state.topics.opening() == []


def test_a_topic_is_not_placed_where_there_is_no_shard() -> None:
    state = with_shards(1)
    before = state.digest()
    assert isinstance(create(state, 0, 2), InvalidArgumentError)
    uneven = command_pb2.CreateTopic(name="orders", queues=3, shards=[0, 1])
    assert isinstance(apply(state, create_topic=uneven), InvalidArgumentError)
    assert state.digest() == before


def test_queues_come_behind_those_that_are_there() -> None:
    state = with_shards(1, 2)
    create(state, 0, 1)
    apply(state, topic_opened=command_pb2.TopicOpened(topic_id=1, queues=2))
    more = command_pb2.AlterTopic(topic_id=1, shards=[0, 1, 2])
    assert apply(state, alter_topic=more) == Topic(1, "orders", (0, 1, 2), 7, opened=2)
    assert [topic.topic_id for topic in state.topics.opening()] == [1]
    before = state.digest()
    for other in ([0, 1, 2], [0, 1], [1, 0, 2, 1]):  # the same shards, fewer queues, changed shards
        apply(state, alter_topic=command_pb2.AlterTopic(topic_id=1, shards=other))
    assert state.digest() == before
    assert isinstance(apply(state, alter_topic=command_pb2.AlterTopic(topic_id=2, shards=[0])), UnknownTopicError)
    assert isinstance(apply(state, topic_opened=command_pb2.TopicOpened(topic_id=1, queues=4)), UnknownQueueError)


def test_another_shard_knows_what_was_opened_in_it_and_never_less() -> None:
    state = State()
    opening = command_pb2.OpenTopic(topic_id=9, name="orders", shards=[0, 1, 1], created_ms=5)
    assert apply(state, open_topic=opening) == Topic(9, "orders", (0, 1, 1), 5, opened=3)
    known = state.digest()
    fewer = command_pb2.OpenTopic(topic_id=9, name="orders", shards=[0, 1], created_ms=5)
    for again in (opening, fewer):
        apply(state, open_topic=again)
    assert state.digest() == known
    assert state.topics.named("orders") == state.topics.require(9, 2)
    assert state.topics.opening() == []
    assert state.topics.next_id == 10


# --- shards


def test_shards_come_one_after_the_other_and_once() -> None:
    state = with_shards(1, 2)
    before = state.digest()
    assert apply(state, add_shard=adding(1, 7)) is None
    nameless = command_pb2.AddShard(shard=3, nodes=[1, 2], incarnations=[b"1" * 16])
    for wrong in (adding(4, 1), adding(3), adding(3, 1, 1), adding(3, 0), nameless):
        assert isinstance(apply(state, add_shard=wrong), InvalidArgumentError)
    assert state.digest() == before
    assert state.shards.numbers == [0, 1, 2]
    assert state.shards.nodes(2) == (1, 2, 3)
    assert 3 not in state.shards


def test_there_are_only_so_many_shards() -> None:
    state = with_shards(*range(1, MAX_SHARDS))
    refused = apply(state, add_shard=adding(MAX_SHARDS, 1))
    assert isinstance(refused, InvalidArgumentError)


def test_shards_and_places_are_part_of_the_bytes() -> None:
    state = with_shards(1, 2)
    create(state, 0, 2, 1)
    twin = State.decode(state.encode())
    assert (twin.encode(), list(twin.topics), list(twin.shards)) == (
        state.encode(), list(state.topics), [(1, (1, 2, 3)), (2, (1, 2, 3))],
    )  # fmt: skip
    assert twin.shards.founders(2) == {1: b"\1" * 16, 2: b"\2" * 16, 3: b"\3" * 16}
    assert [topic.name for topic in twin.topics.opening()] == ["orders"]


def test_queues_go_where_there_are_fewest_and_the_lowest_among_equals() -> None:
    assert place_queues(4, [0, 1, 2, 3], []) == (0, 1, 2, 3)
    assert place_queues(3, [0, 1, 2], [0, 0, 1]) == (2, 1, 2)
    assert place_queues(2, [0], [0, 0, 0]) == (0, 0)
    assert place_queues(1, [0, 1], [0, 1, 9]) == (0,)  # shard 9 is not available


@given(st.lists(st.integers(1, 9), max_size=12))
def test_new_topics_keep_shards_even(topics: list[int]) -> None:
    placed: list[int] = []
    for queues in topics:
        placed += place_queues(queues, [0, 1, 2, 3], placed)
    counts = [placed.count(shard) for shard in range(4)]
    assert max(counts) - min(counts) <= 1


def test_shards_on_three_nodes_are_led_by_each_in_turn() -> None:
    others: list[tuple[int, ...]] = []
    for shard in range(1, 7):
        others.append(place_shard(shard, [3, 1, 2], others))
    assert [nodes[0] for nodes in others] == [2, 3, 1, 2, 3, 1]
    assert all(sorted(nodes) == [1, 2, 3] for nodes in others)


def test_replicas_of_a_shard_are_in_different_rooms() -> None:
    rooms = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "c"}
    others: list[tuple[int, ...]] = []
    for shard in range(1, 13):
        others.append(place_shard(shard, range(1, 7), others, rooms))
    assert all({rooms[node] for node in nodes} == {"a", "b", "c"} for nodes in others)
    assert {rooms[node] for node in place_shard(1, [1, 2, 3, 4], [], rooms)} == {"a", "b"}
    assert len(place_shard(1, range(1, 7), [], rooms, replicas=5)) == 5


@pytest.mark.parametrize("nodes", [1, 2, 4, 5, 7])
def test_shards_spread_over_more_nodes_evenly(nodes: int) -> None:
    others: list[tuple[int, ...]] = []
    for shard in range(1, 13):
        others.append(place_shard(shard, range(1, nodes + 1), others))
    counts = [sum(node in each for each in others) for node in range(1, nodes + 1)]
    assert max(counts) - min(counts) <= 1
    assert {len(set(each)) for each in others} == {min(nodes, REPLICAS)}
