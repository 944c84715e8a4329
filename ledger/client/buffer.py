"""The bound on what a producer holds: so many bytes, from when a message is accepted until its fate is known.

The one idea: whoever waits for room waits in line, so that a large message is not starved by small ones and the order
of sends is the order of their calls. It must not know what the bytes are.
"""

from __future__ import annotations

import asyncio
from collections import deque

from ledger.errors import BufferFullError


class Buffer:
    """`used` bytes of `limit_bytes`. One message larger than the whole limit is let in when nothing else is there."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def reserve_nowait(self, size: int) -> None:
        """Take `size` bytes, or raise BufferFullError."""
        if not self.try_reserve(size):
            raise BufferFullError(
                f"The producer's buffer is full: {self.used} of {self.limit_bytes} bytes wait to be acknowledged, "
                f"and this message needs {size}. Wait for earlier messages, or use send(), which waits."
            )

    async def reserve(self, size: int) -> None:
        """Take `size` bytes, waiting in line for them."""
        if self.try_reserve(size):
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, place))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.release(size)  # it had been given in the same turn
            else:
                self._waiting.remove((size, place))
                self._admit()
            raise

    def release(self, size: int) -> None:
        self.used -= size
        assert self.used >= 0
        self._admit()

    def try_reserve(self, size: int) -> bool:
        """Take `size` bytes if they are there and nobody waits for them."""
        if self._waiting or not self._fits(size):
            return False
        self.used += size
        return True

    def _fits(self, size: int) -> bool:
        return self.used + size <= self.limit_bytes or self.used == 0

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, place = self._waiting.popleft()
            if not place.cancelled():
                self.used += size
                place.set_result(None)
