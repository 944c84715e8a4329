"""Lets the requests of many clients begin together, so that they share entries of the log.

An entry of the log costs nearly the same with one message as with many, but gRPC hands over the requests of clients one
by one. So while many requests are under way, a request waits for others:

    ○ ○  ○ ○   ○ ○ ○ ○        . . .   ●●●●●●●●
    |── EACH_S for each ──|── LULL_S ──|   until none arrives any more, or the longest time is over

A request takes up to MOST_S longer, and a message costs less than half of the CPU time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# With so few requests under way, a request does not wait.
FEW = 6
# How long requests gather, for each that was under way at the same time in the last RECENT_S.
EACH_S = 0.00025
RECENT_S = 0.1
# They gather longer while others arrive, because more may wait in gRPC, which does not tell how many.
LULL_S = 0.002
MOST_S = 0.008


class Gathering:
    """Requests of one kind at one node."""

    def __init__(self, most_s: float = MOST_S) -> None:
        """`most_s` is the longest time that a request waits, in seconds."""
        self._most_s = most_s
        # The largest number of requests under way lately, and until when it counts.
        self._most = 0
        self._until_s = 0.0
        # What begins the requests that gather now.
        self._begin: list[Callable[[], None]] = []
        self._last_s = 0.0

    def add(self, begin: Callable[[], None], under_way: int) -> None:
        """Call `begin` now or soon. `under_way` is the number of requests under way, with this one."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        if under_way >= self._most or now_s >= self._until_s:
            self._most, self._until_s = under_way, now_s + RECENT_S
        if self._most <= FEW:
            begin()
            return
        self._begin.append(begin)
        if len(self._begin) == 1:
            self._last_s = now_s + self._most_s
            loop.call_later(min(self._most_s, self._most * EACH_S), self._look, 1)

    def _look(self, before: int) -> None:
        """Let the requests begin, unless others have arrived since there were `before`."""
        loop = asyncio.get_running_loop()
        if len(self._begin) > before and loop.time() < self._last_s:
            loop.call_later(LULL_S, self._look, len(self._begin))
            return
        begin, self._begin = self._begin, []
        for each in begin:
            each()
