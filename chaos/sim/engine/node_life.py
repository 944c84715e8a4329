"""Implements `Life`, the event loop of one simulated process from its start to its end. Each process has a separate
clock.

Every action of a process begins in a callback of the process's loop. The loop of a process schedules all its callbacks
in the loop of the simulation. After the end of a process, its loop runs no callback, so a process can be killed at any
moment. While a process is paused, its loop keeps the due callbacks. The kept callbacks run when the process resumes.
"""

from __future__ import annotations

import asyncio
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from chaos.sim.engine.loop import SimHandle, SimLoop, _Base
from store.disk.memory_disk import Killed

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Added to each timer. A timer that fires too early by a rounding error would be set again forever at the same time.
_ROUNDING_S = 1e-9
# How many times `_close` resumes a coroutine that waits again while it is being closed.
_MOST_CLOSES = 20


class Life(_Base):  # type: ignore[misc]
    """The event loop of one process. The function `after_event` is called after each event of this process."""

    def __init__(self, loop: SimLoop, after_event: Callable[[], None]) -> None:
        self.over = False
        self.paused = False
        self.after_event = after_event
        self._loop = loop
        self._soon = loop.soon
        # Callbacks that became due while the process was paused, in order.
        self._kept: list[SimHandle] = []
        # Running tasks in the order of their start.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._task_number = 0
        self._task_done: Callable[..., object] = self._forget
        # The process's monotonic clock: it showed `_local` at time `_since`, and has run at `_rate` since then.
        self._rate = 1.0
        self._since = self._local = loop.now

    # -- faults

    def end(self) -> None:
        """End the process. The method `end` is allowed to be called at any time, and also by the process itself."""
        if not self.over:
            self.over = True
            self._kept.clear()
            self._loop.call_soon(self.bury)

    def pause(self) -> None:
        self.paused = True

    def go_on(self) -> None:
        self.paused = False
        kept, self._kept = self._kept, []
        for handle in kept:
            self._loop.soon(handle)

    def keep(self, handle: SimHandle) -> None:
        """Keep a callback that became due while the process was paused. It runs when the process goes on."""
        self._kept.append(handle)

    def run_at_rate(self, rate: float) -> None:
        """From now on the process's clock runs `rate` times as fast as simulated time."""
        self._local, self._since, self._rate = self.time(), self._loop.now, rate

    def deliver(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Run a callback for an event that comes from outside of the process, such as a message. The callback runs
        now or, if the process is paused, when the process resumes."""
        if self.over:
            return
        if self.paused:
            self._kept.append(SimHandle(self, self.time(), callback, args, None))
            return
        loop = self._loop
        before, ran = _get_running_loop(), loop.runs
        _set_running_loop(self)
        loop.runs = self
        try:
            callback(*args)
        except Killed:
            assert self.over, "the disk of a process died, but the process is still alive"
        finally:
            loop.runs = ran
            _set_running_loop(before)
        if not self.over:
            self.after_event()

    def bury(self) -> None:
        """Close the coroutines of the ended process now, and do not wait until the garbage collector finds them.
        The code that a coroutine runs while it is closed has no effect, because the process's disk, network
        connections and loop no longer work."""
        loop = self._loop
        before, ran = _get_running_loop(), loop.runs
        _set_running_loop(self)
        loop.runs = self
        try:
            while self._tasks:  # a coroutine that is closed may create tasks, which never begin
                task = next(iter(self._tasks))
                del self._tasks[task]
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task)
        finally:
            loop.runs = ran
            _set_running_loop(before)

    # -- time

    def time(self) -> float:
        return self._local + (self._loop.now - self._since) * self._rate

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        handle = SimHandle(self, 0.0, callback, args, context)
        if callback is self._task_done:
            callback(*args)
        elif not self.over:
            self._soon(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        handle = SimHandle(self, when, callback, args, context)
        if not self.over:
            self._loop.later(self._since + (when - self._local) / self._rate + _ROUNDING_S, handle)
        return handle

    # -- futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        number = self._task_number = self._task_number + 1
        task = asyncio.Task(coro, loop=self, name=name or f"task {number}", context=context)
        self._tasks[task] = None
        task.add_done_callback(self._task_done)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        """Drop a task that is done. `call_soon` calls it at once: as an event, it was every fifteenth of a run."""
        self._tasks.pop(task, None)

    # -- the rest of asyncio's loop interface

    def is_running(self) -> bool:
        return not self.over

    def is_closed(self) -> bool:
        return self.over

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.over:
            self._loop.call_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing, because the loop skips cancelled handles."""

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> NoReturn:
        raise AssertionError(f"{func!r} wants a thread, which a simulation does not have: inject a replacement for it")


def _close(task: asyncio.Task[Any]) -> None:
    coroutine = task.get_coro()
    for _ in range(_MOST_CLOSES):
        try:
            coroutine.close()
        except (Exception, Killed, asyncio.CancelledError):
            continue  # the coroutine waited again in a `finally`, or its cleanup failed because its disk is dead
        return
