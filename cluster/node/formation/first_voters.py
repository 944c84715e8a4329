"""On which nodes a shard begins, and who of them is to lead it.

Both follow from what every node knows, so nobody need be asked: shard g is to be led by the g-th of its voters in
turn, and that one begins it too, so it leads from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cluster.node.settings import NodeSettings
from raft.core.settings import Prefer, no_preference


@dataclass(frozen=True, slots=True)
class FirstVoters:
    """The nodes that a shard begins on."""

    voters: tuple[int, ...]
    address: Callable[[int], str]
    """Where one of them is; empty while no node of that number is a member of the cluster."""


def first_shard(settings: NodeSettings) -> FirstVoters:
    """Of shard 0: all nodes of the first start."""
    return FirstVoters(tuple(sorted(settings.peers)), settings.peers.__getitem__)


def in_turn(shard: int, voters: Sequence[int]) -> int:
    """The voter whose turn it is to begin, and to lead, that shard. There is one."""
    return sorted(voters)[shard % len(voters)]


def preferred(shard: int, settings: NodeSettings) -> Prefer:
    """Who is to lead that shard, as its voters come and go."""
    if settings.preferred_leader:
        return lambda _: settings.preferred_leader
    if not settings.spread_leaders or (shard == 0 and settings.shards == 1):
        return no_preference
    return lambda voters: in_turn(shard, voters)
