"""What a simulated node does beside its loop: flushes, votes, new segments.

The one idea: work takes time, is done at one moment in it and reported at its end; a crash may come before, between or
behind the two. It must not know what the work is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from chaos.sim.node_life import Life


class SimWorker:
    """Implements `cluster.workers.Worker`. `mean_ms()`: how long work takes on average. `worked` is called when some
    has succeeded."""

    def __init__(
        self, life: Life, random: Random, mean_ms: Callable[[], float], worked: Callable[[], None] | None = None
    ) -> None:
        self._life = life
        self._random = random
        self._mean_ms = mean_ms
        self._worked = worked
        self._free_at = 0.0

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        life = self._life
        takes = self._random.expovariate(1.0) * self._mean_ms() / 1000
        begins = max(life.time(), self._free_at)
        self._free_at = begins + takes
        life.call_at(begins + takes * self._random.random(), self._work, work, done, self._free_at)

    def _work(self, work: Callable[[], object], done: Callable[[BaseException | None], None], report_at: float) -> None:
        error: BaseException | None = None
        try:
            work()
        except Exception as failed:
            error = failed
        if error is None and self._worked is not None:
            self._worked()
        self._life.call_at(report_at, done, error)

    async def stop(self) -> None:
        await asyncio.sleep(max(0.0, self._free_at - self._life.time()))
