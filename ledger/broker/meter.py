"""The interface through which a broker counts its work for the metrics."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Counts requests. `size` is in bytes."""

    def produced(self, topic: str, messages: int, size: int, seconds: float) -> None:
        """Count a batch that was committed `seconds` after it was proposed."""

    def repeated(self) -> None:
        """Count a batch that repeated an earlier batch and received the earlier result."""

    def refused(self, code: str) -> None:
        """Count a batch that was refused with this error code."""

    def fetched(self, topic: str, messages: int, size: int, saved: int) -> None:
        """Count the messages of a topic that a fetch returned. `saved` is how many bytes the fetch is smaller because
        batches were cut."""

    def delivered(self, messages: int, lateness_s: float) -> None:
        """Count messages of one queue that were delivered together. `lateness_s` is the time from the earliest of their
        delivery times to their append, in seconds."""

    def cancelled(self, messages: int) -> None:
        """Count waiting messages that were cancelled."""

    def throttled(self, kind: str) -> None:
        """Count a request of a client that exceeded its quota. `kind` is "producer" or "consumer"."""
