"""Tests the plans of drains and balances, without a cluster."""

from __future__ import annotations

from dataclasses import replace

from cluster.console.page import Pages
from cluster.console.pages.cluster_page import states_of
from cluster.console.placement_plans import (
    balance_plan,
    drain_plan,
    end_balance_plan,
    end_drain_plan,
    pause_plan,
    resume_plan,
)
from cluster.replica_moves import reason_of
from ledger.client.placement_records import Placement, PlacementMove, PlacementNode, PlacementReplica, PlacementShard

NODES = tuple(PlacementNode(node, "", 0, False, node == 3, False) for node in (1, 2, 3, 4))
REPLICAS = tuple(PlacementReplica(node, True, True, 0) for node in (1, 2))
SHARDS = tuple(PlacementShard(number, 1, 5_000_000, 3, REPLICAS) for number in (0, 1, 2))
MOVE = PlacementMove(1, 4, 3, "drain", 1, 2_000_000, "")
PLACEMENT = Placement(3, False, False, False, NODES, SHARDS, (MOVE,), (), 0, ())


def test_a_drain_says_how_much_is_copied() -> None:
    plan = drain_plan(PLACEMENT, 1)
    assert (plan.action, plan.fields, plan.refusals) == ("drain", {"node": "1"}, ())
    assert plan.consequences[0].startswith("The replicas of 2 shard(s) move to other nodes")
    assert "About 10.0 MB are copied" in plan.consequences[0]
    assert drain_plan(PLACEMENT, 3).refusals == ("Node 3 is being drained already.",)
    assert drain_plan(PLACEMENT, 9).refusals == ("Node 9 is no node of the cluster.",)


def test_a_drain_ends_only_where_there_is_one() -> None:
    assert end_drain_plan(PLACEMENT, 3).refusals == ()
    assert end_drain_plan(PLACEMENT, 1).refusals == ("Node 1 is not being drained.",)
    assert end_drain_plan(PLACEMENT, 9).refusals == ("Node 9 is not being drained.",)


def test_a_balance_names_its_first_moves() -> None:
    planned = replace(PLACEMENT, balance=(replace(MOVE, reason="balance", lag_bytes=0),), leader_changes=2)
    plan = balance_plan(planned)
    assert plan.refusals == ()
    assert plan.consequences[:2] == (
        "Shard 1 from node 3 to node 4 (the nodes get equally many).", "2 shard(s) get another preferred leader."
    )  # fmt: skip
    assert balance_plan(PLACEMENT).refusals == ("The replicas are balanced: nothing would move.",)
    balancing = replace(planned, balancing=True)
    assert balance_plan(balancing).refusals == ("The replicas are being balanced already.",)
    assert (len(end_balance_plan(PLACEMENT).refusals), end_balance_plan(balancing).refusals) == (1, ())


def test_a_pause_says_what_it_stops() -> None:
    plan = pause_plan(PLACEMENT)
    assert plan.consequences[0].startswith("1 move(s) wait")
    assert plan.dangers
    paused = replace(PLACEMENT, paused=True)
    assert (len(pause_plan(paused).refusals), len(resume_plan(PLACEMENT).refusals)) == (1, 1)
    assert (plan.refusals, resume_plan(paused).refusals) == ((), ())


def test_only_unusual_states_are_shown() -> None:
    leaving = replace(NODES[0], draining=True, leaving=True)
    gone = replace(NODES[1], gone=True, silent_ms=700_000)
    silent = replace(NODES[3], silent_ms=100)
    placement = replace(PLACEMENT, nodes=(leaving, gone, NODES[2], silent))
    assert states_of(placement) == {1: "leaving", 2: "gone", 3: "draining"}
    assert states_of(None) == {}


def shown(placement: Placement | None) -> str:
    return Pages({"root": "/console"}).text("parts/moves.html", placement=placement, reason_of=reason_of)


def test_moves_are_shown_with_their_reasons_and_troubles() -> None:
    waits = replace(MOVE, shard=2, source=0, reason="replace", trouble="node 4 <does> not answer")
    obstacles = ("no other node can take a replica",)
    text = shown(replace(PLACEMENT, moves=(MOVE, waits), paused=True, balancing=True, obstacles=obstacles))
    for words in (
        "<td>node 3</td><td>node 4</td><td>the node is drained</td>",
        "2.0 MB",
        "<td>–</td><td>node 4</td><td>a replica is lost or missing</td>",
        "node 4 &lt;does&gt; not answer",
        "All moves are paused.",
        "The replicas are being balanced.",
        "No other node can take a replica.",
    ):
        assert words in text, text
    assert "No replica moves." in shown(replace(PLACEMENT, moves=()))
    assert "is not known now" in shown(None)
