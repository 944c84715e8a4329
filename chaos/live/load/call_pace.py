"""The pace of one producer of a chaos run: its calls are due at equal intervals, until the load ends."""

from __future__ import annotations

import asyncio

# A producer that falls behind its rate makes up for at most one second.
_MAKES_UP_S = 1.0


class CallPace:
    """Says when the next call of a producer is due. Several tasks may wait for their next call."""

    def __init__(self, interval_s: float, stop: asyncio.Event) -> None:
        self._interval_s, self._stop = interval_s, stop
        self._due = asyncio.get_running_loop().time()
        self._turn = asyncio.Lock()

    async def next_call(self) -> bool:
        """Wait until the next call is due. Return False if the load has ended."""
        async with self._turn:
            loop = asyncio.get_running_loop()
            await waited(self._stop, self._due - loop.time())
            self._due = max(self._due + self._interval_s, loop.time() - _MAKES_UP_S)
            return not self._stop.is_set()


async def waited(stop: asyncio.Event, seconds: float) -> None:
    """Wait the given number of seconds, or until `stop` is set."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await stop.wait()
    except TimeoutError:
        return
