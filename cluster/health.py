"""Judges the health of a cluster from what its nodes have said of themselves."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.client.records import NodeStatus
from raft.cluster_clock import TOLERANCE_MS

# The leaders of more shards are only counted.
MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """The status of one replica, which is one node's copy of one shard. If the node is unreachable, the unknown
    values are None."""

    node: int
    address: str
    shard: int | None
    role: str
    term: int | None
    last_index: int | None
    commit: int | None
    applied: int | None
    # The number of entries that the leader has and this replica does not have.
    lag: int | None
    # The replica may have lost entries that it acknowledged. It does not vote until it has caught up.
    suspect: bool | None = None
    feature_level: int | None = None
    # Why the replica applies no more entries; empty while it applies entries.
    stopped: str | None = None
    # How the logs of other members contradict this log; empty if none does.
    diverged: str | None = None
    # On a leader that cannot commit: the followers that answer heartbeats and acknowledge no entries.
    unacknowledged_by: tuple[int, ...] = ()
    # Why the last start of the replica built state and indexes anew from the log; else empty.
    rebuilt: str | None = None
    # Why the replica takes no writes of clients; empty if it takes writes when it leads.
    no_writes: str | None = None
    # By how many ms the wall clock of the node is ahead of the clocks of most voters, or behind them (negative).
    clock_offset_ms: int | None = None
    # The voter that is pinned as the leader of the shard, and the voter that takes leadership whenever it can, as this
    # replica knows them; 0: none.
    pinned_leader: int | None = None
    preferred_leader: int | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """The result of `ledgermq cluster health`.

    Values:

        healthy       each shard has a leader, and all replicas take part
        degraded      each shard has a leader, but a replica is unreachable, suspect, stopped, diverged, takes no
                      writes, has a wrong clock or does not take part
        unavailable   a shard has no leader, or its leader is diverged or unacknowledged
    """

    status: str
    # The status and its reason, for the user.
    sentence: str


def rows_of(nodes: list[NodeStatus]) -> list[ReplicaRow]:
    """Return a row for each replica. The lag of a replica is the number of entries that its log is behind the log
    of the shard's leader. If several nodes say that they lead a shard, the node with the highest term is taken as
    the leader."""
    leaders = [shard for node in nodes for shard in node.shards if shard.role == "leader"]
    leading = {leader.shard: leader for leader in sorted(leaders, key=lambda leader: leader.term)}
    rows = []
    for node in sorted(nodes, key=lambda one: one.node):
        if not node.shards:
            role = "waiting" if node.reachable else "unreachable"
            rows.append(ReplicaRow(node.node, node.address, None, role, None, None, None, None, None))
        for shard in node.shards:
            leader = leading.get(shard.shard)
            lag = None if leader is None else max(0, leader.last_index - shard.last_index)
            rows.append(
                ReplicaRow(
                    node=node.node,
                    address=node.address,
                    shard=shard.shard,
                    role=shard.role,
                    term=shard.term,
                    last_index=shard.last_index,
                    commit=shard.commit,
                    applied=shard.applied,
                    lag=lag,
                    suspect=shard.suspect,
                    feature_level=shard.feature_level,
                    stopped=shard.stopped,
                    diverged=shard.diverged,
                    unacknowledged_by=shard.unacknowledged_by,
                    rebuilt=shard.rebuilt,
                    no_writes=shard.no_writes,
                    clock_offset_ms=None if leader is None else leader.clock_offsets_ms.get(node.node),
                    pinned_leader=shard.pinned_leader,
                    preferred_leader=shard.preferred_leader,
                )
            )
    return rows


def health_of(rows: list[ReplicaRow]) -> Health:
    """Return the health of the cluster that `rows` describe."""
    leaders = {row.shard: row for row in sorted(rows, key=lambda row: row.term or 0) if row.role == "leader"}
    shards = sorted({row.shard for row in rows if row.shard is not None})
    if not leaders:
        return Health(
            "unavailable",
            "unavailable: no shard has a leader; nothing can be written until a majority of the nodes runs",
        )
    if idle := [str(shard) for shard in shards if shard not in leaders]:
        return Health("unavailable", f"unavailable: no leader in shard {', '.join(idle)}; its queues wait for one")
    if blocked := [
        f"shard {leader.shard} {_why_no_writes(leader)}" for leader in leaders.values() if _takes_no_writes(leader)
    ]:
        return Health("unavailable", f"unavailable: no writes ({', '.join(blocked)}); `ledgermq cluster info` says why")
    takes_part = ("leader", "follower", "learner")
    unwell = [row for row in rows if row.role not in takes_part or marks_of(row)]
    nodes, absent = {row.node for row in rows}, {row.node for row in unwell}
    lag = max((row.lag or 0 for row in rows if row not in unwell), default=0)
    status = "degraded" if unwell else "healthy"
    return Health(
        status,
        f"{status}: {_who_leads([leaders[shard] for shard in shards])}; {len(nodes - absent)} of {len(nodes)} nodes "
        f"take part; the largest lag is {lag} entries",
    )


def health_of_one(node: NodeStatus) -> Health:
    """Return the health of the cluster as one of its nodes sees it."""
    idle = [str(shard.shard) for shard in node.shards if not shard.leader]
    if idle or not node.shards:
        shards = f"shard {', '.join(idle)}" if idle else "any shard"
        return Health("unavailable", f"unavailable: node {node.node} knows no leader of {shards}")
    unwell = any(shard.suspect or shard.stopped or shard.diverged for shard in node.shards)
    known = ", ".join(f"node {shard.leader} leads shard {shard.shard} in term {shard.term}" for shard in node.shards)
    status = "degraded" if unwell else "healthy"
    return Health(status, f"{status}, as node {node.node} sees it: {known}")


def _who_leads(leaders: list[ReplicaRow]) -> str:
    if len(leaders) == 1:
        return f"node {leaders[0].node} leads in term {leaders[0].term}"
    if len(leaders) > MOST_NAMED:
        return f"all {len(leaders)} shards have leaders"
    return ", ".join(f"node {leader.node} leads shard {leader.shard} in term {leader.term}" for leader in leaders)


def has_wrong_clock(row: ReplicaRow) -> bool:
    return abs(row.clock_offset_ms or 0) > TOLERANCE_MS


def _why_no_writes(leader: ReplicaRow) -> str:
    return "unacknowledged" if leader.unacknowledged_by else "diverged"


def _takes_no_writes(leader: ReplicaRow) -> bool:
    return bool(leader.diverged or leader.unacknowledged_by)


def marks_of(row: ReplicaRow) -> list[str]:
    """Return the words that say what is wrong with this replica."""
    marks = {
        "suspect": row.suspect,
        "stopped": row.stopped,
        "diverged": row.diverged,
        "unacknowledged": row.unacknowledged_by,
        "no writes": row.no_writes,
        "wrong clock": has_wrong_clock(row),
    }
    return [mark for mark, is_set in marks.items() if is_set]
