"""Stores the fetches that wait for new messages at the end of their queues. A waiting fetch is woken when an entry
of one of its queues is applied."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from ledger.errors import BusyError

# A fetch that waits for ten different queues takes ten places.
MAX_PLACES = 500_000

# Places that are freed in one turn of the event loop. One entry can wake all waiting fetches at once.
PLACES_AT_ONCE = 10_000

# Topic id and queue.
QueueKey = tuple[int, int]


class FetchWaiters:
    """Holds the fetches of a node that wait for new messages. A fetch is removed when its future ends."""

    def __init__(self, max_places: int = MAX_PLACES) -> None:
        self._max_places = max_places
        self._places = 0  # the places of all waiting fetches; <= max_places
        # In the order of arrival, which is the order of waking (a dict, because a set has no order).
        self._waiting: dict[QueueKey, dict[asyncio.Future[None], None]] = {}
        # The fetches that wait no longer and still have their places.
        self._ended: deque[tuple[Sequence[QueueKey], asyncio.Future[None]]] = deque()
        # The places freed in this turn. While it is more than 0, `_begin_turn` is scheduled.
        self._freed = 0
        self._scheduled = False

    def wait_for(self, queues: Iterable[QueueKey]) -> asyncio.Future[None]:
        """Return a future that ends when an entry of one of `queues` is applied. The caller cancels the future when
        it is no longer needed. Raises BusyError if too many fetches wait."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        keys = list(dict.fromkeys(queues))
        if self._places + len(keys) > self._max_places:
            raise BusyError(
                f"the limit of waiting fetches on this node is reached ({self._places} queues): try again shortly"
            )
        self._places += len(keys)
        for key in keys:
            self._waiting.setdefault(key, {})[waiter] = None
        waiter.add_done_callback(lambda _: self._end(keys, waiter))
        return waiter

    def announce(self, topic_id: int, queue: int) -> None:
        """Wake the fetches that wait for this queue."""
        for waiter in self._waiting.pop((topic_id, queue), ()):
            if not waiter.done():
                waiter.set_result(None)

    def _end(self, keys: Sequence[QueueKey], waiter: asyncio.Future[None]) -> None:
        self._ended.append((keys, waiter))
        self._free_some()

    def _free_some(self) -> None:
        while self._ended and self._freed < PLACES_AT_ONCE:
            keys, waiter = self._ended.popleft()
            self._forget(keys, waiter)
            self._freed += len(keys)
        if self._freed and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._scheduled, self._freed = False, 0
        self._free_some()

    def _forget(self, keys: Sequence[QueueKey], waiter: asyncio.Future[None]) -> None:
        self._places -= len(keys)
        for key in keys:
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.pop(waiter, None)
                if not waiting:
                    del self._waiting[key]
