"""Load in several processes, which begin together; or in this one.

A part of the load is the same load with its share of everything, so one process and many are measured alike, and
their figures add up: records and latencies together, from the first start to the last end.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import queue
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cluster.allocator import keep_large_buffers
from cluster.bench.failure import BenchError
from cluster.bench.producing import Load, Producing, Sent
from cluster.grpc_engine import prefer_older_engine
from ledger.errors import LedgerError

# Told now and then how many records were acknowledged since the warm-up.
Progress = Callable[[int], None]
_PROGRESS_S = 0.25
_START_TIMEOUT_S = 120.0


def run_load(load: Load, processes: int, progress: Progress) -> list[Sent]:
    """Runs it to its end; one `Sent` for each process. Raises BenchError, LedgerError."""
    if processes == 1:
        return [run_loop(_one(load, progress))]
    return _Processes([_share(load, part, processes) for part in range(processes)]).run(progress)


def run_loop(work: Any) -> Any:
    """A coroutine to its end, on uvloop where that is installed, as nodes do."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


async def _one(load: Load, progress: Progress) -> Sent:
    producing = Producing(load, _no_gate)
    telling = asyncio.create_task(_tell(producing, progress))
    try:
        return await producing.run()
    finally:
        telling.cancel()


async def _tell(producing: Producing, progress: Progress) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_S)
        progress(producing.sent.records)


async def _no_gate() -> None:
    pass


def _share(load: Load, part: int, of: int) -> Load:
    """What process `part` does of it."""

    def share(whole: int) -> int:
        return whole // of + (part < whole % of)

    return replace(
        load,
        part=part,
        count=share(load.count),
        in_flight=share(load.in_flight),
        producers=share(load.producers),
        rate=load.rate / of,
    )


class _Processes:
    """Each tells its count by shared memory, waits at a barrier after its warm-up, and gives its `Sent` by a queue."""

    def __init__(self, loads: list[Load]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._counts = spawn.Array("Q", len(loads), lock=False)
        self._results: Any = spawn.Queue()
        # Kept here: the children unpickle it some time after they were started.
        self._barrier = barrier = spawn.Barrier(len(loads), timeout=_START_TIMEOUT_S)
        self._children = [
            spawn.Process(target=_child, args=(load, place, self._counts, barrier, self._results), daemon=True)
            for place, load in enumerate(loads)
        ]

    def run(self, progress: Progress) -> list[Sent]:
        prefer_older_engine()  # children inherit it
        # An interrupt is for this process, which ends them: they would only add their tracebacks.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for child in self._children:
                child.start()
        finally:
            signal.signal(signal.SIGINT, before)
        found: list[Sent] = []
        try:
            while len(found) < len(self._children):
                with contextlib.suppress(queue.Empty):
                    result = self._results.get(timeout=_PROGRESS_S)
                    if isinstance(result, str):
                        raise BenchError(result)
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
                raise BenchError(f"a load process (pid {child.pid}) ended with status {child.exitcode}")


def _child(load: Load, place: int, counts: Any, barrier: Any, results: Any) -> None:
    keep_large_buffers()

    async def gate() -> None:
        await asyncio.to_thread(barrier.wait)

    async def work() -> Sent:
        producing = Producing(load, gate)
        telling = threading.Thread(target=count, args=(producing,), daemon=True)
        telling.start()
        return await producing.run()

    def count(producing: Producing) -> None:
        while True:
            time.sleep(_PROGRESS_S)
            counts[place] = producing.sent.records

    try:
        results.put(run_loop(work()))
    except (LedgerError, BenchError) as error:
        barrier.abort()
        results.put(f"load process {place + 1}: {error}")
    except threading.BrokenBarrierError:
        results.put(f"load process {place + 1} waited for the others in vain")
