"""How many requests the gRPC methods of a node got, read at each scrape."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from cluster.node.delivered import Received
from cluster.node.metrics.definition import counter

REQUESTS = counter(
    "ledgermq_grpc_requests_total",
    "Requests that the gRPC methods of this node got, from clients and nodes; on a stream, each message is one.",
)
REQUEST_BYTES = counter("ledgermq_grpc_request_bytes_total", "Bytes of these requests.")

REQUEST_METRICS = (REQUESTS, REQUEST_BYTES)


class RequestCollector:
    """A Prometheus collector, for `CollectorRegistry.register`."""

    def __init__(self, total: Received) -> None:
        """`total` counts the requests of all connections."""
        self._total = total

    def collect(self) -> Iterator[Metric]:
        for definition, value in ((REQUESTS, self._total.requests), (REQUEST_BYTES, self._total.bytes)):
            family = definition.family()
            family.add_metric([], value)
            yield family
