"""Bounds the work that the requests of clients cause in one turn of the event loop.

One event loop runs the heartbeats of Raft and the requests of all clients. The loop runs everything that is ready
before it looks at timers and sockets again. So many large requests that arrive together could hold up a heartbeat for
seconds. A request asks the budget before each part of its work. Parts that do not fit into this turn wait for later
turns, in the order of their arrival.

The budget counts steps and not seconds, because a simulated run has no clock that measures work.
"""

from __future__ import annotations

import asyncio
from collections import deque


class TurnBudget:
    """Grants the steps of one kind of request, at most `most_steps` in one turn. The last part of a turn may exceed the
    budget, so that a part that is larger than the budget is granted too."""

    def __init__(self, most_steps: int) -> None:
        self._most_steps = most_steps
        # The steps of this turn. It is 0 or more than 0, and while it is more than 0, `_begin_turn` is scheduled.
        self._spent = 0
        # Parts that wait for a later turn. While there are any, `_begin_turn` is scheduled.
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._scheduled = False

    async def spend(self, steps: int) -> float:
        """Return when this turn has room for a part of this many steps. Return how long that took, in seconds."""
        if self._waiting or self._spent >= self._most_steps:
            loop = asyncio.get_running_loop()
            began_s, granted = loop.time(), loop.create_future()
            self._waiting.append((granted, steps))
            self._schedule()
            await granted
            return loop.time() - began_s
        self.charge(steps)
        return 0.0

    def charge(self, steps: int) -> None:
        """Count steps that are known only after the work, so that the next part waits."""
        self._spent += steps
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._scheduled, self._spent = False, 0
        while self._waiting and self._spent < self._most_steps:
            granted, steps = self._waiting.popleft()
            if not granted.done():  # the caller of a cancelled request is gone
                granted.set_result(None)
                self._spent += steps
        if self._spent:
            self._schedule()
