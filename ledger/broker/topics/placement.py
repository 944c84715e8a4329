"""Chooses the shards of new queues and the nodes of new shards. Pure functions.

A new queue goes to the shard with the fewest queues, and a new shard to the nodes with the fewest replicas, in
different machine rooms if that can be had. Existing queues never move, and existing shards move as
`ledger/broker/placement` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace

# Replicas of each shard except shard 0, which has a replica on every node.
REPLICAS = 3


def place_queues(count: int, shards: Sequence[int], placed: Iterable[int]) -> tuple[int, ...]:
    """Return the shards of `count` new queues. Each queue goes to the shard with the fewest queues. If several
    shards have equally few queues, the queue goes to the shard with the lowest number. `placed` has the shard of
    each existing queue."""
    queues = Counter(dict.fromkeys(shards, 0))
    queues.update(shard for shard in placed if shard in queues)
    least = [(queues[shard], shard) for shard in shards]
    heapify(least)
    chosen = []
    for _ in range(count):
        number, shard = least[0]
        heapreplace(least, (number + 1, shard))
        chosen.append(shard)
    return tuple(chosen)


def place_shard(
    shard: int,
    nodes: Iterable[int],
    others: Iterable[Sequence[int]],
    rooms: Mapping[int, str] | None = None,
    replicas: int = REPLICAS,
) -> tuple[int, ...]:
    """Return the nodes of a new shard. Each is in a machine room that the shard does not use yet, as long as there is
    one, and has the fewest replicas. The first of the returned nodes is the preferred leader.

    Nodes with equally many replicas are chosen in the order of their numbers, and this order begins at another node
    for the next shard. `others` has the nodes of each existing shard except shard 0. `rooms` has the machine rooms of
    the nodes, as far as they are known. Nodes without a room count as if each had its own."""
    ordered = sorted(nodes)
    placed = Counter(node for each in others for node in each)
    turned = [ordered[(shard + place) % len(ordered)] for place in range(len(ordered))]
    left = sorted(turned, key=lambda node: placed[node])
    chosen: list[int] = []
    used: Counter[str] = Counter()
    while left and len(chosen) < replicas:
        best = min(left, key=lambda node: used[_room(rooms, node)])  # the first of those that are equally good
        left.remove(best)
        chosen.append(best)
        used[_room(rooms, best)] += 1
    return tuple(chosen)


def _room(rooms: Mapping[int, str] | None, node: int) -> str:
    """Return the room of a node, or a name for the node alone."""
    return (rooms or {}).get(node) or f"node {node}"
