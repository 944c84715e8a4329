"""Which topics get checks of transactions: producers of one caller take nothing from those of others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.access.callers import Caller
from ledger.errors import BusyError
from ledger.rocketmq import orphan_checks as module
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.orphan_checks import MAX_TOPICS, OrphanChecks, in_turns
from ledger.rocketmq.producers import MAX_NAMED_OF_A_CALLER, TopicProducers
from ledger.rocketmq.sessions import ALIVE_S, FORGET_S, FrontSession, FrontSessions
from ledger.rocketmq.telemetry import MAX_TOPICS as MAX_TOPICS_OF_A_CLIENT
from ledger.rocketmq.v2 import service_pb2

UNUSED = cast(Any, SimpleNamespace())
ORPHANS = [f"orders-{number}" for number in range(2 * MAX_TOPICS)]


class Checks:
    """Stands for GroupChecks."""

    def __init__(self, cluster: object, group: str, checker: object, name: str) -> None:
        self.name = name
        self.is_stopped = False

    async def stop(self) -> None:
        self.is_stopped = True


class Node:
    """A node whose RocketMQ clients have told their settings."""

    def __init__(self, *existing: str) -> None:
        self.now_s = 1.0
        self.sessions = FrontSessions(lambda: self.now_s)
        self.producers = TopicProducers(self.sessions)
        topics = {topic: SimpleNamespace(name=topic, type="transaction") for topic in existing}
        topics["paid"] = SimpleNamespace(name="paid", type="normal")
        cluster: Any = SimpleNamespace(routes=SimpleNamespace(table=SimpleNamespace(topics=topics)))
        self.clients = [NativeClients(Caller(user, 1), UNUSED, cluster, UNUSED) for user in ("alice", "bob")]
        self.checks = OrphanChecks(self.producers, lambda: self.clients, "front 1")

    def producer(self, user: str, client_id: str, topics: Iterable[str]) -> FrontSession:
        call = FrontCall(client_id, "JAVA", Caller(user, 1), is_tls=True, peer="ipv4:10.0.0.9:1", left_s=60.0)
        session = self.sessions.seen(call)
        session.streams["stream"] = asyncio.Queue()
        self.producers.name(session, topics)
        return session

    async def checked(self) -> list[tuple[str, str]]:
        """Return the topics that get checks, after the node has looked once more."""
        await self.checks._follow()
        return [*self.checks._checks]


@pytest.fixture(autouse=True)
def _checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GroupChecks", Checks)


async def test_names_of_topics_that_do_not_exist_leave_room_for_others() -> None:
    node = Node("orders")
    for number in range(4):
        node.producer("alice", f"client {number}", (f"no-{number}-{part}" for part in range(MAX_TOPICS_OF_A_CLIENT)))
    node.producer("bob", "client", ["orders", "paid", "missing"])
    assert await node.checked() == [("bob", "orders")]


async def test_each_caller_has_its_share_of_the_topics() -> None:
    node = Node(*ORPHANS)
    node.producer("alice", "client", ORPHANS)
    assert len(await node.checked()) == MAX_TOPICS
    node.producer("bob", "client", ORPHANS[-3:])
    found = await node.checked()
    assert len(found) == MAX_TOPICS
    assert {topic for user, topic in found if user == "bob"} == set(ORPHANS[-3:])
    checks = dict(node.checks._checks)
    node.producer("alice", "client", ORPHANS)  # a client tells its settings again and again
    await node.checked()
    assert node.checks._checks == checks, "no checks end and begin without a reason"


async def test_a_node_tells_once_that_it_leaves_out_topics(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(*ORPHANS)
    session = node.producer("alice", "client", ORPHANS)
    for _ in range(2):
        await node.checked()
        await node.checked()
        node.producers.forget(session)
        assert await node.checked() == []
        node.producers.name(session, ORPHANS)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert told[0].startswith(f"this node answers checks of transactions for {MAX_TOPICS} topics")


async def test_hosts_of_callers_without_proof_share_the_topics_too() -> None:
    node = Node(*ORPHANS)
    node.producer("alice", "client", ORPHANS).holder = "10.0.0.8"
    node.producer("alice", "other client", [ORPHANS[0], *ORPHANS[-3:]]).holder = "10.0.0.9"
    assert set(ORPHANS[-3:]) <= {topic for _, topic in await node.checked()}


async def test_a_front_answers_all_checks_by_its_name() -> None:
    node = Node("orders", "refunds")
    node.producer("alice", "client", ["orders", "refunds"])
    assert len(await node.checked()) == 2
    assert {cast(Any, checks).name for _, checks in node.checks._checks.values()} == {"front 1"}


async def test_all_checks_of_a_client_come_over_its_newest_stream() -> None:
    client = Node("orders").producer("alice", "client", ["orders"])
    client.streams = {"old": asyncio.Queue(2), "new": asyncio.Queue(2)}
    assert [client.command(service_pb2.TelemetryCommand()) for _ in range(3)] == [True, True, False]
    assert [stream.qsize() for stream in client.streams.values()] == [0, 2]


async def test_a_topic_has_checks_while_one_of_its_producers_has_a_stream() -> None:
    node = Node("orders")
    first, second = (node.producer("alice", client, ["orders"]) for client in ("first", "second"))
    assert await node.checked() == [("alice", "orders")]
    ((_, checks),) = cast("Any", node.checks._checks.values())
    first.streams.clear()
    await node.checked()
    assert not checks.is_stopped
    assert node.producers.of("alice", "orders") == [second]
    node.sessions.end(second)
    assert await node.checked() == []
    assert checks.is_stopped


async def test_a_producer_that_is_silent_is_not_asked_although_its_stream_is_open() -> None:
    """The stream of a producer whose machine was lost stays open, and would take each check."""
    node = Node("orders")
    lost, alive = (node.producer("alice", client, ["orders"]) for client in ("lost", "alive"))
    node.now_s += ALIVE_S + 1
    node.producer("alice", "alive", ["orders"])
    assert node.producers.of("alice", "orders") == [alive]
    assert await node.checked() == [("alice", "orders")]
    node.now_s += ALIVE_S + 1
    assert lost.streams
    assert await node.checked() == [], "another node with a producer that lives gets the checks"
    node.producer("alice", "lost", ["orders"])  # it was only suspended
    assert await node.checked() == [("alice", "orders")]


async def test_other_work_has_turns_while_a_node_looks_at_many_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOKS_IN_A_TURN", 100)
    node, turns = Node(), 0
    node.producer("alice", "client", ORPHANS)

    async def other_work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(other_work())
    await node.checked()
    other.cancel()
    assert turns >= len(ORPHANS) // 100


async def test_the_names_of_one_caller_have_a_limit_until_its_producers_end() -> None:
    node, most = Node(), MAX_NAMED_OF_A_CALLER
    names = [str(number) for number in range(most)]
    node.producer("alice", "client 1", names[:-5])
    second = node.producer("alice", "client 2", ["a", "b", "c", "d", "e"])
    with pytest.raises(BusyError, match=r"remembers no more topics .*: alice has 100000"):
        node.producer("alice", "client 3", ["orders"])
    node.producer("bob", "client", ["orders"])
    node.producers.name(second, ["a", "b", "c", "d", "z"])  # one name for another
    with pytest.raises(BusyError):
        node.producers.name(second, ["a", "b", "c", "d", "f", "g"])
    assert node.producers.named == most + 1, "a refusal replaces nothing"
    assert second.topics == {"a", "b", "c", "d", "z"}
    assert ("alice", "f") not in list(node.producers)
    for session in node.sessions:
        session.streams.clear()
    node.now_s += FORGET_S + 1
    node.sessions.forget_silent()
    assert (node.producers.named, list(node.producers)) == (0, [])


def test_callers_take_turns_and_no_place_is_taken_twice() -> None:
    a, b = ([(user, str(number)) for number in range(5)] for user in "ab")
    assert [*in_turns([a, b[:1], a], 5)] == [a[0], b[0], a[1], a[2], a[3]]
    assert [*in_turns([a, b], 100)] == [each for pair in zip(a, b, strict=True) for each in pair]
