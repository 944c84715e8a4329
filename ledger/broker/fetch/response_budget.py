"""The bytes of answers that are on their way to clients.

An answer is made in one step and leaves at the client's pace, so what slow readers have in this node's memory is
counted from the one to the other, and above the bound nothing more is read for anybody.
"""

from __future__ import annotations

from typing import Any

from grpc import aio

from ledger.errors import BusyError

MOST_BYTES = 256 << 20


class ResponseBudget:
    """Of one node. One answer more than the bound may be under way."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.bytes_under_way = 0  # >= 0
        self._most_bytes = most_bytes

    def check_room(self) -> None:
        """Raises BusyError where there is none."""
        if self.bytes_under_way >= self._most_bytes:
            raise BusyError(f"{self.bytes_under_way} bytes are on their way to clients already: try again shortly")

    def leaves(self, size: int, context: aio.ServicerContext[Any, Any]) -> None:
        """That answers this call: until the call has ended."""

        def has_left(_: aio.ServicerContext[Any, Any]) -> None:
            self.bytes_under_way -= size

        self.bytes_under_way += size
        # The stubs want an instance of a class that grpc does not have.
        context.add_done_callback(has_left)  # type: ignore[arg-type]
