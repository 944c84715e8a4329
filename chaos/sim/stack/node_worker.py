"""Simulates the worker threads of a node, which flush, save votes and create segments.

A job of a worker thread takes simulated time. The effect of a job happens at one moment between the job's start and
its end, and the end of the job is reported later. A crash can happen before the effect of a job, between the effect
and the report of the job's end, or after the report.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random

from chaos.sim.engine.node_life import Life

# The work, and the callback that receives its exception or None.
Job = tuple[Callable[[], object], Callable[[BaseException | None], None]]
# Longest duration of one job in seconds. It must be well below the minute that a run waits to settle.
SLOWEST_S = 10.0


class SimWorker:
    """Implements `cluster.node.process.workers.Worker`. The function `mean_ms` returns the mean duration of a job
    in milliseconds. The callback `worked` is called after the effect of each successful job."""

    def __init__(
        self, life: Life, random: Random, mean_ms: Callable[[], float], worked: Callable[[], None] | None = None
    ) -> None:
        self._life = life
        self._random = random
        self._mean_ms = mean_ms
        self._worked = worked
        # Jobs in order; the first is running.
        self._jobs: deque[Job] = deque()
        self._idle = asyncio.Event()
        self._idle.set()

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        self._jobs.append((work, done))
        self._idle.clear()
        if len(self._jobs) == 1:
            self._begin()

    def _begin(self) -> None:
        takes = min(self._random.expovariate(1.0) * self._mean_ms() / 1000, SLOWEST_S)
        until_done = takes * self._random.random()
        self._life.call_later(until_done, self._work, takes - until_done)

    def _work(self, until_told: float) -> None:
        work, _ = self._jobs[0]
        error: BaseException | None = None
        try:
            work()
        except Exception as failed:
            error = failed
        if error is None and self._worked is not None:
            self._worked()
        self._life.call_later(until_told, self._tell, error)

    def _tell(self, error: BaseException | None) -> None:
        _, done = self._jobs.popleft()
        if self._jobs:
            self._begin()
        else:
            self._idle.set()
        done(error)

    async def stop(self) -> None:
        await self._idle.wait()
