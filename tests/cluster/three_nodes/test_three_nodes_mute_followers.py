"""Tests of followers whose answers to the leader's entries are lost, although they answer heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from cluster.health import health_of, rows_of
from ledgermq import AsyncAdmin
from raft.core import AppendResponse, RaftMessage
from raft.transport.grpc_transport import GrpcTransport
from tests.cluster.fleet import Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.scrape import not_ready, reason_not_ready, scrape
from tests.cluster.waiter import eventually


def transport_of(fleet: Fleet, node: int) -> GrpcTransport:
    running = fleet.running[node]._shards.first._running
    assert running is not None
    assert isinstance(running.transport, GrpcTransport)
    return running.transport


def swallow_on_present_streams(fleet: Fleet, node: int, leader: int) -> None:
    """Lose the node's answers to the leader on the streams that are open now."""
    transport_of(fleet, node)._append_answers[leader].put = lambda message: None  # type: ignore[method-assign]


def swallow_always(monkeypatch: pytest.MonkeyPatch, fleet: Fleet, node: int, leader: int) -> None:
    """Lose the node's answers to the leader on all streams."""
    transport = transport_of(fleet, node)
    send: Callable[[RaftMessage], None] = transport.send

    def swallowing(message: RaftMessage) -> None:
        if not (isinstance(message, AppendResponse) and message.receiver == leader):
            send(message)

    monkeypatch.setattr(transport, "send", swallowing)


async def formed(make_fleet: MakeFleet) -> tuple[Fleet, int, list[int], int]:
    fleet = make_fleet(3, spread_leaders=False)
    await fleet.start()
    leader = await fleet.leader()
    topic = await fleet.create_topic()
    await fleet.level()
    return fleet, leader, [node for node in fleet.nodes if node != leader], topic


async def test_the_leader_opens_the_streams_again_and_writes_go_on(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, the leader asked again and again on the same streams, and all writes waited for ever."""
    fleet, leader, followers, topic = await formed(make_fleet)
    term = (await fleet.status(leader)).term
    for node in followers:
        swallow_on_present_streams(fleet, node, leader)
    async with asyncio.timeout(10):
        assert error_of(await fleet.produce(leader, sample_batch(topic))) is None
    assert (await fleet.leader(), (await fleet.status(leader)).term) == (leader, term)
    assert (await scrape(fleet.http(leader)))["ledgermq_raft_streams_reopened_total"] >= 1
    assert len([line for line in caplog.messages if "acknowledges no entries" in line]) == 1
    await fleet.level()
    assert not await not_ready(fleet.http(leader))


async def test_a_leader_that_nobody_acknowledges_says_so_and_another_node_leads(
    make_fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, all writes waited for ever, the lag was 0 and all nodes were ready."""
    fleet, leader, followers, topic = await formed(make_fleet)
    for node in followers:
        swallow_always(monkeypatch, fleet, node, leader)
    waiting = asyncio.create_task(fleet.produce(leader, sample_batch(topic)))

    reason = await reason_not_ready(fleet.http(leader), "answer heartbeats and acknowledge no entries")
    assert f"nodes {followers[0]}, {followers[1]}" in reason
    assert (await scrape(fleet.http(leader))).of("ledgermq_raft_unacknowledged", shard="0") == 1
    async with AsyncAdmin(fleet.bootstrap) as admin:
        rows = rows_of(list(await admin.cluster()))
    assert {row.node: row.unacknowledged_by for row in rows}[leader] == tuple(followers)
    assert health_of(rows).status == "unavailable"

    async def another() -> int:
        statuses = await fleet.statuses()
        return next((node for node in followers if statuses[node].role == "leader"), 0)

    successor = await eventually(another, "another node leads")
    assert error_of(await waiting) is not None, "the old leader does not know whether the batch is committed"
    assert any("a majority acknowledged nothing" in line for line in caplog.messages)

    async def takes_writes() -> bool:
        return error_of(await fleet.produce(successor, sample_batch(topic, producer_id=8))) is None

    await eventually(takes_writes, "the new leader commits")
    await fleet.level()
    assert [await not_ready(fleet.http(node)) for node in fleet.nodes] == ["", "", ""]
