"""A worker: does what blocks beside the loop, one thing after another, and reports in the loop.

An fsync takes as long as it takes, and the loop must not wait for it. Work that touches what the loop owns does not
belong here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol


class Worker(Protocol):
    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        """Does `work` once all that came before it is done; then calls `done` in the loop with what it raised."""

    async def stop(self) -> None:
        """Returns when nothing is under way any more."""


class ThreadWorker:
    """A thread of its own. To be made in the loop's thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, name)

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        def report(finished: Future[object]) -> None:
            self._loop.call_soon_threadsafe(done, finished.exception())

        self._thread.submit(work).add_done_callback(report)

    async def stop(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
