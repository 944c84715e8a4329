"""The metrics of the front for RocketMQ's clients, read at each scrape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class FrontCounts(Protocol):
    """The interface through which `RocketmqCollector` reads the front."""

    @property
    def clients(self) -> int: ...
    @property
    def waiting_receives(self) -> int: ...
    @property
    def renewed_leases(self) -> int: ...
    @property
    def refusals(self) -> Mapping[tuple[str, str], int]:
        """How many requests were refused, by method and code."""


class RocketmqCollector:
    """A Prometheus collector, for `CollectorRegistry.register`."""

    def __init__(self, front: FrontCounts) -> None:
        self._front = front

    def collect(self) -> Iterator[Metric]:
        front = self._front
        yield GaugeMetricFamily(
            "ledgermq_rocketmq_clients", "RocketMQ clients that were heard of lately.", value=front.clients
        )
        yield GaugeMetricFamily(
            "ledgermq_rocketmq_receives", "Receives of RocketMQ consumers that wait.", value=front.waiting_receives
        )
        yield GaugeMetricFamily(
            "ledgermq_rocketmq_renewed_leases",
            "Leases that this node extends for push consumers.",
            value=front.renewed_leases,
        )
        refused = CounterMetricFamily(
            "ledgermq_rocketmq_refused",
            "Requests of RocketMQ clients that were refused, by method and code.",
            labels=["method", "code"],
        )
        for labels, count in sorted(front.refusals.items()):
            refused.add_metric(labels, count)
        yield refused
