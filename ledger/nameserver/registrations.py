"""The reports that nodes sent to a name server, and the routes that follow from all of them.

    node 1   routes, 12 s ago   ┐
    node 2   routes,  3 s ago   ├──> the newest configuration's nodes, each shard's newest leader, the newest topics
    node 3   (its stream broke) ┘

Reports older than two minutes are dropped. So a name server can be lost and start again without data, and name servers
need not know each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ledger.v1 import broker_pb2

MAX_NODES = 1000
# RocketMQ's.
LIFETIME_MS = 120_000


@dataclass(frozen=True, slots=True)
class _Said:
    routes: broker_pb2.GetRouteResponse
    at_ms: float
    # By which it came: an older one that breaks late takes nothing with it.
    stream: object


class Registrations:
    """Of the nodes of one cluster, which is that of the first node that registers."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._said: dict[int, _Said] = {}

    @property
    def cluster(self) -> str:
        """Empty while nobody has registered."""
        return next((said.routes.cluster for said in self._living().values()), "")

    def __len__(self) -> int:
        return len(self._living())

    def register(self, node: int, routes: broker_pb2.GetRouteResponse, stream: object) -> str:
        """Why this node is not taken in; empty where it is."""
        if self.cluster not in ("", routes.cluster):
            return f"this name server serves cluster {self.cluster!r}, not {routes.cluster!r}"
        if node not in self._said and len(self._said) >= MAX_NODES:
            return f"this name server knows {len(self._said)} nodes, as many as it may"
        self._said[node] = _Said(routes, self._monotonic_ms(), stream)
        return ""

    def forget(self, node: int, stream: object) -> None:
        """That stream has ended."""
        said = self._said.get(node)
        if said is not None and said.stream is stream:
            del self._said[node]

    def routes(self, topics: Collection[str]) -> broker_pb2.GetRouteResponse:
        """Of these topics; of all where there are none."""
        known = [said.routes for said in self._living().values()]
        response = broker_pb2.GetRouteResponse(cluster=self.cluster)
        if not known:
            return response
        newest = max(known, key=lambda routes: routes.configuration_index)
        response.configuration_index = newest.configuration_index
        rooms = {node: _own_room(node, said.routes) for node, said in self._said.items()}
        outside = _outside(known)
        for each in newest.nodes:
            told = each.outside_address or outside.get(each.node, "")
            response.nodes.add(node=each.node, address=each.address, room=rooms.get(each.node), outside_address=told)
        response.max_message_bytes = max(routes.max_message_bytes for routes in known)
        response.coordinators = max(routes.coordinators for routes in known)
        response.shards.extend(_leaders(known))
        informed = max(known, key=lambda routes: routes.topics_index)
        response.topics_index = informed.topics_index
        response.topics.extend(topic for topic in informed.topics if not topics or topic.name in topics)
        return response

    def _living(self) -> dict[int, _Said]:
        oldest = self._monotonic_ms() - LIFETIME_MS
        if any(said.at_ms < oldest for said in self._said.values()):
            self._said = {node: said for node, said in self._said.items() if said.at_ms >= oldest}
        return self._said


def _own_room(node: int, routes: broker_pb2.GetRouteResponse) -> str | None:
    """The machine room that this node says it is in; None where it says nothing."""
    return next((each.room for each in routes.nodes if each.node == node and each.HasField("room")), None)


def _outside(known: Collection[broker_pb2.GetRouteResponse]) -> dict[int, str]:
    """Where clients from outside reach nodes, as far as any node knows."""
    return {each.node: each.outside_address for routes in known for each in routes.nodes if each.outside_address}


def _leaders(known: Collection[broker_pb2.GetRouteResponse]) -> list[broker_pb2.ShardRoute]:
    """Of each shard what was said in its newest term; of two of one term, the one that names a leader."""
    shards: dict[int, broker_pb2.ShardRoute] = {}
    for routes in known:
        for shard in routes.shards:
            best = shards.get(shard.shard)
            if best is None or (shard.term, shard.leader != 0) > (best.term, best.leader != 0):
                shards[shard.shard] = shard
    return [shards[number] for number in sorted(shards)]
