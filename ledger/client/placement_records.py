"""What the admin client says about the placement of replicas."""

from __future__ import annotations

from dataclasses import dataclass

# The number of a reason on the wire -> its name.
MOVE_REASONS = {1: "replace", 2: "drain", 3: "balance", 4: "surplus"}


@dataclass(frozen=True, slots=True)
class PlacementNode:
    """A node of the cluster. `room` is its machine room, or "". `silent_ms` says how long the leader of shard 0 has not
    heard it. `gone` is True if that is longer than the setting `replace_after_ms`. `leaving` is True if the node leaves
    the cluster when it is drained."""

    node: int
    room: str
    silent_ms: int
    gone: bool
    draining: bool
    leaving: bool


@dataclass(frozen=True, slots=True)
class PlacementReplica:
    """One replica of a shard. `answers` is True if the shard's leader hears it and trusts its acknowledgements.
    `lag_bytes` are the committed bytes that it lacks."""

    node: int
    voter: bool
    answers: bool
    lag_bytes: int


@dataclass(frozen=True, slots=True)
class PlacementShard:
    """The replicas of one shard. `log_bytes` is the size of its log, and `wanted` the number of replicas that it shall
    have."""

    shard: int
    leader: int
    log_bytes: int
    wanted: int
    replicas: tuple[PlacementReplica, ...]


@dataclass(frozen=True, slots=True)
class PlacementMove:
    """The move of a replica: the shard gets a replica on the node `to`, and then loses that on the node `source`. 0
    means no node. `reason` is "replace", "drain", "balance" or "surplus". `begun_ms` is in ms since 1970, or 0 if the
    move has not begun. `lag_bytes` are the bytes that the new replica lacks. `trouble` says why the last step of the
    move failed, and is "" if it did not."""

    shard: int
    to: int
    source: int
    reason: str
    begun_ms: int
    lag_bytes: int
    trouble: str


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the replicas of all shards are, and what the cluster does about it. A shard whose leader does not answer is
    not in `shards`.

    `replicas` is the number of replicas that each shard shall have, and `replicas_set` says whether an operator has set
    it. `moves` are under way, and `balance` are the first moves that a balance would begin. `leader_changes` is the
    number of shards that would get another preferred leader by a balance. `obstacles` are sentences that say which
    wishes cannot be fulfilled now, and why.
    """

    replicas: int
    replicas_set: bool
    paused: bool
    balancing: bool
    nodes: tuple[PlacementNode, ...]
    shards: tuple[PlacementShard, ...]
    moves: tuple[PlacementMove, ...]
    balance: tuple[PlacementMove, ...]
    leader_changes: int
    obstacles: tuple[str, ...]

    def node(self, node: int) -> PlacementNode | None:
        """Return the node with this number, or None if the cluster has no such node."""
        return next((each for each in self.nodes if each.node == node), None)

    def shards_on(self, node: int) -> list[int]:
        """Return the numbers of the shards that have a replica on the node, without shard 0."""
        return [shard.shard for shard in self.shards if shard.shard and any(r.node == node for r in shard.replicas)]
