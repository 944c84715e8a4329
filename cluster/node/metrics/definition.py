"""Says what a metric is: its name, type, labels and meaning, and how many series of it one node can have.

Each metric is defined once, beside the code that reports it. The code makes its families from the definition, and
docs/METRICS.md is made from the same definition (`document.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from ledger.broker.label_names import MAX_NAMES
from ledger.state.shard_table import MAX_SHARDS

LATENCY_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
# The buckets of a histogram, the bucket for all values, the sum and the count.
SERIES_OF_A_HISTOGRAM = len(LATENCY_BUCKETS_S) + 3
# The size of the cluster for which the bounds of metrics about peers are computed.
NODES = 9

# The words of a name that are units.
_UNITS = ("seconds", "bytes", "ratio", "messages", "entries", "batches")


class MetricKind(Enum):
    """The types of Prometheus that a node uses."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class SeriesBound:
    """How many combinations of labels a metric can have on one node, and what bounds them."""

    most: int
    reason: str


ONE = SeriesBound(1, "one of the node")
SHARDS = SeriesBound(MAX_SHARDS, f"{MAX_SHARDS} shards")
PEERS = SeriesBound(MAX_SHARDS * (NODES - 1), f"{MAX_SHARDS} shards, and the other {NODES - 1} nodes of {NODES}")
TOPICS = SeriesBound(MAX_NAMES + 1, f"the first {MAX_NAMES:,} topics that the node counts, and `(others)`")
GROUPS = SeriesBound(MAX_NAMES + 1, f"{MAX_NAMES:,} consumer groups, and `(others)`")
CODES = SeriesBound(64, "the codes of errors, fewer than 64")


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric, with the name that Prometheus shows."""

    name: str
    kind: MetricKind
    text: str
    labels: tuple[str, ...] = ()
    bound: SeriesBound = ONE

    @property
    def unit(self) -> str:
        """The unit in which the metric counts, "" if it counts things."""
        units = [word for word in self.name.split("_") if word in _UNITS]
        return units[-1] if units else ""

    @property
    def most_series(self) -> int:
        """The largest number of series of one node."""
        return self.bound.most * (SERIES_OF_A_HISTOGRAM if self.kind is MetricKind.HISTOGRAM else 1)

    def family(self) -> CounterMetricFamily | GaugeMetricFamily:
        """Return an empty family, for a collector that reads a present state at each scrape."""
        if self.kind is MetricKind.COUNTER:
            return CounterMetricFamily(self.name.removesuffix("_total"), self.text, labels=self.labels)
        return GaugeMetricFamily(self.name, self.text, labels=self.labels)

    def counter(self, registry: CollectorRegistry) -> Counter:
        """Return a counter that code increases when something happens."""
        return Counter(self.name, self.text, self.labels, registry=registry)

    def gauge(self, registry: CollectorRegistry) -> Gauge:
        """Return a gauge that code sets."""
        return Gauge(self.name, self.text, self.labels, registry=registry)

    def histogram(self, registry: CollectorRegistry) -> Histogram:
        """Return a histogram of times in seconds."""
        return Histogram(self.name, self.text, self.labels, registry=registry, buckets=LATENCY_BUCKETS_S)


def counter(name: str, text: str, labels: Sequence[str] = (), bound: SeriesBound = ONE) -> MetricDefinition:
    return MetricDefinition(name, MetricKind.COUNTER, text, tuple(labels), bound)


def gauge(name: str, text: str, labels: Sequence[str] = (), bound: SeriesBound = ONE) -> MetricDefinition:
    return MetricDefinition(name, MetricKind.GAUGE, text, tuple(labels), bound)


def histogram(name: str, text: str) -> MetricDefinition:
    return MetricDefinition(name, MetricKind.HISTOGRAM, text)
