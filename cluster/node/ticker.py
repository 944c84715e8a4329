"""The clock of all shards of a node: they tick in the same turn of the loop.

What leaders say to one other node in one turn goes out as one message (`raft.transport.control_streams`), so shards
that tick together cost little more than one. Heartbeats come every few ticks, so a shard that comes later begins with
the others' next beat. A node that was held up ticks once, not as often as it missed: it must hear from others before
it acts.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from cluster.node.vital import Vital

Tick = Callable[[], None]


class Ticker:
    """Begins with the first that is added; call `stop` at the end. `beat`: ticks between two heartbeats."""

    def __init__(self, vital: Vital, tick_ms: int, beat: int) -> None:
        self._vital = vital
        self._tick_s = tick_ms / 1000
        self._beat = beat
        self._ticks: list[Tick] = []
        self._joining: list[Tick] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, tick: Tick) -> None:
        self._joining.append(tick)
        if self._task is None:
            self._task = self._vital.spawn(self._run(), "ticks")

    def remove(self, tick: Tick) -> None:
        """Nothing, where it is not there (any more)."""
        for ticks in (self._ticks, self._joining):
            if tick in ticks:
                ticks.remove(tick)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        for number in itertools.count():
            await asyncio.sleep(self._tick_s)
            if number % self._beat == 0:
                self._ticks += self._joining
                self._joining.clear()
            for tick in [*self._ticks]:
                tick()
