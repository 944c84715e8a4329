"""Which leaders the cluster lets shards prefer, so that the nodes lead equally many."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

from ledger.broker.placement.leaders import leader_changes
from ledger.broker.placement.view import ClusterNode, PlacedReplica, PlacedShard, PlacementView
from ledger.state.placement_table import NodeDrain


def shard(number: int, voters: tuple[int, ...], preferred: int, *, is_pinned: bool = False) -> PlacedShard:
    replicas = {node: PlacedReplica(node, is_voter=True) for node in voters}
    return PlacedShard(number, preferred or voters[0], replicas, 100, preferred, is_pinned)


def view(*shards: PlacedShard, nodes: int = 4, drained: tuple[int, ...] = ()) -> PlacementView:
    return PlacementView(
        nodes={node: ClusterNode(node, f"node-{node}:1") for node in range(1, nodes + 1)},
        shards={each.shard: each for each in shards},
        wanted=3,
        drains={node: NodeDrain(node, False) for node in drained},
    )


def leads(given: PlacementView) -> dict[int, int]:
    """Return how many shards each node leads after the changes."""
    changes = leader_changes(given)
    found = Counter(dict.fromkeys(given.nodes, 0))
    found.update(changes.get(each.shard, each.preferred) for each in given.shards.values())
    return dict(found)


def test_the_nodes_lead_equally_many() -> None:
    crowded = view(*(shard(number, (1, 2, 3), 1) for number in range(6)), nodes=3)
    assert leads(crowded) == {1: 2, 2: 2, 3: 2}
    balanced = view(shard(0, (1, 2, 3), 2), shard(1, (1, 2, 3), 1), nodes=3)
    assert leader_changes(balanced) == {}, "a difference of one is no reason for a change"


def test_a_change_can_need_another_one() -> None:
    """Node 1 leads three shards and has no replica in common with node 4. Node 2 takes one, and gives one to node 4."""
    chain = view(shard(1, (1, 2), 1), shard(2, (1, 2), 1), shard(3, (1, 2), 1), shard(4, (2, 4), 2), shard(5, (3,), 3))
    assert leads(chain) == {1: 2, 2: 1, 3: 1, 4: 1}


def test_pinned_leaders_stay_and_drained_nodes_get_none() -> None:
    pinned = view(*(shard(number, (1, 2, 3), 1, is_pinned=True) for number in range(3)), nodes=3)
    assert leader_changes(pinned) == {}
    drained = view(*(shard(number, (1, 2, 3), 1) for number in range(4)), nodes=3, drained=(3,))
    assert leads(drained) == {1: 2, 2: 2, 3: 0}
    assert leader_changes(view(shard(1, (1, 2, 3), 0), shard(2, (1, 2, 3), 0))) == {}, "they prefer no leader"


def test_no_other_choice_of_leaders_is_more_equal() -> None:
    for seed in range(60):
        chance = Random(seed)
        shards = [(number, tuple(chance.sample(range(1, 6), 3))) for number in range(6)]
        given = view(*(shard(number, voters, voters[0]) for number, voters in shards), nodes=5)
        found = max(leads(given).values())
        choices = product(*(voters for _, voters in shards))
        assert found == min(max(Counter(choice).values()) for choice in choices), f"seed {seed}"
