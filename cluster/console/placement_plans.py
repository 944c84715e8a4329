"""The plans of operations on the placement of replicas: drains, balances, and pauses. All functions are pure."""

from __future__ import annotations

from cluster.console.plans import Plan
from cluster.replica_moves import bytes_left, described
from ledger.client.placement_records import Placement

# How many moves a plan names.
_NAMED_MOVES = 20


def drain_plan(placement: Placement, node: int) -> Plan:
    """Plan that all replicas leave a node, except that of shard 0."""
    known, shards = placement.node(node), placement.shards_on(node)
    refusals: tuple[str, ...] = ()
    if known is None:
        refusals = (f"Node {node} is no node of the cluster.",)
    elif known.draining:
        refusals = (f"Node {node} is being drained already.",)
    return Plan(
        "drain",
        f"Drain node {node}",
        f"Drain node {node}",
        {"node": str(node)},
        (
            f"The replicas of {len(shards)} shard(s) move to other nodes, one after the other. About "
            f"{bytes_left(placement, node) / 1e6:,.1f} MB are copied. A shard never has fewer replicas meanwhile.",
            f"Node {node} keeps its replica of shard 0, and gets no other replicas until the drain is ended.",
            "The cluster refuses the drain if a shard would have too few replicas.",
        ),
        refusals=refusals,
    )


def end_drain_plan(placement: Placement, node: int) -> Plan:
    """Plan that a node can get replicas again."""
    known = placement.node(node)
    is_drained = known is not None and known.draining
    return Plan(
        "end-drain",
        f"End the drain of node {node}",
        "End the drain",
        {"node": str(node)},
        (
            f"Node {node} can get replicas again, and stays in the cluster.",
            "Moves that are under way end by themselves.",
            "Replicas do not come back by themselves: balance them afterwards.",
        ),
        refusals=() if is_drained else (f"Node {node} is not being drained.",),
    )


def balance_plan(placement: Placement) -> Plan:
    """Plan that replicas and leaderships are spread evenly."""
    moves = placement.balance[:_NAMED_MOVES]
    consequences = [f"{described(move)}." for move in moves]
    if placement.leader_changes:
        consequences.append(f"{placement.leader_changes} shard(s) get another preferred leader.")
    consequences.append("Further moves follow, until the numbers of replicas of the nodes differ by at most one.")
    refusals: tuple[str, ...] = ()
    if placement.balancing:
        refusals = ("The replicas are being balanced already.",)
    elif not moves and not placement.leader_changes:
        refusals = ("The replicas are balanced: nothing would move.",)
    return Plan("balance", "Balance the replicas", "Balance", {}, tuple(consequences), refusals=refusals)


def end_balance_plan(placement: Placement) -> Plan:
    """Plan that no further move begins for the balance."""
    return Plan(
        "end-balance",
        "Stop the balance",
        "Stop the balance",
        {},
        ("No further move begins. Moves that are under way end.",),
        refusals=() if placement.balancing else ("The replicas are not being balanced.",),
    )


def pause_plan(placement: Placement) -> Plan:
    """Plan that all moves wait before their next step."""
    return Plan(
        "pause-moves",
        "Pause all moves of replicas",
        "Pause",
        {},
        (f"{len(placement.moves)} move(s) wait before their next step, and no move begins.",),
        ("Replicas on lost nodes are not replaced, and drains do not end, until the moves go on.",),
        ("All moves are paused already.",) if placement.paused else (),
    )


def resume_plan(placement: Placement) -> Plan:
    """Plan that moves go on."""
    return Plan(
        "resume-moves",
        "Let moves of replicas go on",
        "Go on",
        {},
        ("Moves go on with their next step, and new ones begin.",),
        refusals=() if placement.paused else ("The moves are not paused.",),
    )
