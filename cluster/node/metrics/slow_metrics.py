"""The metric of slow requests, read at each scrape."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from cluster.node.metrics.definition import SeriesBound, counter
from ledger.broker.slow.slow_requests import KINDS, SlowRequests
from ledger.slow_request import SLOWEST_PARTS

SLOW_REQUESTS = counter(
    "ledgermq_slow_requests_total",
    "Requests that took longer than `slow_request_ms`, by kind and by the longest part of their time.",
    ["kind", "part"],
    SeriesBound(len(KINDS) * len(SLOWEST_PARTS), f"{len(KINDS)} kinds, and {len(SLOWEST_PARTS)} parts"),
)

SLOW = (SLOW_REQUESTS,)


class SlowRequestCollector:
    """A Prometheus collector of the requests that took longer than `slow_request_ms`."""

    def __init__(self, slow: SlowRequests) -> None:
        self._slow = slow

    def collect(self) -> Iterator[Metric]:
        family = SLOW_REQUESTS.family()
        for labels, count in sorted(self._slow.counts.items()):
            family.add_metric(labels, count)
        yield family
