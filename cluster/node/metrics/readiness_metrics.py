"""What `/readyz` says, and when the certificate of the node ends, read at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client.core import Metric

from cluster.node.metrics.definition import gauge

READY = gauge("ledgermq_node_ready", "1 while `/readyz` says that clients can use this node.")
TAKES_WRITES = gauge("ledgermq_node_takes_writes", "1 while `/readyz` says that this node takes writes.")
CERTIFICATE_END = gauge(
    "ledgermq_tls_certificate_not_after_timestamp_seconds",
    "When the TLS certificate of this node ends, in seconds since 1970; missing without TLS.",
)

READINESS = (READY, TAKES_WRITES, CERTIFICATE_END)


class ReadinessCollector:
    """A Prometheus collector, for `CollectorRegistry.register`."""

    def __init__(
        self,
        not_ready: Callable[[], str],
        no_writes: Callable[[], str],
        certificate_end: Callable[[], datetime] | None,
    ) -> None:
        """The first two functions return the reasons that `/readyz` tells, or "". `certificate_end` is None without
        TLS."""
        self._not_ready = not_ready
        self._no_writes = no_writes
        self._certificate_end = certificate_end

    def collect(self) -> Iterator[Metric]:
        not_ready = self._not_ready()
        ready, writes, end = (definition.family() for definition in READINESS)
        ready.add_metric([], not not_ready)
        writes.add_metric([], not (not_ready or self._no_writes()))
        if self._certificate_end is not None:
            end.add_metric([], self._certificate_end().timestamp())
        yield from (ready, writes, end)
