"""Tasks that clients and mirrors run in the background, and work in several shards at once.

A task in the background handles the errors that it expects. Any other exception is a defect of ledgermq: `spawn` logs
the exception and tells the owner of the task, because nobody awaits the task before the client stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any

from ledger.errors import InternalError, LedgerError

log = logging.getLogger("ledgermq.client")

# Called with the error that the program gets.
OnDefect = Callable[[InternalError], object]


def spawn(work: Coroutine[Any, Any, None], name: str, on_defect: OnDefect) -> asyncio.Task[None]:
    """Run `work` as a task. If the task ends with an exception, log the exception with its traceback, and call
    `on_defect`."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(partial(_tell_defect, on_defect))
    return task


def _tell_defect(on_defect: OnDefect, task: asyncio.Task[None]) -> None:
    fault = None if task.cancelled() else task.exception()
    if fault is None or isinstance(fault, (SystemExit, KeyboardInterrupt)):  # these end the program
        return
    log.error("the task %r has failed; this is a defect of ledgermq", task.get_name(), exc_info=fault)
    defect = InternalError(
        f"The task {task.get_name()!r} of this client has failed: {fault!r}. This is a defect of ledgermq: please "
        "report it with the log of this program, and make a new client."
    )
    defect.__cause__ = fault
    on_defect(defect)


async def all_done(*work: Awaitable[object]) -> None:
    """Do all of `work` at once, and wait until everything has ended. Then raise the first error, if there is one: an
    error that a later try cannot mend comes before the others."""
    results = await asyncio.gather(*work, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    if errors:
        raise min(errors, key=is_passing)


def is_passing(error: BaseException) -> bool:
    """Return True if a later try may succeed."""
    return isinstance(error, LedgerError) and error.retriable


class ShardTasks:
    """Tasks in the background, at most one for each shard. So a shard without a leader holds up no other shard."""

    def __init__(self, name: str, on_defect: OnDefect, on_end: Callable[[int], object] = lambda _: None) -> None:
        """`on_end` is called with the shard when its task has ended."""
        self._name, self._on_defect, self._on_end = name, on_defect, on_end
        self._by_shard: dict[int, asyncio.Task[None]] = {}

    def __iter__(self) -> Iterator[int]:
        """Iterate over the shards that have a task now."""
        return iter(self._by_shard)

    def __contains__(self, shard: int) -> bool:
        return shard in self._by_shard

    def start(self, shard: int, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as the task of a shard that has none."""
        assert shard not in self, f"shard {shard} has a task"
        self._by_shard[shard] = spawn(work, f"{self._name} in shard {shard}", self._on_defect)
        self._by_shard[shard].add_done_callback(lambda _: self._ended(shard))

    async def end(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        tasks = list(self._by_shard.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, shard: int) -> None:
        del self._by_shard[shard]
        self._on_end(shard)
