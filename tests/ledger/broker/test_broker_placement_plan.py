"""The planner of replica moves: what it begins, and what it says stands in the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.broker.placement.plan import SENDS_AT_ONCE, _Planner, plan, short_without
from ledger.broker.placement.view import ClusterNode, PlacedReplica, PlacedShard, PlacementView
from ledger.state.placement_table import MoveReason, NodeDrain, ReplicaMove


def view(placed: dict[int, list[int]], nodes: int = 4, wanted: int = 3, **options: object) -> PlacementView:
    """Return a view of `nodes` nodes, with shard 0 on all of them, and the voters `placed` of the other shards."""
    shards = {0: [*range(1, min(nodes, 5) + 1)], **placed}
    gone = options.pop("gone", ())
    rooms = options.pop("rooms", {})
    return PlacementView(
        nodes={
            node: ClusterNode(
                node,
                f"node-{node}:1",
                rooms.get(node, ""),  # type: ignore[attr-defined]
                silent_ms=9e9 if node in gone else 0,  # type: ignore[operator]
                is_gone=node in gone,  # type: ignore[operator]
            )
            for node in range(1, nodes + 1)
        },
        shards={
            shard: PlacedShard(
                shard,
                voters[0],
                {node: PlacedReplica(node, is_voter=True, answers=node not in gone) for node in voters},  # type: ignore[operator]
                size=100 * shard,
            )
            for shard, voters in shards.items()
        },
        wanted=wanted,
        **options,  # type: ignore[arg-type]
    )


def moves(given_view: PlacementView) -> list[tuple[int, int, int, str]]:
    return [(move.shard, move.to, move.source, move.reason.name) for move in plan(given_view).moves]


def draining(*nodes: int, removes: bool = False) -> dict[int, NodeDrain]:
    return {node: NodeDrain(node, removes) for node in nodes}


def test_a_cluster_in_order_is_left_alone() -> None:
    assert plan(view({1: [1, 2, 3], 2: [2, 3, 4]})).moves == []
    assert plan(view({1: [1, 2, 3], 2: [1, 2, 3]})).moves == [], "nobody asked to balance it"


def test_a_lost_replica_is_made_anew_on_the_node_with_the_fewest() -> None:
    found = plan(view({1: [1, 2, 3], 2: [1, 2, 5]}, nodes=5, gone=(3,)))
    assert found.moves == [ReplicaMove(1, 4, 3, MoveReason.REPLACE)]
    assert found.obstacles == []


def test_without_another_node_nothing_moves_and_the_plan_says_why() -> None:
    found = plan(view({1: [1, 2, 3]}, nodes=3, gone=(3,)))
    assert found.moves == []
    assert found.obstacles == [
        "no other node can take the replica on node 3 of shard 1: add a node (`ledgermq cluster add-node`)"
    ]


def test_replicas_of_two_lost_nodes_wait_for_an_operator() -> None:
    lost = view({1: [1, 2, 3], 2: [3, 4, 5]}, nodes=6, gone=(3, 4))
    assert moves(lost) == []
    assert "nodes 3, 4 are gone" in plan(lost).obstacles[0]
    assert moves(replace(lost, drains=draining(3, 4))) == [(1, 6, 3, "REPLACE"), (2, 1, 3, "REPLACE")]


def test_the_loss_of_a_whole_room_is_replaced() -> None:
    rooms = {1: "a", 2: "b", 3: "c", 4: "c", 5: "b", 6: "a"}
    assert moves(view({1: [1, 2, 3]}, nodes=6, gone=(3, 4), rooms=rooms)) == [(1, 5, 3, "REPLACE")]


def test_a_drained_node_loses_its_replicas_and_gets_none() -> None:
    drained = view({1: [1, 2, 3], 2: [1, 2, 4]}, nodes=5, drains=draining(1))
    assert moves(drained) == [(1, 5, 1, "DRAIN")], "node 1 takes part in one move at a time"
    assert moves(view({1: [1, 2, 3, 4]}, nodes=5, drains=draining(1))) == [(1, 0, 1, "DRAIN")], "it has enough"


def test_more_replicas_than_an_operator_wants_go_and_the_leader_stays() -> None:
    assert moves(view({1: [1, 2, 3, 4]}, wanted=3)) == []
    assert moves(view({1: [1, 2, 3, 4]}, wanted=3, is_exact=True)) == [(1, 0, 2, "SURPLUS")]
    assert moves(view({1: [1, 2, 3, 4]}, wanted=3, is_exact=True, gone=(4,))) == [(1, 0, 4, "SURPLUS")]
    assert moves(view({1: [1, 2, 3]}, wanted=4, is_exact=True)) == [(1, 4, 0, "REPLACE")]


def test_a_shard_of_another_class_gets_the_number_of_its_class() -> None:
    placed = {1: [1, 2, 3], 2: [2, 3, 4]}
    assert moves(view(placed, nodes=5, wanted_of={2: 4})) == [(2, 5, 0, "REPLACE")]
    assert moves(view({1: [1, 2, 3], 2: [2, 3, 4]}, wanted_of={2: 1})) == [(2, 0, 3, "SURPLUS")]
    assert moves(view({1: [1, 2, 3, 4], 2: [2, 3, 4]}, wanted_of={2: 3})) == [], "shard 1 has no number of its own"


def test_a_new_node_takes_its_share() -> None:
    placed = {shard: [1, 2, 3] for shard in range(1, 5)}
    assert moves(view(placed)) == []
    assert moves(view(placed, is_balancing=True)) == [(1, 4, 1, "BALANCE")]


def test_replicas_are_spread_over_rooms() -> None:
    rooms = {1: "a", 2: "b", 3: "c", 4: "a", 5: "c"}
    assert moves(view({1: [1, 2, 3]}, nodes=5, rooms=rooms, drains=draining(3))) == [(1, 5, 3, "DRAIN")]
    crowded = view({1: [1, 2, 3], 2: [1, 2, 3], 3: [1, 2, 3]}, nodes=4, rooms=rooms, is_balancing=True)
    assert all(move.source == 1 for move in plan(crowded).moves), "only node 1 is in the room of node 4"


def test_a_replica_waits_for_a_node_in_the_best_room() -> None:
    """Nothing would move it to another room later."""
    rooms = {1: "a", 2: "b", 3: "c", 4: "a", 5: "c"}
    lost = view({1: [1, 2, 3], 2: [1, 2, 3]}, nodes=5, gone=(3,), rooms=rooms)
    assert moves(lost) == [(1, 5, 3, "REPLACE")], "node 5 takes part in a move, and node 4 is in the room of node 1"
    assert plan(lost).obstacles == []
    without_5 = view({1: [1, 2, 3]}, nodes=4, gone=(3,), rooms=rooms)
    assert moves(without_5) == [(1, 4, 3, "REPLACE")], "there is no better room to wait for"


def test_a_drained_node_that_takes_part_in_a_move_keeps_no_other_waiting() -> None:
    placed = {1: [1, 2, 3], 2: [1, 2, 4]}
    assert moves(view(placed, nodes=9, drains=draining(1, 2))) == [(1, 5, 1, "DRAIN"), (2, 6, 2, "DRAIN")]


def test_a_leader_sends_few_replicas_at_a_time() -> None:
    """All five shards have lost a replica, and node 1 leads all of them."""
    placed = {shard: [1, 2, 3] for shard in range(1, 6)}
    lost = view(placed, nodes=12, gone=(3,))
    begun = plan(lost).moves
    assert len(begun) == SENDS_AT_ONCE == 2
    assert moves(replace(lost, moves={move.shard: move for move in begun})) == []
    led_by_others = {shard: [shard % 2 + 1, (shard + 1) % 2 + 1, 3] for shard in range(1, 6)}
    assert len(moves(view(led_by_others, nodes=12, gone=(3,)))) == 2 * SENDS_AT_ONCE


def test_a_balanced_cluster_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cluster of 1,000 shards the search for a move that does not exist took longer than an election timeout."""
    monkeypatch.setattr(_Planner, "_fairer", lambda *_: pytest.fail("no move can make the nodes more equal"))
    placed = {shard: [1 + (shard + place) % 20 for place in range(3)] for shard in range(1, 201)}
    assert plan(view(placed, nodes=20, is_balancing=True)).moves == []
    # Twenty nodes have 30 replicas each, and all new nodes take part in moves already.
    under_way = {node: ReplicaMove(node, 20 + node, 1 + node % 20, MoveReason.BALANCE) for node in range(1, 6)}
    assert moves(view(placed, nodes=25, is_balancing=True, moves=under_way)) == []


