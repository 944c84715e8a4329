"""What the command line and the console say about moves of replicas."""

from __future__ import annotations

from ledger.client.placement_records import Placement, PlacementMove, PlacementNode

# By the reason of a move: what people read.
REASONS = {
    "replace": "a replica is lost or missing",
    "drain": "the node is drained",
    "balance": "the nodes get equally many",
    "surplus": "the shard has too many",
}


def reason_of(move: PlacementMove) -> str:
    """Return why the replica moves, as a phrase."""
    return REASONS.get(move.reason, move.reason)


def described(move: PlacementMove) -> str:
    """Return the move as a phrase."""
    ways = [f"from node {move.source}"] if move.source else []
    ways += [f"to node {move.to}"] if move.to else []
    lacks = f", {move.lag_bytes / 1e6:,.1f} MB to copy" if move.lag_bytes else ""
    waits = f"; it waits: {move.trouble}" if move.trouble else ""
    return f"Shard {move.shard} {' '.join(ways)} ({reason_of(move)}{lacks}){waits}"


def state_of(node: PlacementNode) -> str:
    """Return the state of a node in one word; "ok" if it can get replicas."""
    states = {"gone": node.gone, "leaving": node.leaving, "draining": node.draining, "silent": node.silent_ms > 0}
    return next((state for state, holds in states.items() if holds), "ok")


def bytes_left(placement: Placement, node: int) -> int:
    """Return the bytes that are to be copied until the node has no replicas: what the new replicas of its moves lack,
    and the whole logs of shards whose replica on the node does not move yet."""
    moving = {move.shard: move.lag_bytes for move in placement.moves if move.source == node}
    sizes = {shard.shard: shard.log_bytes for shard in placement.shards}
    return sum(moving.get(shard, sizes[shard]) for shard in placement.shards_on(node))
