"""Defines the metrics of one node. The names of the metrics follow the rules of Prometheus: base units, `_total` on
counters, and labels with a bounded number of values.

`RaftCollector` reads the present state of logs and Raft at each scrape. `Meters` counts events as they happen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cluster.process_use import private_bytes
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.label_names import LabelNames
from ledger.version import VERSION
from raft.core import Role
from store import CommitLog, EntryDraft, Header, Readable

LATENCY_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
LAG_PROBE_S = 0.1


class Meters:
    """`Meters` has the counters and histograms of a node, which are updated as events happen. A node has one
    `Meters` object."""

    def __init__(
        self, registry: CollectorRegistry, cluster: str, node: int, *, flush: str = "async", write: str = "direct"
    ) -> None:
        def counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(name, text, buckets=LATENCY_BUCKETS_S, registry=registry)

        self.messages_in = counter(
            "ledgermq_messages_in_total", "Messages of producers committed while this node led.", ["topic"]
        )
        self.bytes_in = counter("ledgermq_bytes_in_total", "Bytes of batches committed while this node led.", ["topic"])
        self.messages_out = counter("ledgermq_messages_out_total", "Messages given to consumers.", ["topic"])
        self.bytes_out = counter("ledgermq_bytes_out_total", "Bytes of batches given to consumers.", ["topic"])
        self.bytes_cut = counter(
            "ledgermq_cut_bytes_total",
            "Bytes not given to consumers with tags, because batches were cut.",
            ["topic"],
        )
        self._topics = LabelNames()
        # Kept by topic, because a search by label costs more than counting.
        self._produced: dict[str, tuple[Counter, Counter]] = {}
        self.duplicates = counter(
            "ledgermq_produce_duplicates_total", "Repeated batches answered with the result of the first one."
        )
        self.throttlings = counter(
            "ledgermq_throttled_total", "Requests refused because a client exceeded its quota, by kind.", ["kind"]
        )
        self.timed_delivered = counter(
            "ledgermq_timed_delivered_total", "Messages delivered at their delivery times while this node led."
        )
        self.timed_cancelled = counter(
            "ledgermq_timed_cancelled_total", "Waiting messages cancelled while this node led."
        )
        self.timed_lateness_seconds = histogram(
            "ledgermq_timed_lateness_seconds",
            "From the earliest delivery time of messages that are delivered together to their append.",
        )
        self.refusals = counter("ledgermq_produce_refusals_total", "Batches refused, by code.", ["code"])
        self.commit_seconds = histogram("ledgermq_raft_commit_duration_seconds", "From a proposal to its commit.")
        self.append_seconds = histogram("ledgermq_log_append_duration_seconds", "One group write to the CommitLog.")
        self.flush_seconds = histogram("ledgermq_log_flush_duration_seconds", "One fsync of the CommitLog.")
        self.loop_lag_seconds = histogram("ledgermq_event_loop_lag_seconds", "Delay of a timer of the event loop.")
        self.log_damaged = Gauge(
            "ledgermq_log_damaged", "1 while this node repairs a damaged log.", ["shard"], registry=registry
        )
        self.repaired_bytes = counter(
            "ledgermq_log_repaired_bytes_total", "Bytes of a damaged log replaced from other nodes.", ["shard"]
        )
        self.checkpoints_ignored = counter(
            "ledgermq_checkpoints_ignored_total",
            "Starts that found a damaged checkpoint or index, and built state and indexes anew from the log.",
            ["shard"],
        )
        self.clock_leaps = counter(
            "ledgermq_clock_leaps_total", "Leaps of this node's wall clock against its steady clock."
        )
        self.disk_use_ratio = Gauge(
            "ledgermq_disk_use_ratio", "Used part of the log's disk, by all programs, from 0 to 1.", registry=registry
        )
        ProcessCollector(registry=registry)
        Gauge(
            "ledgermq_process_private_memory_bytes", "Memory of this process without mapped files.", registry=registry
        ).set_function(private_bytes)
        info = Gauge(
            "ledgermq_node_info",
            "Always 1; the labels describe this node.",
            ["cluster", "node", "version", "flush", "write"],
            registry=registry,
        )
        info.labels(cluster, str(node), VERSION, flush, write).set(1)

    def produced(self, topic: str, messages: int, size: int, seconds: float) -> None:
        topic = self._topics.label(topic)
        counters = self._produced.get(topic)
        if counters is None:
            counters = self._produced[topic] = (self.messages_in.labels(topic), self.bytes_in.labels(topic))
        counters[0].inc(messages)
        counters[1].inc(size)
        self.commit_seconds.observe(seconds)

    def repeated(self) -> None:
        self.duplicates.inc()

    def refused(self, code: str) -> None:
        self.refusals.labels(code).inc()

    def delivered(self, messages: int, lateness_s: float) -> None:
        self.timed_delivered.inc(messages)
        self.timed_lateness_seconds.observe(max(0.0, lateness_s))

    def cancelled(self, messages: int) -> None:
        self.timed_cancelled.inc(messages)

    def throttled(self, kind: str) -> None:
        self.throttlings.labels(kind).inc()

    def fetched(self, topic: str, messages: int, size: int, saved: int) -> None:
        topic = self._topics.label(topic)
        self.messages_out.labels(topic).inc(messages)
        self.bytes_out.labels(topic).inc(size)
        if saved:
            self.bytes_cut.labels(topic).inc(saved)

    async def probe_loop_lag(self) -> None:
        """Measure how late the event loop wakes this task, until the task is cancelled."""
        while True:
            due = time.perf_counter() + LAG_PROBE_S
            await asyncio.sleep(LAG_PROBE_S)
            self.loop_lag_seconds.observe(max(0.0, time.perf_counter() - due))


class MeasuredLog(CommitLog):
    """A CommitLog that calls `observe` with the seconds that each group write took."""

    observe: Callable[[float], None]
    clock_ms: Callable[[], float]

    def append(self, drafts: Sequence[EntryDraft], *, term: int, commit: int, now_ms: int) -> list[Header]:
        started = self.clock_ms()
        headers = super().append(drafts, term=term, commit=commit, now_ms=now_ms)
        self.observe((self.clock_ms() - started) / 1000)
        return headers

    def write(self, data: Readable, headers: list[Header], first: int) -> None:
        started = self.clock_ms()
        super().write(data, headers, first)
        self.observe((self.clock_ms() - started) / 1000)


class RaftCollector:
    """A Prometheus collector of the metrics of each shard's log and Raft state, for `CollectorRegistry.register`."""

    def __init__(self, replicas: Iterable[BrokerReplica], refused_messages: Callable[[], int]) -> None:
        """At each scrape, `replicas` yields the replicas that have started on this node. `refused_messages()` returns
        the number of messages of other nodes that this node refused."""
        self._replicas = replicas
        self._refused_messages = refused_messages

    def collect(self) -> Iterator[Metric]:
        role = GaugeMetricFamily("ledgermq_raft_role", "1 for this node's present role.", labels=["shard", "role"])
        changes = CounterMetricFamily(
            "ledgermq_raft_leader_changes_seen", "Changes of leader that this node saw.", labels=["shard"]
        )
        lag = GaugeMetricFamily(
            "ledgermq_raft_follower_lag_entries",
            "On the leader: entries that a follower does not have yet.",
            labels=["shard", "peer"],
        )
        plain = {
            name: GaugeMetricFamily(f"ledgermq_{name}", text, labels=["shard"])
            for name, text in (
                ("raft_term", "The current term."),
                ("raft_has_leader", "1 when this node knows a leader."),
                ("raft_is_leader", "1 when this node leads."),
                ("raft_last_index", "Index of the last entry in the log."),
                ("raft_commit_index", "Index up to which a majority has the log."),
                ("raft_applied_index", "Index up to which this node has applied the log."),
                ("raft_proposals_pending", "Proposals that are not committed yet."),
                ("raft_failed", "1 when this node's disk failed under this shard."),
                (
                    "raft_refuses_writes",
                    "1 while this node takes no writes of clients, because of its disk.",
                ),
                ("raft_suspect", "1 while this node may have lost entries that it acknowledged."),
                ("raft_feature_level", "The feature level of the replicated state."),
                ("raft_stopped", "1 when this node cannot apply a committed entry, so it applies no more entries."),
                (
                    "raft_diverged",
                    "Members whose log contradicts this node's log. Above 0: no writes.",
                ),
                ("raft_unacknowledged", "1 on a leader that cannot commit, because followers acknowledge no entries."),
                ("raft_members", "Voters and learners of the configuration that this node has applied."),
                ("raft_learners", "Learners of the configuration that this node has applied."),
                ("log_end_position_bytes", "Position of the end of the log: its bytes since its first entry."),
                ("log_first_index", "Index of the first entry in the log."),
                ("log_kept_bytes", "Bytes of the log that are kept."),
                ("log_holds", "Holds on the log, which retention respects."),
                ("log_dirty_bytes", "Bytes written to the log since its last flush began."),
                ("log_staged_bytes", "Bytes of the log that are only in memory, with `write = staged`."),
                ("message_ids", "Message ids that the shard remembers, so that a repeated send gets the first result."),
            )
        }
        losses = CounterMetricFamily(
            "ledgermq_raft_losses_accepted",
            "Elections of this node by votes of nodes that may have lost entries they acknowledged.",
            labels=["shard"],
        )
        reopened = CounterMetricFamily(
            "ledgermq_raft_streams_reopened",
            "Streams to followers that this leader opened again, because a follower only answered heartbeats.",
            labels=["shard"],
        )
        dropped = CounterMetricFamily(
            "ledgermq_log_dropped_bytes",
            "Bytes of the log that this node removed by moving the log start.",
            labels=["shard"],
        )
        clocks = GaugeMetricFamily(
            "ledgermq_clock_offset_seconds",
            "On the leader: how far a voter's wall clock is ahead of the clocks of a majority, or behind (negative).",
            labels=["shard", "peer"],
        )
        refused = CounterMetricFamily(
            "ledgermq_raft_refused_messages",
            "Messages in the name of another node that no correct node sends.",
            value=self._refused_messages(),
        )
        for replica in self._replicas:
            driver, log, members = replica.driver, replica.log, replica.membership.configuration
            raft, label = driver.raft, [str(replica.shard)]
            for name, value in {
                "raft_term": raft.term,
                "raft_has_leader": int(raft.leader != 0),
                "raft_is_leader": int(driver.leads),
                "raft_last_index": log.last_index,
                "raft_commit_index": raft.commit,
                "raft_applied_index": driver.applied,
                "raft_proposals_pending": driver.backlog,
                "raft_failed": int(driver.failure is not None),
                "raft_refuses_writes": int(not raft.takes_writes),
                "raft_suspect": int(raft.is_suspect),
                "raft_feature_level": replica.state.feature_level,
                "raft_stopped": int(driver.cannot_apply is not None),
                "raft_diverged": len(raft.divergences),
                "raft_unacknowledged": int(raft.is_unacknowledged),
                "raft_members": len(members.members) if members else 0,
                "raft_learners": len(members.learners) if members else 0,
                "log_end_position_bytes": log.end,
                "log_first_index": log.first_index,
                "log_kept_bytes": log.end - log.start,
                "log_holds": len(replica.state.holds),
                "log_dirty_bytes": log.segments.dirty_bytes,
                "log_staged_bytes": log.segments.staged_bytes,
                "message_ids": len(replica.state.message_ids),
            }.items():
                plain[name].add_metric(label, value)
            for each in Role:
                role.add_metric([*label, each.value], int(raft.role is each))
            for peer, progress in raft.progress.items():
                lag.add_metric([*label, str(peer)], log.last_index - progress.match)
            for peer, offset_ms in driver.clock_offsets_ms.items():
                clocks.add_metric([*label, str(peer)], offset_ms / 1000)
            changes.add_metric(label, replica.leader_changes)
            losses.add_metric(label, replica.losses_accepted)
            reopened.add_metric(label, replica.streams_reopened)
            dropped.add_metric(label, driver.log_start.dropped_bytes if driver.log_start else 0)
        yield from (*plain.values(), role, lag, clocks, changes, losses, reopened, dropped, refused)
