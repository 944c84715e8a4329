"""Runs a load in this process, or in several processes that begin at the same time.

Each process runs one part of the load and returns its result. A single process and several processes are measured in
the same way, so their results can be added.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import queue
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from cluster.allocator import keep_large_buffers
from cluster.grpc_engine import prefer_older_engine
from cluster.load.failure import LoadError
from ledger.errors import LedgerError

# Receives from time to time how many messages were acknowledged so far.
Progress = Callable[[int], None]
# Awaited between warm-up and measurement, so that several processes begin together.
Gate = Callable[[], Awaitable[None]]
_PROGRESS_S = 0.25
_START_TIMEOUT_S = 120.0

J = TypeVar("J")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class RunningLoad(Protocol[R_co]):
    """The interface of one part of a load, which runs in one process. Other tasks are allowed to read `records`
    while the load runs."""

    @property
    def records(self) -> int: ...

    async def run(self, gate: Gate) -> R_co: ...


def run_jobs(jobs: Sequence[J], make: Callable[[J], RunningLoad[R]], progress: Progress) -> list[R]:
    """Run each job to its end and return the results. A single job runs in this process; several jobs run in separate
    processes.

    The name of `make` must be importable, because the separate processes import it. Raises LoadError and LedgerError.
    """
    if len(jobs) == 1:
        found: R = run_loop(_one(make(jobs[0]), progress))
        return [found]
    return _Processes(jobs, make).run(progress)


def run_loop(work: Any) -> Any:
    """Run a coroutine to its end. The coroutine runs on uvloop if uvloop is installed, as in a node."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


async def open_gate() -> None:
    """Do not wait, because a load in a single process can begin its measurement immediately."""


@contextlib.asynccontextmanager
async def reporting(load: RunningLoad[Any], progress: Progress) -> AsyncIterator[None]:
    """Report the progress of the load while the body of the `async with` block runs."""

    async def report() -> None:
        while True:
            await asyncio.sleep(_PROGRESS_S)
            progress(load.records)

    task = asyncio.create_task(report())
    try:
        yield
    finally:
        task.cancel()


async def _one(load: RunningLoad[R], progress: Progress) -> R:
    async with reporting(load, progress):
        return await load.run(open_gate)


class _Processes(Generic[J, R]):
    """The processes of a load. The processes report their counts in shared memory, wait for each other at a barrier
    after the warm-up, and return their results through a queue.
    """

    def __init__(self, jobs: Sequence[J], make: Callable[[J], RunningLoad[R]]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._counts = spawn.Array("Q", len(jobs), lock=False)
        self._results: Any = spawn.Queue()
        # Kept as an attribute, because the children unpickle the barrier some time after their start.
        self._barrier = barrier = spawn.Barrier(len(jobs), timeout=_START_TIMEOUT_S)
        self._children = [
            spawn.Process(target=_child, args=(make, job, place, self._counts, barrier, self._results), daemon=True)
            for place, job in enumerate(jobs)
        ]

    def run(self, progress: Progress) -> list[R]:
        prefer_older_engine()  # children inherit the setting
        # Ctrl-C is for this process, which then ends the children. Otherwise each child would print a traceback.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for child in self._children:
                child.start()
        finally:
            signal.signal(signal.SIGINT, before)
        found: list[R] = []
        try:
            while len(found) < len(self._children):
                with contextlib.suppress(queue.Empty):
                    result = self._results.get(timeout=_PROGRESS_S)
                    if isinstance(result, str):
                        raise LoadError(result)
                    found.append(result)
                progress(sum(self._counts))
                self._check()
        finally:
            for child in self._children:
                child.join(5) if len(found) == len(self._children) else child.terminate()
        return found

    def _check(self) -> None:
        for child in self._children:
            if child.exitcode:
                raise LoadError(f"a load process (pid {child.pid}) ended with status {child.exitcode}")


def _child(
    make: Callable[[Any], RunningLoad[Any]], job: Any, place: int, counts: Any, barrier: Any, results: Any
) -> None:
    keep_large_buffers()

    async def gate() -> None:
        await asyncio.to_thread(barrier.wait)

    async def work() -> Any:
        load = make(job)
        threading.Thread(target=count, args=(load,), daemon=True).start()
        return await load.run(gate)

    def count(load: RunningLoad[Any]) -> None:
        while True:
            time.sleep(_PROGRESS_S)
            counts[place] = load.records

    try:
        results.put(run_loop(work()))
    except (LedgerError, LoadError) as error:
        barrier.abort()
        results.put(f"load process {place + 1}: {error}")
    except threading.BrokenBarrierError:
        results.put(f"load process {place + 1}: another load process did not begin")
