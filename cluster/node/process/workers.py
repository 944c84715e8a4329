"""A worker runs blocking work beside the event loop, one call after another, and reports the end of each call in the
event loop.

The event loop must not wait for an fsync. Work that changes state of the event loop must not run on a worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Worker(Protocol):
    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        """Run `work` after all work that was accepted earlier. When `work` ends, call `done` in the event loop,
        with the exception that `work` raised, or with None."""

    async def stop(self) -> None:
        """Return when all accepted work has ended."""


class ThreadWorker:
    """A worker with its own thread. Create a `ThreadWorker` in the thread of the event loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, name)

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        def report(finished: Future[object]) -> None:
            self._loop.call_soon_threadsafe(done, finished.exception())

        self._thread.submit(work).add_done_callback(report)

    async def stop(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)


async def result_of(worker: Worker, work: Callable[[], T]) -> T:
    """Run `work` on `worker`. Return its result, or raise its exception. If the caller is cancelled, `work` still
    runs to its end."""
    over: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    results: list[T] = []

    def done(error: BaseException | None) -> None:
        if over.done():
            return
        if error is not None:
            over.set_exception(error)
        else:
            over.set_result(results[0])

    worker.run(lambda: results.append(work()), done)
    return await over
