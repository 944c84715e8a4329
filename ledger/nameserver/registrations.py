"""Stores the newest report of each node that has registered with a name server, and computes routes from all reports.

    node 1   routes, 12 s ago     ┐
    node 2   routes,  3 s ago     ├──> nodes of the newest configuration, newest leader of each shard, newest topics
    node 3   (its stream ended)   ┘

A name server drops reports that are older than two minutes. A name server stores nothing on disk, because after its
restart the nodes report again. Name servers do not communicate with each other.

Without proofs, every program can register. So the number of nodes and the bytes of their reports are bounded, and each
stream reports the routes of one node only (service.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ledger.v1 import broker_pb2

MAX_NODES = 1000
# The serialized reports of all nodes together, in bytes. 5,000 topics with 16 queues each are 250 KB.
MAX_BYTES = 512 << 20
# How long a report is valid; RocketMQ's value.
LIFETIME_MS = 120_000


@dataclass(frozen=True, slots=True)
class _Said:
    routes: broker_pb2.GetRouteResponse
    size: int
    at_ms: float
    # The stream that delivered the report. The end of an older stream does not remove a newer report.
    stream: object


class Registrations:
    """Keeps the newest report of each node of one cluster. While no node is registered, a node of any cluster can
    register. After the first registration, only nodes of the same cluster can register."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._said: dict[int, _Said] = {}

    @property
    def cluster(self) -> str:
        """The name of the cluster, or "" while no node is registered."""
        return next((said.routes.cluster for said in self._living().values()), "")

    def __len__(self) -> int:
        return len(self._living())

    def register(self, node: int, routes: broker_pb2.GetRouteResponse, stream: object) -> str:
        """Store the report of a node, and return an empty string. If the report is refused, return the reason."""
        if self.cluster not in ("", routes.cluster):
            return (
                f"this name server serves cluster {self.cluster!r}, not {routes.cluster!r}: correct the node's "
                f"`nameservers`"
            )
        if node not in self._said and len(self._said) >= MAX_NODES:
            return (
                f"this name server has {len(self._said)} nodes already, which is the limit: "
                "stop a node, or use another name server"
            )
        size = routes.ByteSize()
        if (held := self._bytes_without(node)) + size > MAX_BYTES:
            return (
                f"this name server holds {held:,} bytes of other nodes' routes already, and can hold {MAX_BYTES:,} in "
                f"all, so it has no room for the {size:,} bytes of node {node}: use another name server"
            )
        self._said[node] = _Said(routes, size, self._monotonic_ms(), stream)
        return ""

    def forget(self, node: int, stream: object) -> None:
        """Remove the report of a node whose stream has ended, unless a newer stream has replaced it."""
        said = self._said.get(node)
        if said is not None and said.stream is stream:
            del self._said[node]

    def _bytes_without(self, node: int) -> int:
        """Return the bytes of all reports except that of this node, which a new report replaces."""
        return sum(said.size for other, said in self._said.items() if other != node)

    def routes(self, topics: Collection[str]) -> broker_pb2.GetRouteResponse:
        """Return the routes of the given topics, or of all topics if `topics` is empty. If no node has reported its
        routes, the response has no nodes."""
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
    """Return the machine room of the node from the node's own report, or None if the report has no room."""
    return next((each.room for each in routes.nodes if each.node == node and each.HasField("room")), None)


def _outside(known: Collection[broker_pb2.GetRouteResponse]) -> dict[int, str]:
    """Return the outside address of each node for which a report has an outside address."""
    return {each.node: each.outside_address for routes in known for each in routes.nodes if each.outside_address}


def _leaders(known: Collection[broker_pb2.GetRouteResponse]) -> list[broker_pb2.ShardRoute]:
    """Return, for each shard, the reported route with the highest term. If two routes of a shard have the same
    term, prefer the route that names a leader."""
    shards: dict[int, broker_pb2.ShardRoute] = {}
    for routes in known:
        for shard in routes.shards:
            best = shards.get(shard.shard)
            if best is None or (shard.term, shard.leader != 0) > (best.term, best.leader != 0):
                shards[shard.shard] = shard
    return [shards[number] for number in sorted(shards)]
