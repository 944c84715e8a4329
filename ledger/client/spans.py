"""The spans of clients, after OpenTelemetry's semantic conventions for messaging.

    send orders      PRODUCER    from the call of send to its result. Its context is in the headers of the message
    process orders   CONSUMER    while the program works on a message. It is linked to the span of the send

A span that the program's sampler does not keep costs its sampling and nothing more: the message gets no headers, and
the cluster is not told. The conventions are in development (version 1.45), so names of attributes may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from ledger.client.producer.producer_batch import Acknowledged, Receipt
from ledger.client.records import Message
from ledger.errors import LedgerError
from ledger.timed import WaitingMessages
from ledger.version import VERSION

Headers = Sequence[tuple[str, bytes]]


class ClientSpans:
    """Makes the spans of one client."""

    def __init__(self, provider: Any, client_id: str | None = None) -> None:
        """`provider` is the tracer provider; None: the global one."""
        source = trace.get_tracer_provider() if provider is None else provider
        self._tracer = source.get_tracer("ledgermq", VERSION)
        self._client = {"messaging.client.id": client_id} if client_id else {}

    def send(
        self, topic: str, *, count: int = 1, key: bytes | str | None = None, tag: str | None = None
    ) -> SendSpan | None:
        """Begin the span of a send of `count` messages. Return None if the sampler does not keep it."""
        attributes: dict[str, Any] = {
            "messaging.system": "ledgermq",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": topic,
            **self._client,
        }
        if count != 1:
            attributes["messaging.batch.message_count"] = count
        if key is not None:
            attributes["messaging.ledgermq.message.key"] = key if isinstance(key, str) else key.decode(errors="replace")
        if tag is not None:
            attributes["messaging.ledgermq.message.tag"] = tag
        span = self._tracer.start_span(f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        context = span.get_span_context()
        if not (context.is_valid and context.trace_flags.sampled):
            span.end()
            return None
        return SendSpan(topic, span)

    @contextmanager
    def process(self, message: Message[Any], group: str = "") -> Iterator[Span]:
        """Make a span that is current while the program works on the message, and linked to the span of the send. An
        exception is recorded, and the span has failed."""
        attributes: dict[str, Any] = {
            "messaging.system": "ledgermq",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": message.topic,
            "messaging.destination.partition.id": str(message.queue),
            "messaging.message.id": message.id,
            **self._client,
        }
        if group:
            attributes["messaging.consumer.group.name"] = group
        if message.attempt > 1:
            attributes["messaging.ledgermq.message.attempt"] = message.attempt
        sent = trace.get_current_span(sender_context(message.headers)).get_span_context()
        links = [Link(sent)] if sent.is_valid else []
        with self._tracer.start_as_current_span(
            f"process {message.topic}", kind=SpanKind.CONSUMER, attributes=attributes, links=links
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise


class SendSpan:
    """The span of one send, until its result."""

    __slots__ = ("_left", "_span", "_topic", "headers", "traceparent")

    def __init__(self, topic: str, span: Span) -> None:
        self._topic = topic
        self._span = span
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        # What the messages get as headers.
        self.headers = [(name, value.encode()) for name, value in carrier.items()]
        context = span.get_span_context()
        # What the node is told, whatever propagator the program has set.
        self.traceparent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def receipt(self, inner: Receipt) -> TracedReceipt:
        """Return a receipt that passes the result on to `inner`, and ends the span."""
        return TracedReceipt(inner, self)

    def acknowledged(self, queue: int, offset: int, *, duplicate: bool = False) -> None:
        """End the span of a message that got this place."""
        self._span.set_attribute("messaging.destination.partition.id", str(queue))
        self._span.set_attribute("messaging.message.id", f"{self._topic}:{queue}:{offset}")
        if duplicate:
            self._span.set_attribute("messaging.ledgermq.send.duplicate", True)
        self._span.end()

    def ended(self, error: LedgerError | None = None) -> None:
        """End the span of messages that have no single place. `error` says why they were not sent; None: they were."""
        if error is not None:
            self.failed(error)
        else:
            self._span.end()

    def failed(self, error: BaseException) -> None:
        """End the span of a send that failed."""
        code = error.code if isinstance(error, LedgerError) and error.code else type(error).__qualname__
        self._span.set_attribute("error.type", code)
        self._span.set_status(Status(StatusCode.ERROR, str(error)))
        self._span.end()


class TracedReceipt:
    """Passes the result of one message on, and ends the span of its send. Implements Receipt."""

    __slots__ = ("_inner", "_sending")

    def __init__(self, inner: Receipt, sending: SendSpan) -> None:
        self._inner = inner
        self._sending = sending

    def acknowledged(self, queue: int, first_offset: int, count: int, answer: Acknowledged) -> None:
        self._sending.acknowledged(queue, first_offset, duplicate=answer.duplicate)
        self._inner.acknowledged(queue, first_offset, count, answer)

    def scheduled(self, queue: int, waiting: WaitingMessages, answer: Acknowledged) -> None:
        self._sending.ended()
        self._inner.scheduled(queue, waiting, answer)

    def failed(self, error: LedgerError) -> None:
        self._sending.failed(error)
        self._inner.failed(error)


def sender_context(headers: Headers) -> Any:
    """Return the context of OpenTelemetry in the headers of a message, which the propagators of the program read."""
    carrier = {name: value.decode("latin-1") for name, value in headers}
    return propagate.extract(carrier)
