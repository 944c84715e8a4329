"""Which nodes and types of messages the routes and assignments name for a client."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.access.callers import ANYBODY
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RocketmqEndpoint, RoutedTopic
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.routing import query_assignment, query_route
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2

CALL = FrontCall("client@1", "JAVA", ANYBODY, False, "ipv4:10.0.0.9:1", 3.0)
ORDERS = pb.Resource(name="orders")


class RoutedCluster:
    """Three nodes with host names; shard s has the leader `leaders[s]`."""

    def __init__(self, leaders: dict[int, int], shards: tuple[int, ...]) -> None:
        endpoints = {node: RocketmqEndpoint(f"node-{node}:8081", "", "") for node in (1, 2, 3)}
        table = SimpleNamespace(
            cluster="test", rocketmq_endpoints=lambda: endpoints, leader_node=lambda shard: leaders.get(shard, 0)
        )
        self.routes = SimpleNamespace(table=table)
        self._topic = RoutedTopic("orders", 1, shards, 0)

    async def topic(self, name: str) -> RoutedTopic:
        return self._topic


def hosts(queues: list[Any]) -> list[str]:
    for queue in queues:
        assert queue.broker.endpoints.scheme == pb.DOMAIN_NAME
        assert len(queue.broker.endpoints.addresses) == 1
    return [queue.broker.endpoints.addresses[0].host for queue in queues]


async def route(leaders: dict[int, int], *shards: int) -> list[str]:
    cluster = cast("ClusterClient", RoutedCluster(leaders, shards))
    answer = await query_route(service_pb2.QueryRouteRequest(topic=ORDERS), CALL, cluster)
    return hosts(list(answer.message_queues))


async def assignment(leaders: dict[int, int], *shards: int) -> list[str]:
    cluster = cast("ClusterClient", RoutedCluster(leaders, shards))
    request = service_pb2.QueryAssignmentRequest(topic=ORDERS, group=pb.Resource(name="billing"))
    answer = await query_assignment(request, CALL, cluster, by_key=False)
    return hosts([each.message_queue for each in answer.assignments])


async def test_a_queue_has_the_address_of_its_leader() -> None:
    assert await route({0: 2, 1: 3}, 0, 1, 0) == ["node-2", "node-3", "node-2"]


async def test_queues_of_one_leader_take_turns_at_the_nodes() -> None:
    """A client that repeats a send takes the next queue, and must not meet the same node again."""
    assert await route({0: 2, 1: 2}, 0, 1, 0, 1) == ["node-2", "node-3", "node-1", "node-2"]
    assert sorted(await route({}, 0, 0, 0)) == ["node-1", "node-2", "node-3"]


async def test_a_push_consumer_is_given_the_leaders() -> None:
    """So it never waits at a node that has died."""
    assert await assignment({0: 2, 1: 3}, 0, 1, 0) == ["node-2", "node-3"]
    assert await assignment({0: 3, 1: 3}, 0, 1) == ["node-3", "node-3"]


@pytest.mark.parametrize(
    ("language", "version", "knows"),
    [
        ("JAVA", "5.0.0", False),
        ("JAVA", "5.1.0", False),
        ("JAVA", "5.2.0", True),
        ("JAVA", "5.10.1-SNAPSHOT", True),
        ("JAVA", "6.0", True),
        ("JAVA", "", False),
        ("JAVA", "five", False),
        ("JAVA", "9" * 5000 + ".2", False),
        ("DOTNET", "5.2.0", False),
        ("", "", False),
        ("PYTHON", "5.0.1", True),
        ("HTTP", "1.0.8", True),
        ("GO", "5.1.2", True),
        ("RUST", "5.0.0", True),
    ],
)
async def test_a_route_names_no_type_that_the_client_cannot_read(language: str, version: str, knows: bool) -> None:
    """Java's client fails at an unknown type, and then neither sends to the topic nor receives from it."""
    cluster = cast("ClusterClient", RoutedCluster({0: 1}, (0,)))
    call = FrontCall("client@1", language, ANYBODY, False, "ipv4:10.0.0.9:1", 3.0, version)
    route = await query_route(service_pb2.QueryRouteRequest(topic=ORDERS), call, cluster)
    request = service_pb2.QueryAssignmentRequest(topic=ORDERS, group=pb.Resource(name="billing"))
    assignment = await query_assignment(request, call, cluster, by_key=False)
    for queue in (route.message_queues[0], assignment.assignments[0].message_queue):
        assert list(queue.accept_message_types) == [
            pb.NORMAL,
            pb.FIFO,
            pb.DELAY,
            pb.TRANSACTION,
            *([pb.PRIORITY] if knows else ()),
        ]
