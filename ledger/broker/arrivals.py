"""Fetches that wait at the end of a queue, and are woken when something is applied to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

QueueKey = tuple[int, int]
"""Topic id and queue."""


class Arrivals:
    """Bounded by what waits: a fetch that ends takes itself out."""

    def __init__(self) -> None:
        self._waiting: dict[QueueKey, dict[asyncio.Future[None], None]] = {}
        """In the order they came, which is the order they are woken in (a set has none)."""

    def wait_for(self, queues: Iterable[QueueKey]) -> asyncio.Future[None]:
        """Done when something is applied to one of these queues. Cancel it when it is not needed any more."""
        arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        keys = list(queues)
        for key in keys:
            self._waiting.setdefault(key, {})[arrival] = None
        arrival.add_done_callback(lambda _: self._forget(keys, arrival))
        return arrival

    def announce(self, topic_id: int, queue: int) -> None:
        """Something was applied to that queue."""
        for arrival in self._waiting.pop((topic_id, queue), ()):
            if not arrival.done():
                arrival.set_result(None)

    def _forget(self, keys: Iterable[QueueKey], arrival: asyncio.Future[None]) -> None:
        for key in keys:
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.pop(arrival, None)
                if not waiting:
                    del self._waiting[key]
