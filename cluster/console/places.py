"""Places for work that needs much memory or time, such as pages that read messages. Their number is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ledger.errors import UnavailableError


class WorkPlaces:
    """`count` places. Work that finds none free waits `wait_s` seconds, and is refused then."""

    def __init__(self, count: int, wait_s: float, work: str) -> None:
        """`work` is what the places are for, such as "pages that read messages"."""
        self._free = asyncio.Semaphore(count)
        self._wait_s = wait_s
        self._refusal = f"There are already {count} {work} on this node: try again shortly."

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Take a place for a block. Raises UnavailableError if none becomes free in time."""
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise UnavailableError(self._refusal) from error
        try:
            yield
        finally:
            self._free.release()
