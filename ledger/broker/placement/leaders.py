"""Plans which nodes should lead the shards, so that the nodes lead equally many: a pure function."""

from __future__ import annotations

from collections import Counter, defaultdict, deque

from ledger.broker.placement.view import PlacedShard, PlacementView


def leader_changes(view: PlacementView) -> dict[int, int]:
    """Return the shards that should get another preferred leader, and that leader. With these changes, the numbers of
    shards that the nodes lead are as equal as the places of the replicas let them be, and no change is in vain.

    A shard whose leader is pinned, or that prefers no leader, stays as it is."""
    preferred = {number: shard.preferred for number, shard in view.shards.items() if shard.preferred}
    leads = Counter(dict.fromkeys(filter(view.is_usable, view.nodes), 0))
    leads.update(preferred.values())
    movable = {number: _possible(view, shard) for number, shard in sorted(view.shards.items()) if _is_movable(shard)}
    changes: dict[int, int] = {}
    while chain := _chain(leads, preferred, movable):
        for shard, to in chain:
            leads[preferred[shard]] -= 1
            leads[to] += 1
            preferred[shard] = changes[shard] = to
    return {shard: to for shard, to in sorted(changes.items()) if to != view.shards[shard].preferred}


def _is_movable(shard: PlacedShard) -> bool:
    return shard.preferred > 0 and not shard.is_pinned


def _possible(view: PlacementView, shard: PlacedShard) -> list[int]:
    """Return the voters of the shard that could lead it for long."""
    return [node for node in shard.voters if view.is_usable(node) and shard.replicas[node].is_intact]


def _chain(leads: Counter[int], preferred: dict[int, int], movable: dict[int, list[int]]) -> list[tuple[int, int]]:
    """Return changes that take one shard from a node with many and give one to the node with the fewest that can be
    reached, directly or over nodes between them. Return [] if no node has at least two more than such a node."""
    led: defaultdict[int, list[int]] = defaultdict(list)
    for shard in movable:
        led[preferred[shard]].append(shard)
    for full in sorted(leads, key=lambda node: (-leads[node], node)):
        came: dict[int, tuple[int, int]] = {full: (0, 0)}
        waiting = deque([full])
        while waiting:
            node = waiting.popleft()
            for shard in led[node]:
                for to in movable[shard]:
                    if to not in came:
                        came[to] = (shard, node)
                        waiting.append(to)
        least = min(came, key=lambda node: leads[node])  # the nearest of them
        if leads[full] - leads[least] >= 2:
            return _back(came, full, least)
    return []


def _back(came: dict[int, tuple[int, int]], full: int, node: int) -> list[tuple[int, int]]:
    """Return the changes of the chain that ends at this node."""
    chain = []
    while node != full:
        shard, before = came[node]
        chain.append((shard, node))
        node = before
    return chain
