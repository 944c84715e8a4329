"""Writes the metrics of a node in a format that the caller reads: Prometheus's text format, or OpenMetrics.

The library prometheus_client adds a series `..._created` to each counter and each histogram. Nothing here uses them,
and they would be nearly half of all series of a node with many topics. The library has a switch for them, which counts
for the whole process. The process can be a user's program with metrics of its own, so `_Wanted` leaves these series out
of the answer instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

TEXT = CONTENT_TYPE_PLAIN_0_0_4
OPENMETRICS = openmetrics.CONTENT_TYPE_LATEST

_MAX_ACCEPT = 2_000


class _Wanted:
    """The metrics of a registry without the series `..._created`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if sample.name != f"{metric.name}_created"]
            yield metric


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return the metrics, and their content type. `accept` is the header Accept of the request, or ""."""
    if prefers_openmetrics(accept):
        body: bytes = openmetrics.generate_latest(_Wanted(registry))  # type: ignore[no-untyped-call]
        return body, OPENMETRICS
    return generate_latest(_Wanted(registry)), TEXT


def prefers_openmetrics(accept: str) -> bool:
    """Return True if this header Accept asks for version 1.0.0 of OpenMetrics, and for no text format more than for
    that. Every other header gets the text format, which every version of Prometheus reads."""
    wanted = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for media_range in accept[:_MAX_ACCEPT].split(","):
        kind, *parameters = (part.strip().lower() for part in media_range.split(";"))
        values = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        if kind in wanted and values.get("version", "1.0.0") in ("1.0.0", "0.0.4"):
            wanted[kind] = max(wanted[kind], _quality(values.get("q", "1")))
    return 0 < wanted["application/openmetrics-text"] >= wanted["text/plain"]


def _quality(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 0.0
