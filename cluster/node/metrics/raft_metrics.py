"""Reads the metrics of each shard's log and Raft state at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import Metric

from cluster.node.metrics.definition import (
    PEERS,
    SHARDS,
    MetricDefinition,
    SeriesBound,
    counter,
    gauge,
)
from ledger.broker.broker_replica import BrokerReplica
from raft.core import Role

Figure = Callable[[BrokerReplica], float]


def _gauge(name: str, text: str, figure: Figure) -> tuple[MetricDefinition, Figure]:
    return gauge(f"ledgermq_{name}", text, ["shard"], SHARDS), figure


def _counter(name: str, text: str, figure: Figure) -> tuple[MetricDefinition, Figure]:
    return counter(f"ledgermq_{name}", text, ["shard"], SHARDS), figure


def _members(replica: BrokerReplica) -> int:
    configuration = replica.membership.configuration
    return len(configuration.members) if configuration else 0


def _learners(replica: BrokerReplica) -> int:
    configuration = replica.membership.configuration
    return len(configuration.learners) if configuration else 0


def _dropped_bytes(replica: BrokerReplica) -> int:
    return replica.driver.log_start.dropped_bytes if replica.driver.log_start else 0


# What has one value for each replica.
FIGURES: tuple[tuple[MetricDefinition, Figure], ...] = (
    _gauge("raft_term", "The current term.", lambda replica: replica.driver.raft.term),
    _gauge("raft_has_leader", "1 when this node knows a leader.", lambda replica: replica.driver.raft.leader != 0),
    _gauge("raft_is_leader", "1 when this node leads.", lambda replica: replica.driver.leads),
    _gauge("raft_last_index", "Index of the last entry in the log.", lambda replica: replica.log.last_index),
    _gauge(
        "raft_commit_index", "Index up to which a majority has the log.", lambda replica: replica.driver.raft.commit
    ),
    _gauge(
        "raft_applied_index",
        "Index up to which this node has applied the log.",
        lambda replica: replica.driver.applied,
    ),
    _gauge("raft_proposals_pending", "Proposals that are not committed yet.", lambda replica: replica.driver.backlog),
    _gauge(
        "raft_uncommitted_bytes",
        "On the leader: bytes of its proposals that are not committed yet.",
        lambda replica: replica.driver.raft.uncommitted_bytes,
    ),
    _gauge(
        "raft_failed",
        "1 when this node's disk failed under this shard.",
        lambda replica: replica.driver.failure is not None,
    ),
    _gauge(
        "raft_refuses_writes",
        "1 while this node takes no writes of clients, because of its disk.",
        lambda replica: not replica.driver.raft.takes_writes,
    ),
    _gauge(
        "raft_suspect",
        "1 while this node may have lost entries that it acknowledged.",
        lambda replica: replica.driver.raft.is_suspect,
    ),
    _gauge(
        "raft_feature_level",
        "The feature level of the replicated state.",
        lambda replica: replica.state.feature_level,
    ),
    _gauge(
        "raft_stopped",
        "1 when this node cannot apply a committed entry, so it applies no more entries.",
        lambda replica: replica.driver.cannot_apply is not None,
    ),
    _gauge(
        "raft_diverged",
        "Members whose log contradicts this node's log. Above 0: no writes.",
        lambda replica: len(replica.driver.raft.divergences),
    ),
    _gauge(
        "raft_unacknowledged",
        "1 on a leader that cannot commit, because followers acknowledge no entries.",
        lambda replica: replica.driver.raft.is_unacknowledged,
    ),
    _gauge("raft_members", "Voters and learners of the configuration that this node has applied.", _members),
    _gauge("raft_learners", "Learners of the configuration that this node has applied.", _learners),
    _counter(
        "raft_leader_changes_seen_total",
        "Changes of leader that this node saw.",
        lambda replica: replica.leader_changes,
    ),
    _counter(
        "raft_proposals_failed_total",
        "Proposals that this node gave up, because it stopped leading or its disk refused the write.",
        lambda replica: replica.driver.given_up,
    ),
    _counter(
        "raft_losses_accepted_total",
        "Elections of this node by votes of nodes that may have lost entries they acknowledged.",
        lambda replica: replica.losses_accepted,
    ),
    _counter(
        "raft_streams_reopened_total",
        "Streams to followers that this leader opened again, because a follower only answered heartbeats.",
        lambda replica: replica.streams_reopened,
    ),
    _gauge(
        "log_end_position_bytes",
        "Position of the end of the log: its bytes since its first entry.",
        lambda replica: replica.log.end,
    ),
    _gauge("log_first_index", "Index of the first entry in the log.", lambda replica: replica.log.first_index),
    _gauge("log_kept_bytes", "Bytes of the log that are kept.", lambda replica: replica.log.end - replica.log.start),
    _counter(
        "log_dropped_bytes_total", "Bytes of the log that this node removed by moving the log start.", _dropped_bytes
    ),
    _gauge("log_holds", "Holds on the log, which retention respects.", lambda replica: len(replica.state.holds)),
    _gauge(
        "log_dirty_bytes",
        "Bytes written to the log since its last flush began.",
        lambda replica: replica.log.segments.dirty_bytes,
    ),
    _gauge(
        "log_staged_bytes",
        "Bytes of the log that are only in memory, with `write = staged`.",
        lambda replica: replica.log.segments.staged_bytes,
    ),
    _gauge(
        "message_ids",
        "Message ids that the shard remembers, so that a repeated send gets the first result.",
        lambda replica: len(replica.state.message_ids),
    ),
)

ROLE = gauge(
    "ledgermq_raft_role",
    "1 for this node's present role.",
    ["shard", "role"],
    SeriesBound(SHARDS.most * len(Role), f"{SHARDS.reason}, {len(Role)} roles"),
)
FOLLOWER_LAG = gauge(
    "ledgermq_raft_follower_lag_entries",
    "On the leader: entries that a follower does not have yet.",
    ["shard", "peer"],
    PEERS,
)
LAST_CONTACT = gauge(
    "ledgermq_raft_peer_last_contact_seconds",
    "On the leader: time since a member last answered.",
    ["shard", "peer"],
    PEERS,
)
CLOCK_OFFSET = gauge(
    "ledgermq_clock_offset_seconds",
    "On the leader: how far a voter's wall clock is ahead of the clocks of a majority, or behind (negative).",
    ["shard", "peer"],
    SeriesBound(PEERS.most + SHARDS.most, f"{SHARDS.reason}, and the voters of each"),
)
REFUSED_MESSAGES = counter(
    "ledgermq_raft_refused_messages_total", "Messages in the name of another node that no correct node sends."
)

RAFT = (*(definition for definition, _ in FIGURES), ROLE, FOLLOWER_LAG, LAST_CONTACT, CLOCK_OFFSET, REFUSED_MESSAGES)


class RaftCollector:
    """A Prometheus collector of the metrics of each shard's log and Raft state, for `CollectorRegistry.register`."""

    def __init__(
        self, replicas: Iterable[BrokerReplica], refused_messages: Callable[[], int], *, tick_s: float
    ) -> None:
        """At each scrape, `replicas` yields the replicas that have started on this node. `refused_messages()` returns
        the number of messages of other nodes that this node refused. `tick_s` is the length of one tick of Raft's
        clock."""
        self._replicas = replicas
        self._refused_messages = refused_messages
        self._tick_s = tick_s

    def collect(self) -> Iterator[Metric]:
        figures = [(definition.family(), figure) for definition, figure in FIGURES]
        role, lag, contact, clocks = (each.family() for each in (ROLE, FOLLOWER_LAG, LAST_CONTACT, CLOCK_OFFSET))
        refused = REFUSED_MESSAGES.family()
        refused.add_metric([], self._refused_messages())
        for replica in self._replicas:
            driver, shard = replica.driver, str(replica.shard)
            for family, figure in figures:
                family.add_metric([shard], figure(replica))
            for each in Role:
                role.add_metric([shard, each.value], driver.raft.role is each)
            for peer, progress in driver.raft.progress.items():
                lag.add_metric([shard, str(peer)], replica.log.last_index - progress.match)
            for peer, ticks in driver.raft.silent_ticks.items():
                contact.add_metric([shard, str(peer)], ticks * self._tick_s)
            for peer, offset_ms in driver.clock_offsets_ms.items():
                clocks.add_metric([shard, str(peer)], offset_ms / 1000)
        yield from (*(family for family, _ in figures), role, lag, contact, clocks, refused)
