"""The loop of one simulated process: from its start to its death, with clocks of its own.

Whatever a process does begins with a callback of its loop. Each process has a loop of its own, which passes
everything on to the simulation's, and runs nothing any more once the process is dead; so a kill needs nobody's help.
While the process stands still, what is due is kept, and comes all at once when it goes on.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from chaos.sim.engine.loop import SimHandle, SimLoop, _Base
from store.disk.memory_disk import Killed

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# A timer that comes before its moment by a rounding error would be set again for ever, while no time passes.
_ROUNDING_S = 1e-9
# How often a coroutine may wait again while it is being closed.
_MOST_CLOSES = 20


class LifeHandle(SimHandle):
    """Something that is due in one process."""

    __slots__ = ("outer",)

    outer: SimHandle | None

    def cancel(self) -> None:
        super().cancel()
        if self.outer is not None:
            self.outer.cancel()


class Life(_Base):  # type: ignore[misc]
    """`after_event` is called after each event of this process."""

    def __init__(self, loop: SimLoop, after_event: Callable[[], None]) -> None:
        self.over = False
        self._loop = loop
        self._after_event = after_event
        self._paused = False
        # What became due while the process stood still, in order.
        self._kept: list[LifeHandle] = []
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._task_number = 0
        # Its monotonic clock: it showed `_local` at `_since`, and runs at `_rate` since then.
        self._rate = 1.0
        self._since = self._local = loop.time()

    # -- what happens to it

    def end(self) -> None:
        """The process is dead. To be called at any moment, by itself too."""
        if not self.over:
            self.over = True
            self._kept.clear()
            self._loop.call_soon(self.bury)

    def pause(self) -> None:
        self._paused = True

    def go_on(self) -> None:
        self._paused = False
        kept, self._kept = self._kept, []
        for handle in kept:
            handle.outer = self._loop.call_soon(self._run, handle)

    @property
    def paused(self) -> bool:
        return self._paused

    def run_at_rate(self, rate: float) -> None:
        """From now on its clock runs so much faster than the world's."""
        self._local, self._since, self._rate = self.time(), self._loop.time(), rate

    def deliver(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Something comes in from outside: it happens to this process now, or when it goes on."""
        if not self.over:
            self._run(self._handle(self.time(), callback, args, None))

    def bury(self) -> None:
        """Takes its coroutines down, here and not whenever they are collected as garbage. What they still try to do
        reaches nobody: disk, network and loop are dead for them."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for task in self._tasks.values():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task)
        finally:
            events._set_running_loop(before)
        self._tasks.clear()

    # -- time

    def time(self) -> float:
        return self._local + (self._loop.time() - self._since) * self._rate

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> LifeHandle:
        handle = self._handle(0.0, callback, args, context)
        if not self.over:
            handle.outer = self._loop.call_soon(self._run, handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> LifeHandle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> LifeHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> LifeHandle:
        handle = self._handle(when, callback, args, context)
        if not self.over:
            at = self._since + (when - self._local) / self._rate + _ROUNDING_S
            handle.outer = self._loop.call_at(at, self._run, handle)
        return handle

    def _handle(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> LifeHandle:
        handle = LifeHandle(when, callback, args, context)
        handle.outer = None
        return handle

    def _run(self, handle: LifeHandle) -> None:
        callback = handle._callback
        handle.outer = None  # it and the one outside would keep each other until the run ends: no collector runs
        if callback is None or self.over:
            return
        if self._paused:
            self._kept.append(handle)
            return
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            if handle._context is None:
                callback(*handle._args)
            else:
                handle._context.run(callback, *handle._args)
        except Killed:
            assert self.over, "the disk of a process died, and the process did not"
        finally:
            events._set_running_loop(before)
        if not self.over:
            self._after_event()

    # -- futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        number = self._task_number = self._task_number + 1
        task = asyncio.Task(coro, loop=self, name=name or f"task {number}", context=context)
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))
        return task

    # -- what asyncio asks of a loop

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
        """asyncio tells; a cancelled handle is passed over anyway."""

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> NoReturn:
        raise AssertionError(f"{func!r} was to run in a thread: a simulation has none, inject what it does")


def _close(task: asyncio.Task[Any]) -> None:
    coroutine = task.get_coro()
    for _ in range(_MOST_CLOSES):
        try:
            coroutine.close()
        except (Exception, Killed, asyncio.CancelledError):
            continue  # it waits again in a `finally`, or that failed: its disk is dead
        return
