"""Tests what `ledgermq doctor` finds, rule by rule, from observations that the tests write."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cluster.cli.doctor.certificates import CertificateState
from cluster.cli.doctor.findings import findings
from cluster.cli.doctor.metrics import NodeFigures, figures_of
from cluster.cli.doctor.observation import Observation
from ledger.client.admin.consumer_group_records import ConsumerGroupSummary
from ledger.client.connection.security import Security
from ledger.client.records import LogHold, Member, Members
from ledger.state.feature_levels import LATEST_LEVEL
from ledgermq import NodeStatus, ShardStatus

NOW = datetime(2026, 11, 25, tzinfo=UTC)


def shard_of(node: int, **changes: Any) -> ShardStatus:
    role = "leader" if node == 1 else "follower"
    return replace(ShardStatus(0, role, 5, 1, 10, 10, 10, 0, 0, feature_level=LATEST_LEVEL), **changes)


def node_of(node: int, **changes: Any) -> NodeStatus:
    return NodeStatus(node, f"127.0.0.1:{9870 + node}", True, version="1.0", shards=(shard_of(node, **changes),))


def member_of(node: int, **changes: Any) -> Member:
    return replace(Member(node, f"127.0.0.1:{9870 + node}", b"", True, False, 0, 0, True), **changes)


def members_of(*members: Member) -> Members:
    return Members("c", 5, 1, 0, 10, 10, 1, members)


HEALTHY = Observation(
    "127.0.0.1:9871",
    nodes=(node_of(1), node_of(2), node_of(3)),
    members={0: members_of(member_of(1), member_of(2), member_of(3))},
    figures={node: NodeFigures(0.5, 0.002, 1_000) for node in (1, 2, 3)},
)


def with_node(node: NodeStatus, seen: Observation = HEALTHY) -> Observation:
    return replace(seen, nodes=tuple(node if each.node == node.node else each for each in seen.nodes))


DEAD = NodeStatus(3, "127.0.0.1:9873", reachable=False, error="Connection refused.")
TLS = Security(tls=True, user="u", password="p")
OTHERS = tuple(replace(node, address=f"10.0.0.{node.node}:9871") for node in HEALTHY.nodes)


def group_of(**changes: Any) -> ConsumerGroupSummary:
    return replace(ConsumerGroupSummary("billing", 1, "average", 4, 0, 0.0, 0, 0), **changes)


def held(name: str, *, hours: int, shard: int = 0) -> LogHold:
    taken_ms = int(NOW.timestamp() * 1000) - hours * 3_600_000
    return LogHold(name, 7, taken_ms, taken_ms + 24 * 3_600_000, shard)


def test_a_healthy_cluster() -> None:
    assert findings(HEALTHY, NOW) == []
    alone = replace(HEALTHY, nodes=(node_of(1),), members={0: members_of(member_of(1))}, groups=(group_of(lag=5),))
    assert findings(alone, NOW) == [], "one node on this machine is for trying things out"
    secured = replace(HEALTHY, nodes=OTHERS, security=TLS, certificates={1: CertificateState(NOW + timedelta(31))})
    assert findings(secured, NOW) == []
    synced = {node: NodeFigures(flush="sync", write="staged") for node in (1, 2, 3)}
    assert findings(replace(HEALTHY, figures=synced, holds=(held("spark", hours=0),)), NOW) == []


CASES: list[tuple[Observation, str, str, str, str]] = [
    (Observation("h:1", unavailable="None answers."), "critical", "no-node-answers", "None answers", "dev start"),
    (
        replace(HEALTHY, nodes=(node_of(2), DEAD)),
        "critical",
        "no-leader",
        "shard 0 has no leader, so nothing can be written to it: 1 of 2 nodes do not answer",
        "dev start",
    ),
    (with_node(node_of(1, diverged="index 7")), "critical", "diverged", "index 7", "cluster info"),
    (with_node(node_of(1, unacknowledged_by=(2, 3))), "critical", "unacknowledged", "nodes 2, 3", "transfer-leader"),
    (with_node(node_of(1, no_writes="the disk is full")), "critical", "no-writes", "the disk is full", "--dry-run"),
    (
        with_node(DEAD),
        "warning",
        "unreachable",
        "node 3 at 127.0.0.1:9873 does not answer",
        "ledgermq dev start  (or start the node's service)",
    ),
    (
        with_node(node_of(2, stopped="too old")),
        "warning",
        "stopped",
        "node 2, shard 0: applies no more",
        "install the version",
    ),
    (with_node(node_of(2, no_writes="full")), "warning", "no-writes", "node 2, shard 0: takes no writes", "trim"),
    (
        with_node(node_of(2, no_writes="failed")),
        "warning",
        "no-writes",
        "node 2, shard 0: takes no writes",
        "dmesg",
    ),
    (with_node(node_of(2, diverged="index 7")), "warning", "diverged", "node 2, shard 0: index 7", "cluster info"),
    (with_node(node_of(2, suspect=True)), "warning", "suspect", "may have lost entries", "cluster info"),
    (
        with_node(node_of(3, role="waiting")),
        "warning",
        "lost-replica",
        "node 3 votes in shard 0, and has no data of it",
        "cluster remove-node 3 --shard 0; ledgermq cluster add-node 3 --address 127.0.0.1:9873 --shard 0 --promote",
    ),
    (
        replace(HEALTHY, figures={1: NodeFigures(oldest_halves_s=((0, 30.0), (1, 600.0)))}),
        "warning",
        "open-transaction",
        "node 1, shard 1: a transaction has been open for 10 minutes",
        "ledgermq transaction list",
    ),
    (
        with_node(replace(node_of(2, rebuilt="it was damaged"), data_directory="/a b/data")),
        "note",
        "rebuilt",
        "it was damaged",
        "ledgermq log verify '/a b/data/shard-0/log'",
    ),
    (
        replace(
            HEALTHY,
            members={
                0: members_of(
                    member_of(1), member_of(2), member_of(3, caught_up=False, lag_entries=1_000, lag_bytes=5_000)
                )
            },
        ),
        "warning",
        "behind",
        "node 3, shard 0: the replica is 1,000 entries (5,000 bytes) behind its leader",
        "cluster health",
    ),
    (
        replace(HEALTHY, members={0: members_of(member_of(1), member_of(2), member_of(4), member_of(3, voter=False))}),
        "note",
        "learner",
        "node 3, shard 0: is a learner",
        "cluster promote 3 --shard 0",
    ),
    (
        replace(HEALTHY, members={0: members_of(member_of(1), member_of(2))}),
        "warning",
        "even-voters",
        "shard 0 has 2 voters",
        "add-node",
    ),
    (
        replace(HEALTHY, nodes=OTHERS, security=TLS, members={0: members_of(member_of(1))}),
        "warning",
        "one-voter",
        "one voter",
        "add-node",
    ),
    (
        with_node(replace(node_of(3), shards=())),
        "warning",
        "waiting",
        "node 3 at 127.0.0.1:9873 runs, and is a member of no shard",
        "cluster add-node 3 --address 127.0.0.1:9873",
    ),
    (with_node(node_of(1, clock_offsets_ms={2: 6_000, 3: 10})), "warning", "clock", "node 2: ", "timedatectl"),
    (replace(HEALTHY, figures={2: NodeFigures(0.9)}), "warning", "disk-full", "node 2: its disk is 90% full", "trim"),
    (replace(HEALTHY, figures={2: NodeFigures(0.96)}), "critical", "disk-full", "96% full", "--dry-run"),
    (replace(HEALTHY, figures={2: NodeFigures(0.1, 0.25, 50)}), "warning", "disk-slow", "takes 250 ms", "iostat"),
    (replace(HEALTHY, figures={2: NodeFigures(0.1, repairing=(4,))}), "warning", "damaged", "shard 4", "validate"),
    (
        with_node(replace(node_of(3), version="0.9")),
        "warning",
        "versions",
        "different versions: 0.9 on 1 node, 1.0 on 2 nodes",
        "dev stop && ledgermq dev start",
    ),
    (with_node(node_of(1, feature_level=1)), "note", "feature-level", "feature level 1 of", "cluster info"),
    (
        replace(HEALTHY, groups=(group_of(members=0, lag=1_234),)),
        "warning",
        "group-without-members",
        "consumer group billing has no members, and 1,234 messages wait for it",
        "group describe billing",
    ),
    (
        replace(HEALTHY, groups=(group_of(lag=9, lag_s=1_200),)),
        "warning",
        "group-behind",
        "the oldest 20 minutes old",
        "group describe billing",
    ),
    (replace(HEALTHY, groups=(group_of(dead_letters=1),)), "warning", "dead-letters", "1 dead letter", "dlq list"),
    (replace(HEALTHY, nodes=OTHERS), "warning", "no-tls", "without TLS", "certs provision"),
    (
        replace(HEALTHY, nodes=OTHERS, security=Security(tls=True)),
        "warning",
        "no-authentication",
        "without a proof",
        "authentication = true",
    ),
    (
        replace(HEALTHY, figures={node: NodeFigures(flush="sync" if node == 2 else "async") for node in (1, 2, 3)}),
        "warning",
        "flush-differs",
        "async on node 1 and 3, sync on node 2",
        'flush = "sync"',
    ),
    (replace(HEALTHY, figures={2: NodeFigures(flush="async", write="staged")}), "note", "staged", "node 2", "sync"),
    (
        replace(HEALTHY, holds=(held("nightly", hours=2), held("nightly", hours=3, shard=1))),
        "note",
        "hold",
        "the hold nightly keeps the log of shard 0, 1 since 2026-11-24 21:00 UTC, until 2026-11-25 22:00 UTC",
        "cluster release nightly",
    ),
    (replace(HEALTHY, unanswered=("metrics of node 2: no",)), "note", "not-checked", "metrics of node 2", "info"),
    (
        replace(HEALTHY, certificates={2: CertificateState(NOW + timedelta(20))}),
        "warning",
        "certificate",
        "node 2: its certificate ends on 2026-12-15, in 20 days",
        "certs provision",
    ),
    (replace(HEALTHY, certificates={2: CertificateState(NOW + timedelta(2))}), "critical", "certificate", "2 days", ""),
    (replace(HEALTHY, certificates={2: CertificateState(refusal="expired")}), "critical", "certificate", "expired", ""),
]


@pytest.mark.parametrize(("seen", "urgency", "code", "what", "command"), CASES, ids=[f"{c[1]}-{c[2]}" for c in CASES])
def test_what_is_wrong(seen: Observation, urgency: str, code: str, what: str, command: str) -> None:
    found = [finding for finding in findings(seen, NOW) if finding.code == code and finding.urgency == urgency]
    assert found, [finding.code for finding in findings(seen, NOW)]
    assert what in found[0].what
    assert command in found[0].command


def test_the_most_urgent_comes_first() -> None:
    seen = with_node(node_of(1, feature_level=1, no_writes="full", rebuilt="of damage"))
    seen = replace(seen, groups=(group_of(dead_letters=2),))
    assert [finding.urgency for finding in findings(seen, NOW)] == ["critical", "warning", "note", "note"]


def test_a_broadcast_and_a_small_lag_are_fine() -> None:
    groups = (group_of(strategy="broadcast", members=0, lag=5, lag_s=10.0), group_of(lag=5, lag_s=599.0))
    assert findings(replace(HEALTHY, groups=groups), NOW) == []


def test_the_group_in_which_a_mirror_counts_its_runs_is_never_behind() -> None:
    groups = (group_of(name="ledgermq-mirror-runs@orders-2", members=0, lag=5, lag_s=9_999.0),)
    assert findings(replace(HEALTHY, groups=groups), NOW) == []


def test_figures_of_a_node() -> None:
    text = "\n".join(
        [
            "# HELP ledgermq_disk_use_ratio Used part",
            "ledgermq_disk_use_ratio 0.25",
            'ledgermq_log_flush_duration_seconds_bucket{le="0.1"} 3.0',
            "ledgermq_log_flush_duration_seconds_sum 1.5",
            "ledgermq_log_flush_duration_seconds_count 30.0",
            'ledgermq_log_damaged{shard="3"} 1.0',
            'ledgermq_log_damaged{shard="4"} 0.0',
            'ledgermq_transaction_oldest_seconds{shard="1"} 61.5',
            'ledgermq_transaction_oldest_seconds{shard="0"} 0.0',
            "ledgermq_disk_use_ratio nonsense more",
            "ledgermq_disk_use_ratio nonsense",
            'ledgermq_node_info{cluster="flush=\\"",flush="sync",node="1",version="1.0",write="staged"} 1.0',
        ]
    )
    assert figures_of(text) == NodeFigures(0.25, 0.05, 30, (3,), "sync", "staged", ((1, 61.5),))
    assert figures_of("") == NodeFigures()
