"""The interface through which a broker counts what it does."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Counts requests. `size` is in bytes."""

    def produced(self, topic: str, messages: int, size: int, seconds: float) -> None:
        """A batch was committed, `seconds` after it was proposed."""

    def repeated(self) -> None:
        """A batch repeated an earlier batch and received its result."""

    def refused(self, code: str) -> None:
        """A batch was refused with this error code."""

    def fetched(self, topic: str, messages: int, size: int) -> None:
        """A fetch returned messages of a topic."""

    def throttled(self, kind: str) -> None:
        """A client exceeded its quota. `kind` is "producer" or "consumer"."""
