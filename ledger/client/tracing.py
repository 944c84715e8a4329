"""Switches the tracing of a client on: the setting `tracing` of producers and consumers.

    False         no traces (default). The client imports nothing of OpenTelemetry
    True          the spans go to the global tracer provider, which the program has set
    a provider    the spans go to this `opentelemetry.trace.TracerProvider`

The module `spans.py` makes the spans, and alone imports OpenTelemetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ledger.errors import InvalidArgumentError

if TYPE_CHECKING:
    from ledger.client.spans import ClientSpans


class TracerSource(Protocol):
    """What a client needs of a tracer provider. `opentelemetry.trace.TracerProvider` implements it."""

    def get_tracer(self, instrumenting_module_name: str, instrumenting_library_version: str | None = None) -> Any:
        """Return a tracer of OpenTelemetry."""


def client_spans(tracing: bool | TracerSource, client_id: str | None = None) -> ClientSpans | None:
    """Return what makes the spans of a client, or None if `tracing` is False. Raises InvalidArgumentError if
    OpenTelemetry is not installed, or if `tracing` is neither a bool nor a provider."""
    if tracing is False:
        return None
    if tracing is not True and not hasattr(tracing, "get_tracer"):
        raise InvalidArgumentError(
            f"tracing is {tracing!r}: it must be False, True or an opentelemetry.trace.TracerProvider."
        )
    try:
        from ledger.client.spans import ClientSpans  # here, because only clients that trace need OpenTelemetry
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(
            "Tracing needs the package opentelemetry-api: pip install 'ledgermq[otel]'."
        ) from error
    return ClientSpans(None if tracing is True else tracing, client_id)
