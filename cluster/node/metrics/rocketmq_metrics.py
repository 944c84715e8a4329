"""The metrics of the front for RocketMQ's clients, read at each scrape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.core import Metric

from cluster.node.metrics.definition import SeriesBound, counter, gauge

# More than the methods of RocketMQ's protocols, and the codes of their answers.
_METHODS, _CODES = 40, 60

CLIENTS = gauge("ledgermq_rocketmq_clients", "RocketMQ clients that were heard of lately.")
RECEIVES = gauge("ledgermq_rocketmq_receives", "Receives of RocketMQ consumers that wait.")
RENEWED = gauge("ledgermq_rocketmq_renewed_leases", "Leases that this node extends for push consumers.")
REFUSED = counter(
    "ledgermq_rocketmq_refused_total",
    "Requests of RocketMQ clients that were refused, by method and code.",
    ["method", "code"],
    SeriesBound(_METHODS * _CODES, f"fewer than {_METHODS} methods and {_CODES} codes of the protocol"),
)

ROCKETMQ = (CLIENTS, RECEIVES, RENEWED, REFUSED)


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
        for definition, value in (
            (CLIENTS, front.clients),
            (RECEIVES, front.waiting_receives),
            (RENEWED, front.renewed_leases),
        ):
            family = definition.family()
            family.add_metric([], value)
            yield family
        refused = REFUSED.family()
        for labels, count in sorted(front.refusals.items()):
            refused.add_metric(labels, count)
        yield refused
