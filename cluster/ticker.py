"""The clock of all groups of a node: they tick in the same turn of the loop.

The one idea: what leaders say to one other node in one turn goes out as one message (`raft.control_lines`), so groups
that tick together cost little more than one. A node that was held up ticks once, not as often as it missed: it must
hear from others before it acts.

It must not know what a tick does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cluster.vital import Vital

Tick = Callable[[], None]


class Ticker:
    """Begins with the first that is added; call `stop` at the end."""

    def __init__(self, vital: Vital, tick_ms: int) -> None:
        self._vital = vital
        self._tick_s = tick_ms / 1000
        self._ticks: list[Tick] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, tick: Tick) -> None:
        self._ticks.append(tick)
        if self._task is None:
            self._task = self._vital.spawn(self._run(), "ticks")

    def remove(self, tick: Tick) -> None:
        """Nothing, where it is not there (any more)."""
        if tick in self._ticks:
            self._ticks.remove(tick)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._tick_s)
            for tick in [*self._ticks]:
                tick()
