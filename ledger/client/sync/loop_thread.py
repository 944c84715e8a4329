"""An event loop in a separate thread, on which a synchronous client runs its asyncio client.

A thread that waits for a call always gets the result or the error of the call. If the event loop ends before the call,
the waiting thread gets ClosedError.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar, cast

from ledger.errors import ClosedError, InvalidArgumentError

A = TypeVar("A")
T = TypeVar("T")


class AsyncClient(Protocol):
    """An interface: an asyncio client that is started once and stopped once."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class LoopThread:
    """Runs an event loop in a daemon thread. After a fork the event loop works only in the parent process, because the
    child process has no copy of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        # So that no work is submitted after the end of the loop. A signal handler may close the client while its own
        # thread holds the lock.
        self._lock = threading.RLock()
        self._closing = False
        self._at_end: list[Callable[[], object]] = []
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._closing

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine `work` on the event loop, and return its result. If the waiting thread is interrupted,
        `work` is cancelled."""
        if self.is_current:
            work.close()
            raise InvalidArgumentError(
                "A synchronous client cannot be called on its own thread, for example by a coroutine that it runs: the "
                "call would wait for itself."
            )
        call = _Call(work, self)
        try:
            self._begin(call)
            return call.result()
        except BaseException:
            self.soon(call.cancel)
            raise

    def _begin(self, call: _Call[T]) -> None:
        with self._lock:
            if self.alive:
                self._loop.call_soon_threadsafe(call.begin)
                return
        call.work.close()
        raise _closed()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        with self._lock:
            if self.alive:
                return asyncio.run_coroutine_threadsafe(self._closed_where_cancelled(work), self._loop)
        work.close()
        raise _closed()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call `callback` on the event loop, after all work that was submitted before. Raises ClosedError."""
        with self._lock:
            if self.alive:
                self._loop.call_soon_threadsafe(callback)
                return
        raise _closed()

    def call_soon_here(self, callback: Callable[[], object]) -> None:
        """Call `callback` in the next turn of the event loop. The caller must run on the event loop."""
        self._loop.call_soon(callback)

    def at_end(self, callback: Callable[[], object]) -> None:
        """Call `callback` on this thread after the event loop has ended, when no more work runs."""
        self._at_end.append(callback)

    @property
    def is_closing(self) -> bool:
        """True if the event loop ends, so that its tasks are cancelled."""
        return self._closing

    @property
    def is_current(self) -> bool:
        """True if the caller runs on the thread of the event loop."""
        return threading.current_thread() is self._thread

    def check_open(self) -> None:
        """Raise ClosedError if the event loop does not run, or ends."""
        if not self.alive:
            raise _closed()

    def soon(self, call: Callable[[], None]) -> None:
        """Run `call` on the event loop, and return at once. Signal handlers can use it, because it takes no lock."""
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(call)

    def close(self) -> None:
        """End the event loop and its thread. Threads that wait for unfinished work get ClosedError. The call is
        idempotent, even if several threads make it at the same time."""
        with self._lock:
            winding_up, self._closing = self.alive, True
            if winding_up:
                asyncio.run_coroutine_threadsafe(self._wind_up(), self._loop)
        self._thread.join()

    def _work(self) -> None:
        self._loop.run_forever()
        self._loop.close()
        for callback in self._at_end:
            callback()

    async def _wind_up(self) -> None:
        """Cancel all tasks, and stop the event loop. When `_wind_up` runs, all submitted work has already begun,
        and no more work can be submitted."""
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        self._loop.call_soon(self._loop.stop)  # after the callbacks that pass results to the other threads

    async def _closed_where_cancelled(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        except asyncio.CancelledError:
            if not self._closing:
                raise
            raise _closed() from None


class _Call(Generic[T]):
    """One call of a thread that waits for the result. It does what a future of concurrent.futures does, with a lock in
    place of a condition, and without a second future on the event loop."""

    __slots__ = ("_ended", "_error", "_result", "_task", "_thread", "work")

    def __init__(self, work: Coroutine[Any, Any, T], thread: LoopThread) -> None:
        self.work = work
        self._thread = thread
        # Held until the work has ended.
        self._ended = threading.Lock()
        self._ended.acquire()
        self._task: asyncio.Task[T] | None = None
        self._result: T | None = None
        self._error: BaseException | None = None

    def begin(self) -> None:
        """Begin the work. Called on the event loop."""
        self._task = asyncio.get_running_loop().create_task(self.work)
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        """Cancel the work if it has begun and not ended. Called on the event loop."""
        if self._task is not None:
            self._task.cancel()

    def result(self) -> T:
        """Wait until the work has ended. Return its result or raise its error."""
        self._ended.acquire()
        if self._error is None:
            return cast(T, self._result)
        try:
            raise self._error
        finally:
            self._error = None  # its traceback refers to this frame

    def _end(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._error = _closed() if self._thread.is_closing else concurrent.futures.CancelledError()
        else:
            self._error = task.exception()
            if self._error is None:
                self._result = task.result()
        self._ended.release()


def _closed() -> ClosedError:
    return ClosedError("This client is closed: make a new one.")


async def made(make: Callable[[], T]) -> T:
    """Call the function `make` on the event loop, and return its result."""
    return make()


def in_thread(
    callback: Callable[[A], Awaitable[None] | None] | None,
) -> Callable[[A], Awaitable[None] | None] | None:
    """Return a coroutine function that calls the plain function `callback` in a thread, so that it can call the
    synchronous client. A coroutine function is returned as it is."""
    if callback is None or inspect.iscoroutinefunction(callback):
        return callback
    plain = callback

    async def call(argument: A) -> None:
        await asyncio.to_thread(plain, argument)

    return call


def started(client: AsyncClient, name: str) -> LoopThread:
    """Start the client on the event loop of a new thread, and return the thread. If the client's `start` fails,
    raise its error."""
    thread = LoopThread(name)
    try:
        thread.run(client.start())
    except BaseException:
        thread.close()
        raise
    return thread


def stopped(stop: Coroutine[Any, Any, None], thread: LoopThread) -> None:
    """Run `stop`, which stops a client, and end the client's thread. The call is idempotent."""
    try:
        with contextlib.suppress(ClosedError):  # the client was closed, or another thread is closing it
            thread.run(stop)
    finally:
        thread.close()
