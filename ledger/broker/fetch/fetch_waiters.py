"""Fetches that wait at the end of a queue, and are woken when something is applied to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from ledger.errors import BusyError

MAX_PLACES = 500_000
"""A fetch that waits for ten queues has ten."""

QueueKey = tuple[int, int]
"""Topic id and queue."""


class FetchWaiters:
    """A fetch that ends takes itself out."""

    def __init__(self, max_places: int = MAX_PLACES) -> None:
        self._max_places = max_places
        self._places = 0  # <= max_places, and what those that wait have together
        self._waiting: dict[QueueKey, dict[asyncio.Future[None], None]] = {}
        """In the order they came, which is the order they are woken in (a set has none)."""

    def wait_for(self, queues: Iterable[QueueKey]) -> asyncio.Future[None]:
        """Done when something is applied to one of these queues. Cancel it when it is not needed any more. Raises
        BusyError where too many wait."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        keys = list(queues)
        if self._places + len(keys) > self._max_places:
            raise BusyError(f"fetches wait at {self._places} queues of this node already: try again shortly")
        self._places += len(keys)
        for key in keys:
            self._waiting.setdefault(key, {})[waiter] = None
        waiter.add_done_callback(lambda _: self._forget(keys, waiter))
        return waiter

    def announce(self, topic_id: int, queue: int) -> None:
        """Something was applied to that queue."""
        for waiter in self._waiting.pop((topic_id, queue), ()):
            if not waiter.done():
                waiter.set_result(None)

    def _forget(self, keys: Sequence[QueueKey], waiter: asyncio.Future[None]) -> None:
        self._places -= len(keys)
        for key in keys:
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.pop(waiter, None)
                if not waiting:
                    del self._waiting[key]
