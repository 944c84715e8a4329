"""The fewest bytes that a scenario can move.

Loss of nodes, for ever or by a drain: each replica on those nodes must be made anew on another node, and a new replica
needs each byte of its shard's log. So the least is the sum of the logs of all replicas on the nodes.

More nodes: with R replicas on N nodes, the balance is reached when each node has floor(R / N) or ceil(R / N) replicas.
Each node with fewer than floor needs the missing ones, and each node with more than ceil must give the surplus away. A
move adds one replica and removes one, so at least max(missing, surplus) replicas move, and at least the smallest ones.
A node can give each of its replicas once, so the sum of the smallest replicas of the whole cluster is a lower bound. It
may not be reachable: a node cannot have two replicas of a shard, and rooms limit the choice. The planner does not aim
at it, because nodes with only the smallest replicas would have too few bytes. Each new node also needs the log of
shard 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from chaos.sim.scale.shard import ScaleShard
from ledger.topics import TOPICS_SHARD


def least_to_leave(shards: Iterable[ScaleShard], nodes: Collection[int]) -> tuple[int, int]:
    """Return the least bytes and moves of replicas if these nodes leave. Shard 0 has a replica on each other node
    already."""
    leaving = [
        shard.size for shard in shards if shard.number != TOPICS_SHARD for node in voters_of(shard) if node in nodes
    ]
    return sum(leaving), len(leaving)


def least_moves_to_balance(shards: Iterable[ScaleShard], nodes: Collection[int]) -> int:
    """Return the least number of moves after which each of these nodes has equally many replicas, or one more."""
    replicas = Counter(dict.fromkeys(nodes, 0))
    for shard in shards:
        if shard.number != TOPICS_SHARD:
            replicas.update(voters_of(shard))
    floor, rest = divmod(sum(replicas.values()), len(nodes))
    ceil = floor + bool(rest)
    missing = sum(max(0, floor - count) for count in replicas.values())
    return max(missing, sum(max(0, count - ceil) for count in replicas.values()))


def least_to_balance(shards: Collection[ScaleShard], nodes: Collection[int]) -> int:
    """Return the least bytes to move until replicas are balanced over these nodes."""
    sizes = sorted(shard.size for shard in shards if shard.number != TOPICS_SHARD for _ in voters_of(shard))
    return sum(sizes[: least_moves_to_balance(shards, nodes)])


def voters_of(shard: ScaleShard) -> tuple[int, ...]:
    """Return the voters of a shard, as its leader knows them, or those that any of its servers knows."""
    server = shard.leader or next(iter(shard.servers.values()))
    return server.raft.configuration.voters
