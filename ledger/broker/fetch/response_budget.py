"""Limits the memory that responses need until clients have received them.

The broker makes a response at once, and the client receives it at the client's own pace. While the responses that are
not sent yet exceed the limit, this node reads no more messages for any client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ledger.errors import BusyError

MOST_BYTES = 256 << 20


class OngoingCall(Protocol):
    """A call of a client, whose response is not sent yet."""

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call `callback` with the call when the call has ended."""


class ResponseBudget:
    """The bytes of responses of one node that are not sent yet. These bytes may exceed the limit by one response."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.bytes_under_way = 0  # >= 0
        self._most_bytes = most_bytes

    def check_room(self) -> None:
        """Raise BusyError if the limit is reached."""
        if self.bytes_under_way >= self._most_bytes:
            raise BusyError(f"{self.bytes_under_way} bytes of responses are not sent yet: try again shortly")

    def leaves(self, size: int, call: OngoingCall) -> None:
        """Count the `size` bytes of a response until its call has ended."""

        def has_left(_: object) -> None:
            self.bytes_under_way -= size

        self.bytes_under_way += size
        call.add_done_callback(has_left)
