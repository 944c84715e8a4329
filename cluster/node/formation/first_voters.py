"""The first voters of a shard, and the voter that is preferred as its leader.

Every node computes the preferred leader from the voters, without a request to another node. The preferred leader of
shard g is voter number g modulo the number of voters, in the order of node ids. The preferred leader also writes entry
1 of the shard. A voter that an operator has pinned (`ledger/state/pinned_leader.py`) is preferred instead, or one that
the cluster has chosen so that the nodes lead equally many shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cluster.node.settings import NodeSettings
from raft.core.settings import Prefer, no_preference


@dataclass(frozen=True, slots=True)
class FirstVoters:
    """The nodes with which a shard begins, and how to find their addresses."""

    voters: tuple[int, ...]
    # The address of a node; empty while no node with this number is a member of the cluster.
    address: Callable[[int], str]


def first_shard(settings: NodeSettings) -> FirstVoters:
    """Return the first voters of shard 0: all nodes in the setting `peers`."""
    return FirstVoters(tuple(sorted(settings.peers)), settings.peers.__getitem__)


def in_turn(shard: int, voters: Sequence[int]) -> int:
    """Return the voter that writes entry 1 of the shard and is the preferred leader of the shard. `voters` must not
    be empty."""
    return sorted(voters)[shard % len(voters)]


def preferred(shard: int, settings: NodeSettings, pinned: Callable[[], int], balanced: Callable[[], int]) -> Prefer:
    """Return a function that computes the preferred leader of the shard from its present voters. `pinned()` returns the
    voter that an operator has pinned as the leader of the shard, or 0. `balanced()` returns the voter that the cluster
    has chosen for the balance, or 0."""
    unpinned = _without_pin(shard, settings, balanced)
    return lambda voters: pinned() or unpinned(voters)


def _without_pin(shard: int, settings: NodeSettings, balanced: Callable[[], int]) -> Prefer:
    if settings.preferred_leader:
        return lambda _: settings.preferred_leader
    if not settings.spread_leaders or (shard == 0 and settings.shards == 1):
        return no_preference
    return lambda voters: balanced() or in_turn(shard, voters)
