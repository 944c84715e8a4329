"""Implements an asyncio event loop with virtual time. The virtual time jumps to the next due event, so waiting takes
no real time.

All events are in one heap, ordered by their time and, for equal times, by the order in which they were scheduled.
Because the order of events is fixed, a run depends only on its input. The loop uses no selector, no threads and no
real clock. If a coroutine waits and no event is left, the loop raises RanDryError. The loop collects unhandled
exceptions in `errors`, and the runner of the seed then reports that the run failed.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple, Unpack

if TYPE_CHECKING:
    _Base = Any  # an abstract loop has methods for sockets, signals and processes, which this one has not
else:
    _Base = asyncio.AbstractEventLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RanDryError(Exception):
    """Raised when no event is left although the awaited future is not done."""


def _nothing() -> None:
    """Do nothing, as the callback of a cancelled handle."""


class SimHandle(asyncio.TimerHandle):
    """A callback that the simulated event loop will call. The event loop skips a cancelled callback."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        # Do not call the base class: it would read the loop's debug mode and copy the context for each handle.
        self._when: float = when
        self._callback: Callable[..., object] = callback
        self._args: tuple[Any, ...] = args
        self._context: Context | None = context
        self._cancelled: bool = False

    def __repr__(self) -> str:
        return f"<SimHandle at {self._when:.6f} {self._callback!r}>"

    def cancel(self) -> None:
        self._cancelled, self._callback, self._args = True, _nothing, ()


class SimLoop(_Base):  # type: ignore[misc]
    """The event loop of one simulated run. The method `time` returns the number of simulated seconds since the
    start of the run."""

    def __init__(self) -> None:
        # Called after each event.
        self.after_event: Callable[[], None] | None = None
        # Unhandled exceptions, in order.
        self.errors: list[BaseException] = []
        # Number of events that have run.
        self.events = 0
        self._now = 0.0
        self._due: list[tuple[float, int, SimHandle]] = []
        self._number = 0
        self._running = False
        self._closed = False
        # Running tasks by number. asyncio holds tasks only weakly; a collected task would change the history.
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._task_number = 0

    # -- time

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        return self._schedule(self._now, callback, args, context)

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        return self._schedule(self._now, callback, args, context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        return self._schedule(self._now + delay, callback, args, context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        return self._schedule(when, callback, args, context)

    def _schedule(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> SimHandle:
        if when < self._now:
            when = self._now
        self._number += 1
        handle = SimHandle(when, callback, args, context)
        heappush(self._due, (when, self._number, handle))
        return handle

    # -- running

    def step(self) -> bool:
        """Run the next event of the loop. Return False if no event is left."""
        if self._next_due() is None:
            return False
        self._run_next()
        return True

    def _next_due(self) -> float | None:
        """Return the time of the next event, or None if no event is left."""
        due = self._due
        while due and due[0][2]._cancelled:
            heappop(due)
        return due[0][0] if due else None

    def _run_next(self) -> None:
        self._now, _, handle = heappop(self._due)
        self.events += 1
        context = handle._context
        try:
            if context is None:
                handle._callback(*handle._args)
            else:
                context.run(handle._callback, *handle._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.errors.append(error)
        if self.after_event is not None:
            self.after_event()

    def run_until(self, when: float) -> None:
        """Run all events that are due until the time `when`, and set the loop's time to `when`. After an unhandled
        exception, this method returns early."""
        with self._as_running_loop():
            while self._running and not self.errors and (due := self._next_due()) is not None and due <= when:
                self._run_next()
        if not self.errors:
            self._now = max(self._now, when)

    def run_until_complete(self, future: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
        """Run until the future is done and return its result. Raises RanDryError if no event is left and the future
        is not done."""
        awaited: asyncio.Future[T] = asyncio.ensure_future(future, loop=self)
        with self._as_running_loop():
            while not awaited.done():
                if self.errors:
                    raise self.errors[0]
                if not self.step():
                    raise RanDryError(f"no event is left, and {awaited!r} is not done")
        return awaited.result()

    def run_forever(self) -> None:
        """Run events until `stop` is called, an unhandled exception occurs, or no event is left."""
        with self._as_running_loop():
            while self._running and not self.errors and self.step():
                pass

    def stop(self) -> None:
        self._running = False

    @contextmanager
    def _as_running_loop(self) -> Generator[None, None, None]:
        assert not self._running, "the loop is already running"
        before = events._get_running_loop()
        events._set_running_loop(self)
        self._running = True
        try:
            yield
        finally:
            self._running = False
            events._set_running_loop(before)

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Drop all events and cancel all tasks, so that no object of this run stays alive."""
        self._due.clear()
        self._closed = True
        self.after_event = None
        for task in [*self._tasks.values()]:
            task.cancel()
        with self._as_running_loop():
            for _ in range(10_000):  # the bound ends a task that waits again after its cancellation
                if not self.step():
                    break
        self._due.clear()
        self._tasks.clear()

    # -- futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        number = self._task_number = self._task_number + 1
        # Use an own number: asyncio counts the tasks of the whole process, so its numbers differ from run to run.
        task = asyncio.Task(coro, loop=self, name=name or f"task {number}", context=context)
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))
        return task

    # -- the rest of asyncio's loop interface

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Do nothing: debug mode would be slow, so it is never on."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(error if isinstance(error, BaseException) else RuntimeError(str(context.get("message"))))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing, because the loop skips cancelled handles."""

    async def shutdown_asyncgens(self) -> None:
        """Do nothing, because this loop does not track asynchronous generators."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing, because this loop has no executor."""

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> NoReturn:
        raise AssertionError(f"{func!r} wants a thread, which a simulation does not have: inject a replacement for it")
