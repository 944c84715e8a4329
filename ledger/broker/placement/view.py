"""What the leader of shard 0 knows about the nodes and about the members of all shards, when it plans moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ledger.state.placement_table import NodeDrain, ReplicaMove
from ledger.topics import TOPICS_SHARD

# A node that was silent for so long is not counted on any more. It is gone much later.
LOST_MS = 3_000


@dataclass(frozen=True, slots=True)
class PlacedReplica:
    """One replica of a shard, as the shard's leader sees it. `answers` is True if the leader hears the node.
    `lag_bytes` are the committed bytes that the replica lacks."""

    node: int
    is_voter: bool
    answers: bool = True
    is_intact: bool = True
    caught_up: bool = True
    lag_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PlacedShard:
    """The members of one shard, by node. `size` is the size of its log in bytes. `preferred` is the voter that leads
    the shard whenever it can, or 0. `is_pinned` is True if an operator wants that."""

    shard: int
    leader: int
    replicas: Mapping[int, PlacedReplica]
    size: int = 0
    preferred: int = 0
    is_pinned: bool = False

    @property
    def voters(self) -> list[int]:
        return [node for node, replica in self.replicas.items() if replica.is_voter]


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node of the cluster. `room` is its machine room, or "" if none is known. `silent_ms` says how long the leader
    of shard 0 has not heard it. The node is *gone* if that is longer than the setting `replace_after_ms`."""

    node: int
    address: str
    room: str = ""
    silent_ms: float = 0
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class PlacementView:
    """The whole cluster. A shard is missing if its leader did not answer; it is left alone then."""

    nodes: Mapping[int, ClusterNode]
    shards: Mapping[int, PlacedShard]
    # How many replicas a shard shall have, and whether an operator has said so.
    wanted: int
    is_exact: bool = False
    # The same for shards for which an operator has said a number of their own.
    wanted_of: Mapping[int, int] = field(default_factory=dict)
    is_balancing: bool = False
    drains: Mapping[int, NodeDrain] = field(default_factory=dict)
    moves: Mapping[int, ReplicaMove] = field(default_factory=dict)

    def wanted_in(self, shard: int) -> int:
        """Return how many replicas this shard shall have."""
        return self.wanted_of.get(shard, self.wanted)

    def is_exact_in(self, shard: int) -> bool:
        """Return True if an operator has said how many replicas this shard shall have."""
        return self.is_exact or shard in self.wanted_of

    def is_lost(self, node: int) -> bool:
        """Return True if the node has been silent for long enough to say that its replicas are lost, until it is heard
        again."""
        return node not in self.nodes or self.nodes[node].silent_ms >= LOST_MS

    @property
    def gone(self) -> list[int]:
        return [node for node, each in self.nodes.items() if each.is_gone]

    def is_gone(self, node: int) -> bool:
        """Return True if the node is gone, or is no node of the cluster any more."""
        return node not in self.nodes or self.nodes[node].is_gone

    def room_of(self, node: int) -> str:
        return self.nodes[node].room if node in self.nodes else ""

    def is_usable(self, node: int) -> bool:
        """Return True if the node can get a new replica."""
        known = self.nodes.get(node)
        return known is not None and not known.is_gone and known.silent_ms == 0 and node not in self.drains

    def data_shards(self) -> list[PlacedShard]:
        """Return the shards except shard 0, which has a replica on each node."""
        return [shard for number, shard in sorted(self.shards.items()) if number != TOPICS_SHARD]
