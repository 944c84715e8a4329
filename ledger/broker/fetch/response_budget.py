"""Limits the memory that responses need until clients have received them.

The broker builds a whole response in memory, and a slow client can take long to receive it. While the responses that
are not sent yet exceed the limit, this node reads no more messages for any client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ledger.errors import BusyError

MOST_BYTES = 256 << 20


class OngoingCall(Protocol):
    """A client's gRPC call whose response is not sent yet."""

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Run `callback(call)` after this call has ended."""


class ResponseBudget:
    """Counts the bytes of responses that one node has not sent yet. The count can exceed the limit by at most one
    response."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.bytes_under_way = 0  # >= 0
        self._most_bytes = most_bytes

    def check_room(self) -> None:
        """Raise BusyError if the bytes of responses that are not sent yet have reached the limit."""
        if self.bytes_under_way >= self._most_bytes:
            raise BusyError(f"{self.bytes_under_way} bytes of responses are not sent yet: try again shortly")

    def leaves(self, size: int, call: OngoingCall) -> None:
        """Count the `size` bytes of a response as not sent until the gRPC call of the response has ended."""

        def has_left(_: object) -> None:
            self.bytes_under_way -= size

        self.bytes_under_way += size
        call.add_done_callback(has_left)
