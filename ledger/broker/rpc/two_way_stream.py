"""Serves the two directions of a stream until one of them ends, and limits the time for which a client may not read.

Each direction is a task. The failure of a task does not reach gRPC by itself: the method of the stream looks at what
the tasks have raised, and `raise_defect` raises what no method expects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any

from grpc import aio

from ledger.errors import LedgerError


class StalledError(Exception):
    """The client of a stream does not read what the node sends."""


class StallLimit:
    """Limits the time of each answer of one task: `with limit: await context.write(answer)` raises StalledError if the
    client does not accept the answer for `seconds`.

    `asyncio.timeout` sets and removes a timer for each answer, which takes 5 us. Here one timer serves many answers:
    when it ends, it looks whether the present answer has taken so long, and if not, it is set anew."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        # The task, while it sends an answer; when the answer began; and how often the task had been cancelled.
        self._task: asyncio.Task[Any] | None = None
        self._began_s = 0.0
        self._cancelled = 0
        self._is_over = False

    def __enter__(self) -> None:
        task = self._task = asyncio.current_task()
        assert task is not None, "answers are sent by a task"
        self._cancelled = task.cancelling()
        self._began_s = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_at(self._began_s + self._seconds, self._look)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if not self._is_over:
            return
        self._is_over = False
        assert task is not None
        only_by_this = task.uncancel() <= self._cancelled
        if only_by_this and kind is asyncio.CancelledError:
            raise StalledError from error

    def _look(self) -> None:
        self._timer = None
        if self._task is None:
            return  # the next answer sets the timer
        if self._loop.time() < self._began_s + self._seconds:
            self._timer = self._loop.call_at(self._began_s + self._seconds, self._look)
        else:
            self._is_over = True
            self._task.cancel()


async def serve_both(
    reading: Coroutine[Any, Any, object],
    writing: Coroutine[Any, Any, object],
    end_writing: Callable[[BaseException | None], None],
) -> tuple[Any, Any]:
    """Read and write until one of both ends. Return what each of them returned or raised.

    If reading ends first, `end_writing(error)` lets writing end behind what it has to send. The writer may be in the
    middle of an answer, and gRPC can send nothing else before this answer is sent: so this waits for the writer, which
    bounds each answer by a time limit of its own."""
    reader, writer = asyncio.create_task(reading), asyncio.create_task(writing)
    try:
        await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
        if reader.done() and not reader.cancelled():
            end_writing(reader.exception())
            await asyncio.wait((writer,))
    finally:
        for task in (reader, writer):
            task.cancel()
        read, written = await asyncio.gather(reader, writer, return_exceptions=True)
    return read, written


def raise_defect(*results: object) -> None:
    """Raise the first of these results of tasks that is a defect. An error that the method of the stream answers itself
    is no defect, and neither is an error of gRPC, which means that the call has ended."""
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, LedgerError | StalledError | aio.BaseError):
            raise result
