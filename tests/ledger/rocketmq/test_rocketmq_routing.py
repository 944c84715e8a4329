"""Which nodes the routes and assignments name for a client that takes one address for each queue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

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
