"""How often a client asks for routes while its calls fail. The clock is simulated, and the nodes are fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any, cast

import pytest

from chaos.sim.engine.loop import SimLoop
from ledger.client.connection.backoff import Backoff
from ledger.client.connection.channels import Connections
from ledger.client.connection.refresh_pace import OFTEN_S, QUIET_S, RefreshPace
from ledger.client.connection.routes import Routes
from ledger.errors import NoLeaderError
from ledger.v1 import broker_pb2

NODES = ("a:1", "a:2", "a:3")
FIRST_MS, CEILING_MS = 50, 500
# Calls fail this often, in seconds: a client has many of them.
FAILS_EVERY_S = 0.01


class Cluster:
    """Three nodes that name node 1 as the leader of shard 0 in `term`, and a client whose calls to the leader fail."""

    def __init__(self) -> None:
        self.loop = SimLoop()
        self.leader, self.term, self.asked = 1, 1, 0
        self.fails = True
        self.routes = Routes(cast("Connections", self), NODES, Backoff(FIRST_MS, CEILING_MS, Random(1)))
        self.loop.run_until_complete(self.routes.start())
        self._calls = self.loop.create_task(self._call())

    def stub(self, _: str) -> Cluster:
        return self

    async def GetRoute(self, _: Any, *, timeout: float) -> broker_pb2.GetRouteResponse:  # noqa: N802
        self.asked += 1
        response = broker_pb2.GetRouteResponse(cluster="test", configuration_index=1)
        for number, address in enumerate(NODES, 1):
            response.nodes.add(node=number, address=address)
        response.shards.add(shard=0, leader=self.leader, term=self.term)
        return response

    async def _call(self) -> None:
        while True:
            await asyncio.sleep(FAILS_EVERY_S)
            address = self.routes.table.leader_address(0)
            if self.fails and address is not None:
                self.routes.note(0, address, NoLeaderError("no leader is known at the moment"))

    def asks_in(self, seconds: float) -> float:
        """Return how often a second the client asks all nodes for routes, in the next seconds."""
        asked = self.asked
        self.loop.run_until(self.loop.time() + seconds)
        return (self.asked - asked) / len(NODES) / seconds

    def close(self) -> None:
        self._calls.cancel()
        self.loop.run_until_complete(self.routes.close())
        self.loop.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


def test_a_client_whose_leader_stays_away_asks_seldom(cluster: Cluster) -> None:
    assert cluster.asks_in(OFTEN_S) > 10
    cluster.asks_in(2.0)
    assert cluster.asks_in(30.0) < 2 * 1000 / CEILING_MS


def test_an_election_is_noticed_at_once_also_after_a_long_time(cluster: Cluster) -> None:
    cluster.asks_in(60.0)
    cluster.leader, cluster.term = 0, 2
    cluster.asks_in(CEILING_MS / 1000)
    cluster.leader, cluster.term, cluster.fails = 2, 2, False
    cluster.asks_in(CEILING_MS / 1000)
    assert cluster.routes.table.leader_address(0) == NODES[1]
    cluster.fails = True
    assert cluster.asks_in(1.0) > 10  # an election may have been disturbed


def test_the_next_trouble_begins_with_short_waits(cluster: Cluster) -> None:
    cluster.asks_in(60.0)
    cluster.fails = False
    cluster.asks_in(2 * QUIET_S)
    cluster.fails = True
    assert cluster.asks_in(1.0) > 10


def test_the_waits_without_an_answering_leader_double_at_once() -> None:
    pace = RefreshPace(Backoff(FIRST_MS, CEILING_MS, Random(1)))
    pace.begin(10.0)
    waits = [pace.wait_ms(10.0, {0: 1}, in_doubt=True) for _ in range(6)]
    for wait, full in zip(waits, (50, 100, 200, 400, 500, 500), strict=True):
        assert full / 2 <= wait <= full


def test_the_waits_are_short_as_long_as_an_election_takes() -> None:
    pace = RefreshPace(Backoff(FIRST_MS, CEILING_MS, Random(1)))
    pace.begin(10.0)
    assert all(
        pace.wait_ms(10.0 + tenth / 10, {0: 1}, in_doubt=False) <= FIRST_MS for tenth in range(round(OFTEN_S * 10))
    )
    waits = [pace.wait_ms(10.0 + OFTEN_S, {0: 1}, in_doubt=False) for _ in range(5)]
    for wait, full in zip(waits, (100, 200, 400, 500, 500), strict=True):
        assert full / 2 <= wait <= full
