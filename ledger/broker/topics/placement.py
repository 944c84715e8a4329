"""Chooses the shards of new queues and the nodes of new shards. Pure functions.

A new queue goes to the shard with the fewest queues, and a new shard to the nodes with the fewest replicas. Existing
queues and shards never move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

# Replicas of each shard except shard 0, which has a replica on every node.
REPLICAS = 3


def place_queues(count: int, shards: Sequence[int], placed: Iterable[int]) -> tuple[int, ...]:
    """Return the shards of `count` new queues. Each queue goes to the shard with the fewest queues. If several
    shards have equally few queues, the queue goes to the shard with the lowest number. `placed` has the shard of
    each existing queue."""
    queues = Counter(dict.fromkeys(shards, 0))
    queues.update(shard for shard in placed if shard in queues)
    chosen = []
    for _ in range(count):
        least = min(shards, key=lambda shard: (queues[shard], shard))
        queues[least] += 1
        chosen.append(least)
    return tuple(chosen)


def place_shard(shard: int, nodes: Iterable[int], others: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the nodes of a new shard, which are the nodes with the fewest replicas. The first of the returned nodes
    is the preferred leader.

    Nodes with equally many replicas are chosen in the order of their numbers, and this order begins at another node
    for the next shard. `others` has the nodes of each existing shard except shard 0."""
    ordered = sorted(nodes)
    replicas = Counter(node for each in others for node in each)
    turned = [ordered[(shard + place) % len(ordered)] for place in range(len(ordered))]
    return tuple(sorted(turned, key=lambda node: replicas[node])[:REPLICAS])
