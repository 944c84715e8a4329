"""Counts the events of one node for Prometheus, as they happen. The metrics that show a present state are read at each
scrape by the collectors beside this module.

The names of the metrics follow the rules of Prometheus: base units, `_total` on counters, and labels with a bounded
number of values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, ProcessCollector

from cluster.node.metrics.definition import CODES, SHARDS, TOPICS, SeriesBound, counter, gauge, histogram
from cluster.process_use import private_bytes
from ledger.broker.label_names import LabelNames
from ledger.broker.rpc.inspection import Traffic
from ledger.version import VERSION
from store import CommitLog, DiskUsage, EntryDraft, Header, Readable

MESSAGES_IN = counter(
    "ledgermq_messages_in_total", "Messages of producers committed while this node led.", ["topic"], TOPICS
)
BYTES_IN = counter("ledgermq_bytes_in_total", "Bytes of batches committed while this node led.", ["topic"], TOPICS)
MESSAGES_OUT = counter("ledgermq_messages_out_total", "Messages given to consumers.", ["topic"], TOPICS)
BYTES_OUT = counter("ledgermq_bytes_out_total", "Bytes of batches given to consumers.", ["topic"], TOPICS)
BYTES_CUT = counter(
    "ledgermq_cut_bytes_total",
    "Bytes not given to consumers with tags, because batches were cut.",
    ["topic"],
    TOPICS,
)
DUPLICATES = counter("ledgermq_produce_duplicates_total", "Repeated batches answered with the result of the first one.")
REFUSALS = counter("ledgermq_produce_refusals_total", "Batches refused, by code.", ["code"], CODES)
THROTTLINGS = counter(
    "ledgermq_throttled_total",
    "Requests refused because a client exceeded its quota, by kind.",
    ["kind"],
    SeriesBound(2, "`producer` and `consumer`"),
)
TIMED_DELIVERED = counter(
    "ledgermq_timed_delivered_total", "Messages delivered at their delivery times while this node led."
)
TIMED_CANCELLED = counter("ledgermq_timed_cancelled_total", "Waiting messages cancelled while this node led.")
TIMED_LATENESS = histogram(
    "ledgermq_timed_lateness_seconds",
    "From the earliest delivery time of messages that are delivered together to their append.",
)
COMMIT_SECONDS = histogram("ledgermq_raft_commit_duration_seconds", "From a proposal to its commit.")
APPEND_SECONDS = histogram("ledgermq_log_append_duration_seconds", "One group write to the CommitLog.")
FLUSH_SECONDS = histogram("ledgermq_log_flush_duration_seconds", "One fsync of the CommitLog.")
LOOP_LAG = histogram("ledgermq_event_loop_lag_seconds", "Delay of a timer of the event loop.")
LOG_DAMAGED = gauge("ledgermq_log_damaged", "1 while this node repairs a damaged log.", ["shard"], SHARDS)
REPAIRED_BYTES = counter(
    "ledgermq_log_repaired_bytes_total", "Bytes of a damaged log replaced from other nodes.", ["shard"], SHARDS
)
CHECKPOINTS_IGNORED = counter(
    "ledgermq_checkpoints_ignored_total",
    "Starts that found a damaged checkpoint or index, and built state and indexes anew from the log.",
    ["shard"],
    SHARDS,
)
CLOCK_LEAPS = counter("ledgermq_clock_leaps_total", "Leaps of this node's wall clock against its steady clock.")
DISK_USE = gauge("ledgermq_disk_use_ratio", "Used part of the log's disk, by all programs, from 0 to 1.")
DISK_SIZE = gauge("ledgermq_disk_size_bytes", "What this node could use of the log's disk if the disk were empty.")
DISK_FREE = gauge("ledgermq_disk_free_bytes", "What this node can use of the log's disk now.")
PRIVATE_MEMORY = gauge("ledgermq_process_private_memory_bytes", "Memory of this process without mapped files.")
NODE_INFO = gauge(
    "ledgermq_node_info",
    "Always 1; the labels describe this node.",
    ["cluster", "node", "version", "flush", "write"],
)

TRAFFIC = (MESSAGES_IN, BYTES_IN, MESSAGES_OUT, BYTES_OUT, BYTES_CUT, DUPLICATES, REFUSALS, THROTTLINGS)
LOG_EVENTS = (COMMIT_SECONDS, APPEND_SECONDS, FLUSH_SECONDS, LOG_DAMAGED, REPAIRED_BYTES, CHECKPOINTS_IGNORED)
TIMED_EVENTS = (TIMED_DELIVERED, TIMED_CANCELLED, TIMED_LATENESS)
OF_THE_NODE = (NODE_INFO, LOOP_LAG, CLOCK_LEAPS, DISK_USE, DISK_SIZE, DISK_FREE, PRIVATE_MEMORY)


class Meters:
    """`Meters` has the counters and histograms of a node, which are updated as events happen. A node has one
    `Meters` object."""

    def __init__(
        self, registry: CollectorRegistry, cluster: str, node: int, *, flush: str = "async", write: str = "direct"
    ) -> None:
        self.messages_in = MESSAGES_IN.counter(registry)
        self.bytes_in = BYTES_IN.counter(registry)
        self.messages_out = MESSAGES_OUT.counter(registry)
        self.bytes_out = BYTES_OUT.counter(registry)
        self.bytes_cut = BYTES_CUT.counter(registry)
        self._topics = LabelNames()
        # Kept by topic, because a search by label costs more than counting.
        self._produced: dict[str, tuple[Counter, Counter]] = {}
        self.duplicates = DUPLICATES.counter(registry)
        self.throttlings = THROTTLINGS.counter(registry)
        self.timed_delivered = TIMED_DELIVERED.counter(registry)
        self.timed_cancelled = TIMED_CANCELLED.counter(registry)
        self.timed_lateness_seconds = TIMED_LATENESS.histogram(registry)
        self.refusals = REFUSALS.counter(registry)
        self.commit_seconds = COMMIT_SECONDS.histogram(registry)
        self.append_seconds = APPEND_SECONDS.histogram(registry)
        self.flush_seconds = FLUSH_SECONDS.histogram(registry)
        self.loop_lag_seconds = LOOP_LAG.histogram(registry)
        self.log_damaged = LOG_DAMAGED.gauge(registry)
        self.repaired_bytes = REPAIRED_BYTES.counter(registry)
        self.checkpoints_ignored = CHECKPOINTS_IGNORED.counter(registry)
        self.clock_leaps = CLOCK_LEAPS.counter(registry)
        self.disk_use_ratio = DISK_USE.gauge(registry)
        self.disk_size_bytes = DISK_SIZE.gauge(registry)
        self.disk_free_bytes = DISK_FREE.gauge(registry)
        ProcessCollector(registry=registry)
        PRIVATE_MEMORY.gauge(registry).set_function(private_bytes)
        NODE_INFO.gauge(registry).labels(cluster, str(node), VERSION, flush, write).set(1)

    def disk_used(self, usage: DiskUsage) -> None:
        """Take a look at the log's disk."""
        self.disk_use_ratio.set(usage.ratio)
        self.disk_size_bytes.set(usage.total)
        self.disk_free_bytes.set(usage.free)

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

    def traffic(self) -> dict[str, Traffic]:
        """Return what this node has taken and given out since its start, by topic."""
        found: dict[str, Traffic] = {}
        for counted, name in (
            (self.messages_in, "messages_in"),
            (self.bytes_in, "bytes_in"),
            (self.messages_out, "messages_out"),
            (self.bytes_out, "bytes_out"),
        ):
            for family in counted.collect():
                for sample in family.samples:
                    if sample.name.endswith("_total"):
                        setattr(found.setdefault(sample.labels["topic"], Traffic()), name, int(sample.value))
        return found

    def used_part_of_disk(self) -> float:
        """Return the used part of the log's disk, from 0 to 1."""
        return next((sample.value for family in self.disk_use_ratio.collect() for sample in family.samples), 0.0)


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
