"""Lists every metric of a node, in the order of docs/METRICS.md."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.node.metrics.consumption_metrics import CONSUMPTION
from cluster.node.metrics.definition import MetricDefinition, counter, gauge
from cluster.node.metrics.node_metrics import LOG_EVENTS, OF_THE_NODE, TIMED_EVENTS, TRAFFIC
from cluster.node.metrics.placement_metrics import PLACEMENT
from cluster.node.metrics.raft_metrics import RAFT
from cluster.node.metrics.readiness_metrics import READINESS
from cluster.node.metrics.request_metrics import REQUEST_METRICS
from cluster.node.metrics.rocketmq_metrics import ROCKETMQ
from cluster.node.metrics.shared_metrics import SHARED
from cluster.node.metrics.slow_metrics import SLOW
from cluster.node.metrics.timed_metrics import TIMED
from cluster.node.metrics.transaction_metrics import TRANSACTIONS

# The metrics of prometheus_client's ProcessCollector, which have the same names in every program.
PROCESS = (
    counter("process_cpu_seconds_total", "CPU time of the process, in user and system mode."),
    gauge("process_resident_memory_bytes", "Memory of the process, with the pages of mapped files that are loaded."),
    gauge("process_virtual_memory_bytes", "Address space of the process."),
    gauge("process_start_time_seconds", "When the process started, in seconds since 1970."),
    gauge("process_open_fds", "Open files and connections of the process."),
    gauge("process_max_fds", "The limit on open files and connections."),
)


@dataclass(frozen=True, slots=True)
class MetricChapter:
    """Metrics of one subject. `note` says when they are there, or "" if they always are."""

    title: str
    note: str
    metrics: tuple[MetricDefinition, ...]


CHAPTERS = (
    MetricChapter("Node", "", (*READINESS, *OF_THE_NODE)),
    MetricChapter("Traffic", "", (*TRAFFIC, *REQUEST_METRICS, *SLOW)),
    MetricChapter("Shards and their logs", "", (*RAFT, *LOG_EVENTS)),
    MetricChapter("Placement of replicas", "", PLACEMENT),
    MetricChapter("Consumer groups", "A node reports the shards that it leads.", CONSUMPTION),
    MetricChapter("Shared groups", "A node reports the shards that it leads.", SHARED),
    MetricChapter("Messages with delivery times", "", (*TIMED, *TIMED_EVENTS)),
    MetricChapter("Transactions", "", TRANSACTIONS),
    MetricChapter("RocketMQ's clients", "A node without a port for RocketMQ's clients has none of these.", ROCKETMQ),
    MetricChapter("Process", "These metrics have the same names in every program.", PROCESS),
)
METRICS = tuple(metric for chapter in CHAPTERS for metric in chapter.metrics)
