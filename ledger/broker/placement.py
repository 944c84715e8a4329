"""Where new queues and new groups go. Pure.

The one idea: what is new goes where there is least, and among equals to the next in order; what is there stays.
It must not know how anything gets there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

REPLICAS = 3
"""Of each group but 0, which is on every node."""


def place_queues(count: int, groups: Sequence[int], placed: Iterable[int]) -> tuple[int, ...]:
    """The groups of so many new queues: each goes to the group with the fewest, the lowest number among equals.
    `placed`: the group of each queue that there is."""
    queues = Counter(dict.fromkeys(groups, 0))
    queues.update(group for group in placed if group in queues)
    chosen = []
    for _ in range(count):
        least = min(groups, key=lambda group: (queues[group], group))
        queues[least] += 1
        chosen.append(least)
    return tuple(chosen)


def place_group(group: int, nodes: Iterable[int], others: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """The nodes that a new group begins on, the one first that is to lead it: those with the fewest replicas, among
    equals in the order of their numbers, beginning with another one for each group. `others`: the nodes of each group
    but 0."""
    ordered = sorted(nodes)
    replicas = Counter(node for each in others for node in each)
    turned = [ordered[(group + place) % len(ordered)] for place in range(len(ordered))]
    return tuple(sorted(turned, key=lambda node: replicas[node])[:REPLICAS])
