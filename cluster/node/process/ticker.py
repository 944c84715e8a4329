"""The ticker: one clock for all shards of a node. All shards tick in the same turn of the event loop.

All heartbeats that the leaders on this node send to one other node in the same turn travel as one message
(`raft.transport.control_streams`). Because the shards of a node share the ticker and the messages with heartbeats,
many shards need little more CPU time than one shard. A shard that is added later starts ticking at the next heartbeat
of the other shards. If nothing ran on the node for a while, the ticker then ticks once and skips the missed ticks.
Before they start an election, the shards can then receive the messages that other nodes sent in the meantime.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable

from cluster.node.process.vital import Vital

Tick = Callable[[], None]
_WAKES_OF_A_TIMEOUT = 5


class Ticker:
    """Calls all added functions once for each `tick_ms` milliseconds, from the first `add` to `stop`. `beat` is the
    number of ticks between two heartbeats."""

    def __init__(
        self,
        vital: Vital,
        tick_ms: int,
        beat: int,
        stride: int = 1,
        on_lag: Callable[[float], None] = lambda seconds: None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """The ticker wakes every `stride` ticks, and then calls each function so many times: an idle node uses most of
        its processor time for wakes. `on_lag` is called at each wake with the time in seconds by which the event loop
        woke the ticker too late."""
        self._stride = stride
        self._on_lag = on_lag
        self._monotonic_s = monotonic_s
        self._vital = vital
        self._pause_s = tick_ms * stride / 1000
        self._beat = beat
        self._ticks: list[Tick] = []
        self._joining: list[Tick] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, tick: Tick) -> None:
        self._joining.append(tick)
        if self._task is None:
            self._task = self._vital.spawn(self._run(), "ticks")

    def remove(self, tick: Tick) -> None:
        """Stop calling the function `tick`. `remove` does nothing if `tick` was not added, or was removed before."""
        for ticks in (self._ticks, self._joining):
            if tick in ticks:
                ticks.remove(tick)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        for number in itertools.count():
            if number % self._stride == 0:
                due_s = self._monotonic_s() + self._pause_s
                await asyncio.sleep(self._pause_s)
                self._on_lag(max(0.0, self._monotonic_s() - due_s))
            if number % self._beat == 0:
                self._ticks += self._joining
                self._joining.clear()
            for tick in [*self._ticks]:
                tick()


def stride_of(heartbeat_ticks: int, election_ticks: int) -> int:
    """Return how many ticks may pass between two wakes of a ticker. All heartbeats are sent in time, and an election
    timeout has at least five wakes, so that the nodes seldom stand for election at the same time."""
    return max(1, min(heartbeat_ticks, election_ticks // _WAKES_OF_A_TIMEOUT))
