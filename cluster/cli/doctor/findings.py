"""Judges what is wrong with a cluster, from the answers of its nodes. No I/O.

Each rule looks at one kind of problem. `findings` runs the rules and sorts their findings, the most urgent first:

    critical   messages cannot be written or read now, or the whole cluster is about to fail
    warning    the cluster works, and something must be done
    note       nothing must be done, or it happens by itself
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from shlex import quote

from cluster.cli.doctor.durability import durability, holds
from cluster.cli.doctor.finding import DoctorFinding, Urgency
from cluster.cli.doctor.observation import Observation
from ledger.client.records import NodeStatus, ShardStatus
from ledger.local_socket import is_socket
from ledger.mirror.mirror_progress import RUNS_GROUP
from ledger.state.feature_levels import LATEST_LEVEL
from ledger.words import counted
from raft.cluster_clock import TOLERANCE_MS, clock_sentence

DISK_CRITICAL = 0.95
DISK_WARNING = 0.85
# The mean time of an fsync, over enough of them that one slow one does not count.
SLOW_FLUSH_S = 0.1
FEWEST_FLUSHES = 20
GROUP_LAG_S = 600
# A producer of its group answers a check of an open transaction sooner.
OPEN_TRANSACTION_S = 120
CERTIFICATE_CRITICAL_DAYS = 3
CERTIFICATE_WARNING_DAYS = 30

_INFO = "ledgermq cluster info"
_NEWER_PROGRAM = (
    "install the version of ledgermq that the other nodes run  (on this node, then restart it; if the replicas of all "
    "nodes stop at the same entry, report it)"
)
_TRIM = "ledgermq cluster trim --keep-bytes 10G --dry-run"
_ORDER: tuple[Urgency, ...] = ("critical", "warning", "note")


def findings(seen: Observation, now: datetime) -> list[DoctorFinding]:
    """Return what is wrong with the observed cluster, the most urgent first. `now` is the time of the observation."""
    if seen.unavailable:
        return [
            DoctorFinding(
                "critical", "no-node-answers", seen.unavailable, "ledgermq dev start  (or start the nodes' service)"
            )
        ]
    found = (
        [finding for rule in _RULES for finding in rule(seen)] + list(_certificates(seen, now)) + list(holds(seen, now))
    )
    return sorted(found, key=lambda finding: _ORDER.index(finding.urgency))


def _replicas(seen: Observation) -> Iterator[tuple[NodeStatus, ShardStatus]]:
    for node in seen.nodes:
        for shard in node.shards:
            yield node, shard


def _leaders(seen: Observation) -> dict[int, tuple[NodeStatus, ShardStatus]]:
    ordered = sorted(_replicas(seen), key=lambda pair: pair[1].term)
    return {shard.shard: (node, shard) for node, shard in ordered if shard.role == "leader"}


def _leaderless(seen: Observation) -> Iterator[DoctorFinding]:
    shards = {shard.shard for _, shard in _replicas(seen)}
    if is_socket(seen.bootstrap):  # one node only; it knows whether there is a leader
        idle = sorted({shard.shard for _, shard in _replicas(seen) if not shard.leader})
    else:
        idle = sorted(shards - _leaders(seen).keys())
    down = sum(not node.reachable for node in seen.nodes)
    reason = f"{down} of {counted(len(seen.nodes), 'node')} do not answer" if down else "an election may be under way"
    for shard in idle:
        what = f"shard {shard} has no leader, so nothing can be written to it: {reason}"
        yield DoctorFinding("critical", "no-leader", what, _start_of(seen) if down else "ledgermq cluster health")


def _refusing_leaders(seen: Observation) -> Iterator[DoctorFinding]:
    for shard, (node, status) in sorted(_leaders(seen).items()):
        if status.diverged:
            what = f"shard {shard} takes no writes, because replicas contradict each other: {status.diverged}"
            yield DoctorFinding("critical", "diverged", what, f"{_INFO}  (docs/OPERATING.md, Diverged replicas)")
        if status.unacknowledged_by:
            nodes = ", ".join(map(str, status.unacknowledged_by))
            what = (
                f"shard {shard} commits nothing: nodes {nodes} acknowledge no entries of its leader, node {node.node}"
            )
            yield DoctorFinding("critical", "unacknowledged", what, f"ledgermq cluster transfer-leader --shard {shard}")
        if status.no_writes:
            what = f"shard {shard} takes no writes: node {node.node}, its leader: {status.no_writes}"
            yield DoctorFinding("critical", "no-writes", what, _way_to_writes(status.no_writes, shard))


def _unreachable(seen: Observation) -> Iterator[DoctorFinding]:
    for node in seen.nodes:
        if not node.reachable:
            what = f"node {node.node} at {node.address} does not answer: {node.error.rstrip('.')}"
            yield DoctorFinding("warning", "unreachable", what, _start_of(seen))


def _stopped(seen: Observation) -> Iterator[DoctorFinding]:
    for node, shard in _replicas(seen):
        where = f"node {node.node}, shard {shard.shard}"
        if shard.stopped:
            what = f"{where}: applies no more entries: {shard.stopped}"
            yield DoctorFinding("warning", "stopped", what, _NEWER_PROGRAM)
        if shard.no_writes and shard.role != "leader":
            what = f"{where}: takes no writes if it leads: {shard.no_writes}"
            yield DoctorFinding("warning", "no-writes", what, _way_to_writes(shard.no_writes, shard.shard))
        if shard.diverged and shard.role != "leader":
            what = f"{where}: {shard.diverged}"
            yield DoctorFinding("warning", "diverged", what, f"{_INFO}  (docs/OPERATING.md, Diverged replicas)")
        if shard.suspect:
            what = f"{where}: may have lost entries that it acknowledged; it votes again when it has caught up"
            yield DoctorFinding("warning", "suspect", what, _INFO)
        if shard.rebuilt:
            what = f"{where}: its last start built state and indexes anew, because {shard.rebuilt}; check the disk"
            log = quote(f"{node.data_directory}/shard-{shard.shard}/log")
            yield DoctorFinding("note", "rebuilt", what, f"ledgermq log verify {log}")


def _lost_replicas(seen: Observation) -> Iterator[DoctorFinding]:
    for node, shard in _lost(seen):
        again = f"{node.node} --address {node.address} --shard {shard} --promote"
        yield DoctorFinding(
            "warning",
            "lost-replica",
            f"node {node.node} votes in shard {shard}, and has no data of it (a new or wiped directory)",
            f"ledgermq cluster remove-node {node.node} --shard {shard}; ledgermq cluster add-node {again}",
        )


def _lost(seen: Observation) -> Iterator[tuple[NodeStatus, int]]:
    """Return the nodes, each with a shard, that the shard counts as voters and that themselves wait to be members."""
    voters = {(member.node, shard) for shard, each in seen.members.items() for member in each.members if member.voter}
    for node, shard in _replicas(seen):
        if shard.role in ("waiting", "joining") and (node.node, shard.shard) in voters:
            yield node, shard.shard


def _behind(seen: Observation) -> Iterator[DoctorFinding]:
    lost = {(node.node, shard) for node, shard in _lost(seen)}
    answering = {node.node for node in seen.nodes if node.reachable}
    for shard, members in sorted(seen.members.items()):
        for member in members.members:
            if member.node not in answering or (member.node, shard) in lost:
                continue
            if not member.caught_up:
                lag = (
                    f"{counted(member.lag_entries, 'entry').replace('entrys', 'entries')} ({member.lag_bytes:,} bytes)"
                )
                what = f"node {member.node}, shard {shard}: the replica is {lag} behind its leader"
                yield DoctorFinding("warning", "behind", what, "ledgermq cluster health")
            elif not member.voter:
                what = f"node {member.node}, shard {shard}: is a learner that has caught up, and does not vote"
                yield DoctorFinding("note", "learner", what, f"ledgermq cluster promote {member.node} --shard {shard}")


def _voters(seen: Observation) -> Iterator[DoctorFinding]:
    for shard, members in sorted(seen.members.items()):
        voters = sum(member.voter for member in members.members)
        if voters % 2 == 0:
            what = (
                f"shard {shard} has {voters} voters: they survive the loss of {(voters - 1) // 2}, as "
                f"{counted(voters - 1, 'voter')} would"
            )
            yield DoctorFinding("warning", "even-voters", what, _one_node_more(seen))
        elif voters == 1 and not _is_local(seen):
            what = f"shard {shard} has one voter: if its disk fails, the messages are lost"
            yield DoctorFinding("warning", "one-voter", what, _one_node_more(seen))


def _one_node_more(seen: Observation) -> str:
    return (
        "ledgermq dev add-node" if _is_local(seen) else "ledgermq cluster add-node NODE --address HOST:PORT --promote"
    )


def _waiting(seen: Observation) -> Iterator[DoctorFinding]:
    for node in seen.nodes:
        if node.reachable and not node.shards:
            what = f"node {node.node} at {node.address} runs, and is a member of no shard"
            yield DoctorFinding(
                "warning", "waiting", what, f"ledgermq cluster add-node {node.node} --address {node.address}"
            )


def _clocks(seen: Observation) -> Iterator[DoctorFinding]:
    offsets = {
        node: offset_ms
        for _, status in _leaders(seen).values()
        for node, offset_ms in status.clock_offsets_ms.items()
        if abs(offset_ms) > TOLERANCE_MS
    }
    for node, offset_ms in sorted(offsets.items()):
        yield DoctorFinding(
            "warning", "clock", f"node {node}: {clock_sentence(offset_ms)}", "timedatectl  (on this node)"
        )


def _way_to_writes(no_writes: str, shard: int) -> str:
    """Return the command for a replica that takes no writes for the reason `no_writes`. A full disk needs room. After
    any other failure of its disk a node takes writes only when it has been restarted."""
    if "full" in no_writes:
        return f"{_TRIM} --shard {shard}"
    return "dmesg | tail  (on this node; check its disk, then restart the node)"


def _disks(seen: Observation) -> Iterator[DoctorFinding]:
    for node, figures in sorted(seen.figures.items()):
        if figures.disk_use is not None and figures.disk_use >= DISK_WARNING:
            urgency: Urgency = "critical" if figures.disk_use >= DISK_CRITICAL else "warning"
            what = f"node {node}: its disk is {figures.disk_use:.0%} full"
            yield DoctorFinding(urgency, "disk-full", what, _TRIM)
        if figures.flushes >= FEWEST_FLUSHES and figures.flush_s >= SLOW_FLUSH_S:
            what = f"node {node}: its disk is slow, an fsync takes {figures.flush_s * 1000:,.0f} ms on average"
            yield DoctorFinding("warning", "disk-slow", what, "iostat -x 1  (on this node)")
        for shard in figures.repairing:
            what = f"node {node}, shard {shard}: its log is damaged and is being repaired from other nodes"
            yield DoctorFinding("warning", "damaged", what, "ledgermq validate  (when the repair has ended)")


def _versions(seen: Observation) -> Iterator[DoctorFinding]:
    versions = Counter(node.version for node in seen.nodes if node.reachable)
    if len(versions) > 1:
        parts = ", ".join(f"{version} on {counted(count, 'node')}" for version, count in sorted(versions.items()))
        yield DoctorFinding("warning", "versions", f"the nodes run different versions: {parts}", _upgrade_of(seen))
    for shard, (_, status) in sorted(_leaders(seen).items()):
        if status.feature_level < LATEST_LEVEL and len(versions) == 1 and all(node.reachable for node in seen.nodes):
            what = (
                f"shard {shard} has the feature level {status.feature_level} of {LATEST_LEVEL}; it rises by itself "
                "when all members support it"
            )
            yield DoctorFinding("note", "feature-level", what, _INFO)


def _upgrade_of(seen: Observation) -> str:
    return (
        "ledgermq dev stop && ledgermq dev start"
        if _is_local(seen)
        else "install the newest version of the nodes on the old nodes  (docs/OPERATING.md, Upgrading)"
    )


def _groups(seen: Observation) -> Iterator[DoctorFinding]:
    for group in seen.groups:
        if group.name.startswith(f"{RUNS_GROUP}@"):
            continue  # its offsets count the runs of a mirror, and its lag says nothing
        broadcast = group.strategy == "broadcast"
        if group.lag and not group.members and not broadcast:
            what = f"consumer group {group.name} has no members, and {counted(group.lag, 'message')} wait for it"
            yield DoctorFinding("warning", "group-without-members", what, f"ledgermq group describe {group.name}")
        elif group.lag_s > GROUP_LAG_S:
            what = (
                f"consumer group {group.name} is far behind: {counted(group.lag, 'message')}, the oldest "
                f"{group.lag_s / 60:,.0f} minutes old"
            )
            yield DoctorFinding("warning", "group-behind", what, f"ledgermq group describe {group.name}")
        if group.dead_letters:
            what = f"consumer group {group.name} has {counted(group.dead_letters, 'dead letter')}"
            yield DoctorFinding("warning", "dead-letters", what, f"ledgermq dlq list {group.name}")


def _transactions(seen: Observation) -> Iterator[DoctorFinding]:
    for node, figures in sorted(seen.figures.items()):
        for shard, oldest_s in figures.oldest_halves_s:
            if oldest_s > OPEN_TRANSACTION_S:
                what = f"node {node}, shard {shard}: a transaction has been open for {oldest_s / 60:,.0f} minutes"
                yield DoctorFinding("warning", "open-transaction", what, "ledgermq transaction list")


def _unsafe(seen: Observation) -> Iterator[DoctorFinding]:
    open_to_others = not _is_local(seen) and not seen.security.tls
    if open_to_others:
        what = "the nodes listen for other machines without TLS: everybody on the network can read and change messages"
        yield DoctorFinding(
            "warning", "no-tls", what, "ledgermq certs provision --node 1=HOST ...  (docs/OPERATING.md, Security)"
        )
    elif not _is_local(seen) and not seen.security.proves:
        what = "the nodes accept this client without a proof of who it is: everybody can read and change messages"
        yield DoctorFinding(
            "warning", "no-authentication", what, "authentication = true  (docs/OPERATING.md, Security)"
        )


def _unanswered(seen: Observation) -> Iterator[DoctorFinding]:
    for sentence in seen.unanswered:
        yield DoctorFinding("note", "not-checked", f"could not be checked: {sentence}", _INFO)


def _certificates(seen: Observation, now: datetime) -> Iterator[DoctorFinding]:
    for node, certificate in sorted(seen.certificates.items()):
        renew = "ledgermq certs provision --node 1=HOST ...  (it renews certificates near their end)"
        if certificate.refusal:
            what = f"node {node}: clients refuse its certificate: {certificate.refusal}"
            yield DoctorFinding("critical", "certificate", what, renew)
        elif certificate.ends is not None and (days := (certificate.ends - now).days) < CERTIFICATE_WARNING_DAYS:
            urgency: Urgency = "critical" if days < CERTIFICATE_CRITICAL_DAYS else "warning"
            what = f"node {node}: its certificate ends on {certificate.ends:%Y-%m-%d}, in {counted(days, 'day')}"
            yield DoctorFinding(urgency, "certificate", what, renew)


def _is_local(seen: Observation) -> bool:
    """Return True if all nodes listen on this machine only."""
    return all(_is_loopback(node.address) for node in seen.nodes)


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or is_socket(address)


def _start_of(seen: Observation) -> str:
    if _is_local(seen):  # `dev start`, ports of containers, or nodes that were started by hand
        return "ledgermq dev start  (or start the node's service)"
    return "ledgermq server run --config node.toml  (on this node)"


_RULES: tuple[Callable[[Observation], Iterator[DoctorFinding]], ...] = (
    _leaderless,
    _refusing_leaders,
    _unreachable,
    _stopped,
    _lost_replicas,
    _behind,
    _waiting,
    _disks,
    _clocks,
    durability,
    _versions,
    _voters,
    _groups,
    _transactions,
    _unsafe,
    _unanswered,
)
