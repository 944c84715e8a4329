"""Where new queues and new shards go. Pure.

What is new goes where there is least, and among equals to the next in order; what is there stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

REPLICAS = 3
"""Of each shard but 0, which is on every node."""


def place_queues(count: int, shards: Sequence[int], placed: Iterable[int]) -> tuple[int, ...]:
    """The shards of so many new queues: each goes to the shard with the fewest, the lowest number among equals.
    `placed`: the shard of each queue that there is."""
    queues = Counter(dict.fromkeys(shards, 0))
    queues.update(shard for shard in placed if shard in queues)
    chosen = []
    for _ in range(count):
        least = min(shards, key=lambda shard: (queues[shard], shard))
        queues[least] += 1
        chosen.append(least)
    return tuple(chosen)


def place_shard(shard: int, nodes: Iterable[int], others: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """The nodes that a new shard begins on, the one first that is to lead it: those with the fewest replicas, among
    equals in the order of their numbers, beginning with another one for each shard. `others`: the nodes of each shard
    but 0."""
    ordered = sorted(nodes)
    replicas = Counter(node for each in others for node in each)
    turned = [ordered[(shard + place) % len(ordered)] for place in range(len(ordered))]
    return tuple(sorted(turned, key=lambda node: replicas[node])[:REPLICAS])
