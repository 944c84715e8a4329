"""Makes a span of OpenTelemetry around each call of a listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger.client.spans import ClientSpans


def traced_listener(listener: Callable[..., Any], spans: ClientSpans, group: str, *, is_async: bool) -> Any:
    """Return a listener that calls `listener` in a span. `is_async` says whether calls of `listener` are coroutines;
    then those of the returned listener are coroutines too."""
    if is_async:

        async def traced(message: Any) -> Any:
            with spans.process(message, group):
                return await listener(message)

        return traced

    def traced_now(message: Any) -> Any:
        with spans.process(message, group):
            return listener(message)

    return traced_now
