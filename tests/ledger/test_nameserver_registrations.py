"""Tests how a name server combines the registrations of nodes into its answers."""

from __future__ import annotations

import pytest

from ledger.nameserver.registrations import LIFETIME_MS, Registrations
from ledger.v1 import broker_pb2


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


def said(
    *,
    cluster: str = "one",
    configuration: int = 1,
    nodes: tuple[int, ...] = (1, 2, 3),
    leaders: dict[int, tuple[int, int]] | None = None,
    topics: dict[str, int] | None = None,
    topics_index: int = 0,
) -> broker_pb2.GetRouteResponse:
    """Return the registration of a node. `leaders` maps shards to (term, leader), and `topics` maps names to numbers of
    queues.
    """
    routes = broker_pb2.GetRouteResponse(cluster=cluster, configuration_index=configuration, coordinators=1)
    routes.topics_index = topics_index
    for node in nodes:
        routes.nodes.add(node=node, address=f"host{node}:1")
    for shard, (term, leader) in (leaders or {}).items():
        routes.shards.add(shard=shard, term=term, leader=leader)
    for number, (name, queues) in enumerate((topics or {}).items(), 1):
        routes.topics.add(name=name, topic_id=number, shards=[0] * queues)
    return routes


def test_of_each_shard_the_newest_term_counts_and_of_one_term_who_names_a_leader() -> None:
    known = Registrations(Clock())
    known.register(1, said(leaders={0: (7, 1), 1: (4, 0), 2: (9, 3)}), object())
    known.register(2, said(leaders={0: (8, 2), 1: (4, 2), 2: (9, 0)}), object())
    routes = known.routes(())
    assert [(each.shard, each.term, each.leader) for each in routes.shards] == [(0, 8, 2), (1, 4, 2), (2, 9, 3)]


def test_no_more_nodes_are_known_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.nameserver.registrations.MAX_NODES", 2)
    known = Registrations(Clock())
    assert known.register(1, said(), object()) == known.register(2, said(), object()) == ""
    assert "has 2 nodes already" in known.register(3, said(), object())
    assert known.register(2, said(), object()) == "", "a known node can register again"


def test_the_nodes_are_those_of_the_newest_configuration() -> None:
    known = Registrations(Clock())
    known.register(1, said(configuration=5, nodes=(1, 2, 4)), object())
    known.register(2, said(configuration=3), object())
    assert [node.node for node in known.routes(()).nodes] == [1, 2, 4]


def test_an_outside_address_is_passed_on_whoever_knows_it() -> None:
    known = Registrations(Clock())
    for teller, told in ((1, (1, 2)), (2, (3,))):
        routes = said(configuration=9 - teller)
        for node in told:
            routes.nodes[node - 1].outside_address = f"localhost:{node}"
        known.register(teller, routes, object())
    assert [node.outside_address for node in known.routes(()).nodes] == ["localhost:1", "localhost:2", "localhost:3"]


def test_the_topics_are_those_of_the_node_that_has_heard_of_most() -> None:
    known = Registrations(Clock())
    known.register(1, said(topics={"a": 4, "deleted": 2}, topics_index=7), object())
    known.register(2, said(topics={"a": 6, "b": 1}, topics_index=9), object())
    routes = known.routes(())
    assert {topic.name: len(topic.shards) for topic in routes.topics} == {"a": 6, "b": 1}
    assert routes.topics_index == 9
    assert [topic.name for topic in known.routes(["b"]).topics] == ["b"]


def test_what_is_not_renewed_is_dropped_after_two_minutes() -> None:
    clock = Clock()
    known = Registrations(clock)
    known.register(1, said(), object())
    clock.now_ms = LIFETIME_MS
    known.register(2, said(), object())
    assert len(known) == 2
    clock.now_ms += 1
    assert len(known) == 1
    clock.now_ms += LIFETIME_MS
    assert len(known) == 0
    assert not known.routes(()).nodes


def test_a_broken_stream_takes_its_node_with_it_at_once_but_not_one_that_has_come_again() -> None:
    known, first, second = Registrations(Clock()), object(), object()
    known.register(1, said(), first)
    known.register(1, said(), second)
    known.forget(1, first)
    assert len(known) == 1
    known.forget(1, second)
    assert len(known) == 0


def test_nodes_of_another_cluster_are_refused_while_there_is_one() -> None:
    known, stream = Registrations(Clock()), object()
    assert known.register(1, said(), stream) == ""
    refusal = known.register(2, said(cluster="two"), object())
    assert refusal == "this name server serves cluster 'one', not 'two': correct the node's `nameservers`"
    known.forget(1, stream)
    assert known.register(2, said(cluster="two"), object()) == ""


def test_of_each_node_the_room_is_known_that_it_says_it_is_in() -> None:
    known = Registrations(Clock())
    for node, room in ((1, "north"), (2, "")):
        routes = said()
        routes.nodes[node - 1].room = room
        known.register(node, routes, object())
    nodes = known.routes(()).nodes
    assert [node.room if node.HasField("room") else None for node in nodes] == ["north", "", None]


def test_the_bytes_of_all_nodes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    size = said(topics={"a" * 100: 1}).ByteSize()
    monkeypatch.setattr("ledger.nameserver.registrations.MAX_BYTES", 2 * size)
    clock = Clock()
    known, stream = Registrations(clock), object()
    assert known.register(1, said(topics={"a" * 100: 1}), stream) == ""
    assert known.register(2, said(topics={"a" * 100: 1}), object()) == ""
    refusal = known.register(3, said(), object())
    assert refusal.startswith(f"this name server holds {2 * size} bytes of other nodes' routes already")
    assert known.register(1, said(topics={"b" * 100: 1}), stream) == "", "the new routes replace the old ones"
    assert "no room" in known.register(1, said(topics={"b" * 101: 1}), stream)
    known.forget(1, stream)
    assert known.register(3, said(), object()) == ""
    clock.now_ms = LIFETIME_MS + 1
    assert known.register(4, said(topics={"a" * 200: 1}), object()) == "", "reports that are too old do not count"
