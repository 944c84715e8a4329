"""Implements an asyncio event loop with virtual time. The virtual time jumps to the next due event, so waiting takes
no real time.

Events are ordered by their time and, for equal times, by the order in which they were scheduled. Because the order of
events is fixed, a run depends only on its input. The loop uses no selector, no threads and no real clock. If a
coroutine waits and no event is left, the loop raises RanDryError. The loop collects unhandled exceptions in `errors`,
and the runner of the seed then reports that the run failed.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, TypeVarTuple, Unpack

from store.disk.memory_disk import Killed

if TYPE_CHECKING:
    _Base = Any  # an abstract loop has methods for sockets, signals and processes, which this one has not
else:
    _Base = asyncio.AbstractEventLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Callbacks that are due at any time.
_FOREVER = inf


class RanDryError(Exception):
    """Raised when no event is left although the awaited future is not done."""


def _nothing() -> None:
    """Do nothing, as the callback of a cancelled handle."""


class SimHandle(asyncio.TimerHandle):
    """A callback that the event loop of the simulation, or of one simulated process, will call. A cancelled callback
    is skipped."""

    __slots__ = ("_life",)

    def __init__(
        self,
        life: Runs | None,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> None:
        # Do not call the base class: it would read the loop's debug mode and copy the context for each handle.
        # The process whose callback this is, or None for a callback of the simulation itself.
        self._life: Runs | None = life
        self._when: float = when
        self._callback: Callable[..., object] = callback
        self._args: tuple[Any, ...] = args
        self._context: Context | None = context
        self._cancelled: bool = False

    def __repr__(self) -> str:
        return f"<SimHandle at {self._when:.6f} {self._callback!r}>"

    def cancel(self) -> None:
        self._cancelled, self._callback, self._args = True, _nothing, ()


class Runs(Protocol):
    """What the loop of the simulation knows of a simulated process."""

    over: bool
    paused: bool
    after_event: Callable[[], None]

    def keep(self, handle: SimHandle) -> None:
        """Keep a callback that became due while the process was paused."""


class SimLoop(_Base):  # type: ignore[misc]
    """The event loop of one simulated run. The method `time` returns the number of simulated seconds since the
    start of the run.

    Callbacks for later are in a heap, and callbacks for now in a queue, because most callbacks are for now. When a time
    comes, the callbacks in the heap for this time were scheduled before all in the queue, so they run first."""

    def __init__(self) -> None:
        # Called after each event.
        self.after_event: Callable[[], None] | None = None
        # Unhandled exceptions, in order.
        self.errors: list[BaseException] = []
        # Number of events that have run.
        self.events = 0
        # The simulated time in seconds.
        self.now = 0.0
        # The process whose callback runs now, or None.
        self.runs: Runs | None = None
        self._later: list[tuple[float, int, SimHandle]] = []
        self._soon: deque[SimHandle] = deque()
        # Schedules a callback for now, after all that are due now.
        self.soon: Callable[[SimHandle], None] = self._soon.append
        self._number = 0
        self._running = False
        self._closed = False
        # Running tasks in the order of their start. asyncio holds tasks only weakly; a collected task would change
        # the history.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._task_number = 0
        self._task_done: Callable[..., object] = self._forget

    # -- time

    def time(self) -> float:
        return self.now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        handle = SimHandle(None, self.now, callback, args, context)
        if callback is self._task_done:
            callback(*args)
        else:
            self.soon(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        handle = SimHandle(None, when, callback, args, context)
        self.later(when, handle)
        return handle

    def later(self, when: float, handle: SimHandle) -> None:
        """Schedule a callback for the simulated time `when`, or for now if `when` is in the past."""
        if when <= self.now:
            self.soon(handle)
            return
        self._number = number = self._number + 1
        heappush(self._later, (when, number, handle))

    # -- running

    def step(self) -> bool:
        """Run the next event of the loop. Return False if no event is left."""
        handle = self._take(_FOREVER)
        if handle is None:
            return False
        self._run(handle)
        return True

    def _take(self, until: float) -> SimHandle | None:
        """Take the next callback that is due until the time `until`, and set the loop's time to its time. Return None
        if there is none."""
        soon, later = self._soon, self._later
        while True:
            if later and later[0][0] <= (self.now if soon else until):
                when, _, handle = heappop(later)
                if not handle._cancelled:
                    self.now = when
                    return handle
            elif soon:
                handle = soon.popleft()
                if not handle._cancelled:
                    return handle
            else:
                return None

    def _run(self, handle: SimHandle) -> None:
        self.events += 1
        life, context = handle._life, handle._context
        try:
            if life is not self.runs:
                self.runs = life
                _set_running_loop(self if life is None else life)  # type: ignore[arg-type]
            if life is not None and (life.over or life.paused):
                if not life.over:
                    life.keep(handle)
            else:
                if context is None:
                    handle._callback(*handle._args)
                else:
                    context.run(handle._callback, *handle._args)
                if life is not None and not life.over:
                    life.after_event()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            if not (isinstance(error, Killed) and life is not None and life.over):
                self.errors.append(error)
        if self.after_event is not None:
            self.after_event()

    def run_until(self, when: float) -> None:
        """Run all events that are due until the time `when`, and set the loop's time to `when`. After an unhandled
        exception, this method returns early."""
        with self._as_running_loop():
            while self._running and not self.errors and (handle := self._take(when)) is not None:
                self._run(handle)
        if not self.errors:
            self.now = max(self.now, when)

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
        _set_running_loop(self)
        self._running, self.runs = True, None
        try:
            yield
        finally:
            self._running, self.runs = False, None
            _set_running_loop(before)

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Drop all events and cancel all tasks, so that no object of this run stays alive."""
        self._later.clear()
        self._soon.clear()
        self._closed = True
        self.after_event = None
        for task in [*self._tasks]:
            task.cancel()
        with self._as_running_loop():
            for _ in range(10_000):  # the bound ends a task that waits again after its cancellation
                if not self.step():
                    break
        self._later.clear()
        self._soon.clear()
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
        self._tasks[task] = None
        task.add_done_callback(self._task_done)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        """Drop a task that is done. `call_soon` calls it at once: as an event, it was every fifteenth of a run."""
        self._tasks.pop(task, None)

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
