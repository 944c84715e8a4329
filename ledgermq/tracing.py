"""Spans of OpenTelemetry for consumers that read messages in a loop of the program.

    from ledgermq.tracing import process_span

    async for message in consumer:
        with process_span(message):
            ...  # the span "process orders" is current here, and linked to the span of the send

PushConsumer and `SharedConsumer.consume` make these spans themselves if they have the setting `tracing`, and producers
make the spans of sends. Needs `pip install 'ledgermq[otel]'`. docs/GUIDE.md describes the spans.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ledger.client.records import Message
from ledger.client.tracing import TracerSource, client_spans
from ledger.errors import InvalidArgumentError

__all__ = ["TracerSource", "message_context", "process_span"]


def process_span(
    message: Message[Any], *, group: str = "", tracing: bool | TracerSource = True
) -> AbstractContextManager[Any]:
    """Return a context manager that makes a span while the program works on the message. The span is linked to the
    span of the send, and it has failed if the body raises an exception.

        group    the name of the consumer group, for an attribute of the span (default: none)
        tracing  a tracer provider; True (default): the global one

    Raises InvalidArgumentError if OpenTelemetry is not installed.
    """
    spans = client_spans(tracing)
    if spans is None:
        raise InvalidArgumentError("tracing is False: process_span makes a span only with True or a provider.")
    return spans.process(message, group)


def message_context(message: Message[Any]) -> Any:
    """Return the `opentelemetry.context.Context` that the message brings from its producer, for programs that make
    their own spans. Raises InvalidArgumentError if OpenTelemetry is not installed."""
    client_spans(True)
    from ledger.client.spans import sender_context  # here, because only programs that trace need OpenTelemetry

    return sender_context(message.headers)
