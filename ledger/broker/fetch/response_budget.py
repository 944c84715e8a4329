"""Limits the memory that responses need until clients have received them.

The broker builds a whole response in memory, and a slow client can take long to receive it. While the responses that
are not sent yet exceed the limit, this node reads no more messages for any client. So that a client that does not read
its responses cannot hold up the others, the node then ends the connections whose responses wait for longest.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ledger.errors import BusyError

MOST_BYTES = 256 << 20
# While there is no room, the connection of a response that waits for longer than this is ended.
PATIENCE_S = 5.0


class OngoingCall(Protocol):
    """A client's gRPC call whose response is not sent yet."""

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Run `callback(call)` after this call has ended."""

    def peer(self) -> str:
        """The name of the connection, for example "ipv4:127.0.0.1:40000"."""


@dataclass(frozen=True, slots=True)
class _Unsent:
    """A response that is not sent yet, and the time of the event loop at which it was made."""

    peer: str
    bytes: int
    since_s: float


class ResponseBudget:
    """Counts the bytes of responses that one node has not sent yet. The count can exceed the limit by at most one
    response."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.bytes_under_way = 0  # >= 0
        self._most_bytes = most_bytes
        self._numbers = itertools.count()
        # The oldest response is the first one.
        self._unsent: dict[int, _Unsent] = {}

    def check_room(self) -> None:
        """Raise BusyError if the bytes of responses that are not sent yet have reached the limit."""
        if self.bytes_under_way >= self._most_bytes:
            raise BusyError(f"{self.bytes_under_way} bytes of responses are not sent yet: try again shortly")

    def leaves(self, size: int, call: OngoingCall) -> None:
        """Count the `size` bytes of a response as not sent until the gRPC call of the response has ended."""
        number = next(self._numbers)

        def has_left(_: object) -> None:
            del self._unsent[number]
            self.bytes_under_way -= size

        self._unsent[number] = _Unsent(call.peer(), size, asyncio.get_running_loop().time())
        self.bytes_under_way += size
        call.add_done_callback(has_left)

    def stalled_peers(self) -> set[str]:
        """Return the connections that are to be ended, because their responses have waited for longer than `PATIENCE_S`
        and there is no room for others. Without them, half of the limit is free, if enough responses are so old."""
        stalled: set[str] = set()
        if self.bytes_under_way < self._most_bytes:
            return stalled
        until_s = asyncio.get_running_loop().time() - PATIENCE_S
        left = self.bytes_under_way
        for response in self._unsent.values():
            if response.since_s > until_s or left <= self._most_bytes // 2:
                break
            stalled.add(response.peer)
            left -= response.bytes
        return stalled
