"""Shows in traces of OpenTelemetry what a node did with the requests of producers that trace.

    send orders                       the producer
    └── produce orders                this node, the leader
        ├── queue, turn, write, commit, apply, answer
        ├── flush                     this node's own flush
        └── replicate to node 3       until the follower's acknowledgement

The spans are made when the request is answered, from what the driver remembers of its entries (`raft/entry_times.py`).
So a request that is not traced costs nothing, and nodes tell each other nothing about traces (ADR 0016). The trace of a
request is that of the first traced batch in it.
"""

from __future__ import annotations

import re
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from ledger.slow_request import SlowRequest
from ledger.version import VERSION

_TRACEPARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NS = 1_000_000


class NodeSpans:
    """Makes the spans of one node. Implements `ledger.broker.slow.slow_requests.RequestTracer`."""

    def __init__(self, node: int, provider: TracerProvider) -> None:
        self._node = node
        self._provider = provider
        self._tracer = provider.get_tracer("ledgermq", VERSION)

    def stop(self) -> None:
        """Send the spans that wait, and end the exporter. May wait for some seconds."""
        self._provider.shutdown()

    def produced(self, request: SlowRequest, traceparent: str) -> None:
        """Make the spans of a produce request, if its context is valid and sampled."""
        parent = _parent(traceparent)
        if parent is None:
            return
        began_ns = request.began_ms * _NS
        span = self._tracer.start_span(
            f"produce {request.topic}",
            context=parent,
            kind=SpanKind.SERVER,
            attributes={
                "messaging.system": "ledgermq",
                "messaging.destination.name": request.topic,
                "messaging.destination.partition.id": str(request.queue),
                "messaging.client.id": request.client.name,
                "messaging.ledgermq.node": self._node,
                "messaging.ledgermq.shard": request.shard,
                "messaging.ledgermq.entry.index": request.index,
                "messaging.ledgermq.batches": request.count,
            },
            start_time=began_ns,
        )
        context = trace.set_span_in_context(span)
        at_ms, written_ms = 0.0, None
        for part in request.parts:
            self._child(part.name, context, began_ns, at_ms, part.ms)
            at_ms += part.ms
            if part.name == "write":
                written_ms = at_ms
        if written_ms is not None and request.flush_ms is not None:
            self._child("flush", context, began_ns, written_ms, request.flush_ms)
        for follower in request.followers:
            if written_ms is not None and follower.ms is not None:
                self._child(
                    f"replicate to node {follower.node}",
                    context,
                    began_ns,
                    written_ms,
                    follower.ms,
                    {"messaging.ledgermq.follower": follower.node},
                )
        if request.error:
            span.set_attribute("error.type", request.error)
            span.set_status(Status(StatusCode.ERROR, request.error))
        span.end(began_ns + round(request.total_ms * _NS))

    def _child(
        self,
        name: str,
        context: Any,
        began_ns: int,
        from_ms: float,
        ms: float,
        attributes: dict[str, int] | None = None,
    ) -> None:
        start_ns = began_ns + round(from_ms * _NS)
        child = self._tracer.start_span(name, context=context, start_time=start_ns, attributes=attributes)
        child.end(start_ns + round(ms * _NS))


def node_spans(endpoint: str, node: int, cluster: str) -> NodeSpans:
    """Return the spans of a node, which an exporter sends to the OTLP collector at `endpoint`, such as
    "http://127.0.0.1:4317". Raises ModuleNotFoundError if the exporter is not installed."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # here: tests need only the SDK

    resource = Resource.create(
        {
            "service.name": "ledgermq",
            "service.namespace": cluster,
            "service.instance.id": str(node),
            "service.version": VERSION,
        }
    )
    provider = TracerProvider(resource=resource)  # samples as the parent does: a request without one has no spans
    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=not endpoint.startswith("https://"))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return NodeSpans(node, provider)


def _parent(traceparent: str) -> Any:
    """Return the context in a traceparent of W3C's version 00, or None if it is not valid, or not sampled."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    flags = TraceFlags(int(found[3], 16))
    context = SpanContext(int(found[1], 16), int(found[2], 16), is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(context)) if context.is_valid and flags.sampled else None
