"""An asyncio loop whose time is virtual: it jumps to the next thing that is due, so waiting costs nothing.

One heap ordered by (when, number). Whatever is scheduled first for a moment runs first, so a run is a function of
what was put in. There is no selector, no thread and no clock; a coroutine that waits for something that nobody will
ever bring is a loop that has run dry, and says so.

An exception that nobody handles is a failed run: it is kept in `errors`, and whoever runs the loop looks there.
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
    """Nothing is scheduled any more, and what was waited for has not come."""


def _nothing() -> None:
    """What a cancelled handle would do."""


class SimHandle(asyncio.TimerHandle):
    """Something that is due: cancelled, it is passed over when its time comes."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        # The base class is not asked: it would read the loop's debug mode and copy the context for everything.
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
    """Seconds since the start are its time."""

    def __init__(self) -> None:
        # Called after every event.
        self.after_event: Callable[[], None] | None = None
        # What nobody handled, in order.
        self.errors: list[BaseException] = []
        # How many have been run.
        self.events = 0
        self._now = 0.0
        self._due: list[tuple[float, int, SimHandle]] = []
        self._number = 0
        self._running = False
        self._closed = False
        # Those under way, by number: asyncio itself holds tasks weakly, and a collected one would be no history.
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
        """Runs the next event. Returns whether there was one."""
        if self._next_due() is None:
            return False
        self._run_next()
        return True

    def _next_due(self) -> float | None:
        """When the next event is due; None when there is none."""
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
        """Runs everything that is due until then, and sets the time to it. Ends early when something failed."""
        with self._as_running_loop():
            while self._running and not self.errors and (due := self._next_due()) is not None and due <= when:
                self._run_next()
        if not self.errors:
            self._now = max(self._now, when)

    def run_until_complete(self, future: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
        """Runs until the future is done, and returns its result. RanDryError where it never will be."""
        awaited: asyncio.Future[T] = asyncio.ensure_future(future, loop=self)
        with self._as_running_loop():
            while not awaited.done():
                if self.errors:
                    raise self.errors[0]
                if not self.step():
                    raise RanDryError(f"nothing is due any more, and {awaited!r} is not done")
        return awaited.result()

    def run_forever(self) -> None:
        """Until `stop`, an error, or nothing is due."""
        with self._as_running_loop():
            while self._running and not self.errors and self.step():
                pass

    def stop(self) -> None:
        self._running = False

    @contextmanager
    def _as_running_loop(self) -> Generator[None, None, None]:
        assert not self._running, "the loop runs already"
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
        """Forgets all that is due. Tasks under way are ended where they stand, so that nothing of this run lives on."""
        self._due.clear()
        self._closed = True
        self.after_event = None
        for task in [*self._tasks.values()]:
            task.cancel()
        with self._as_running_loop():
            for _ in range(10_000):  # a task that answers its cancellation by waiting again is left behind
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
        # Named by its own number: asyncio counts the tasks of the whole process, which differs from run to run.
        task = asyncio.Task(coro, loop=self, name=name or f"task {number}", context=context)
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))
        return task

    # -- what asyncio asks of a loop

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Debug mode would slow everything down; it is never on."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(error if isinstance(error, BaseException) else RuntimeError(str(context.get("message"))))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio tells; a cancelled handle is passed over anyway."""

    async def shutdown_asyncgens(self) -> None:
        """Asynchronous generators are not tracked."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> NoReturn:
        raise AssertionError(f"{func!r} was to run in a thread: a simulation has none, inject what it does")