def test_what_would_be_short_without_a_node() -> None:
    assert short_without(view({1: [1, 2, 3]}, nodes=3), 3) == [
        "shard 0 would have 2 of 3 replicas",
        "shard 1 would have 2 of 3 replicas",
    ]
    assert short_without(view({1: [1, 2, 3]}, nodes=4), 3) == []
    assert short_without(view({1: [1, 2, 3]}, nodes=3, gone=(3,)), 3) == [], "it is lost already"


@given(st.data())
def test_planned_moves_lead_to_an_end_and_never_take_a_replica_that_is_needed(data: st.DataObject) -> None:
    """Carry out all planned moves again and again: after some rounds nothing is left to do, each shard has enough
    voters, and no node that is drained or gone has a replica."""
    nodes = data.draw(st.integers(4, 8), "nodes")
    drained = data.draw(st.sets(st.integers(1, nodes), max_size=nodes - 4), "drained")
    gone = data.draw(st.sets(st.integers(1, nodes), max_size=1 if nodes - len(drained) > 4 else 0), "gone")
    placed = {
        shard: data.draw(st.permutations(range(1, nodes + 1)), f"shard {shard}")[: data.draw(st.integers(3, 4))]
        for shard in range(1, data.draw(st.integers(2, 8), "shards"))
    }
    placed[0] = [1, 2, 3]
    for _ in range(100):
        found = plan(view(placed, nodes, gone=gone, drains=draining(*drained), is_balancing=True, is_exact=True))
        if not found.moves:
            break
        busy = Counter(node for move in found.moves for node in (move.to, move.source) if node and node not in gone)
        assert set(busy.values()) <= {1}
        for move in found.moves:
            before = placed[move.shard]
            assert move.to not in before
            placed[move.shard] = [*(node for node in before if node != move.source), *filter(None, [move.to])]
            assert len([node for node in placed[move.shard] if node not in gone]) >= min(
                3, len([node for node in before if node not in gone])
            )
    assert not found.moves
    first = placed.pop(0)
    assert len([node for node in first if node not in drained | gone]) >= 3
    for voters in placed.values():
        assert len(voters) == 3
        assert not (drained | gone) & set(voters)
    counts = Counter(node for voters in placed.values() for node in voters)
    able = [node for node in range(1, nodes + 1) if node not in drained | gone]
    assert max(counts[node] for node in able) - min(counts[node] for node in able) <= 1
