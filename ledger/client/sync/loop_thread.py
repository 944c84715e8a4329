"""An event loop in a separate thread, on which a synchronous client runs its asyncio client.

A thread that waits for a call always gets the result or the error of the call. If the event loop ends before the call,
the waiting thread gets ClosedError.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Generic, Protocol, TypeVar, cast

from ledger.errors import ClosedError, InvalidArgumentError

log = logging.getLogger("ledgermq.client")

A = TypeVar("A")
T = TypeVar("T")

# How long a client that is being closed may take to end what it can when Ctrl-C interrupts the call.
CLEAN_UP_S = 5.0


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
        self._pid = os.getpid()
        # So that no work is submitted after the end of the loop. A signal handler may close the client while its own
        # thread holds the lock.
        self._lock = threading.RLock()
        self._closing = False
        self._over = False
        self._at_end: list[Callable[[], object]] = []
        self._end: asyncio.Task[None] | None = None
        self._abandoned: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """False if the event loop ends or has ended, and in a child process."""
        # Not by Thread.is_alive(): if Ctrl-C interrupts it, CPython 3.11 and 3.12 take a living thread for dead.
        return not (self._closing or self._over or self.is_copy)

    @property
    def is_copy(self) -> bool:
        """True in a child process, which has a copy of this object and no copy of the thread."""
        return os.getpid() != self._pid

    def run(self, work: Coroutine[Any, Any, T], *, clean_up_s: float = 0.0) -> T:
        """Run the coroutine `work` on the event loop, and return its result. If the waiting thread is interrupted,
        `work` is cancelled, and has `clean_up_s` seconds to end."""
        self.refuse_itself(work)
        call = _Call(work, self)
        try:
            self._begin(call)
            return call.result()
        except BaseException as error:
            self.soon(call.cancel)
            if not isinstance(error, Exception):
                call.wait(clean_up_s)
            raise

    def refuse_itself(self, work: Coroutine[Any, Any, object]) -> None:
        """If the caller runs on the thread of the event loop, close `work` and raise InvalidArgumentError."""
        if self.is_current:
            work.close()
            raise InvalidArgumentError(
                "A synchronous client cannot be called on its own thread, for example by a coroutine that it runs: the "
                "call would wait for itself."
            )

    def _begin(self, call: _Call[T]) -> None:
        with self._working() as works:
            if works:
                with contextlib.suppress(RuntimeError):  # a signal handler has just closed the client
                    self._loop.call_soon_threadsafe(call.begin)
                if not self._over:
                    return
        call.work.close()
        raise _closed()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        with self._working() as works:
            if works:
                return asyncio.run_coroutine_threadsafe(self._closed_where_cancelled(work), self._loop)
        work.close()
        raise _closed()

    @contextlib.contextmanager
    def _working(self) -> Iterator[bool]:
        """Hold the lock during the block, which gets True if the event loop takes work."""
        if not self.alive:  # in a child process, a thread that exists only in the parent may hold the lock
            yield False
            return
        with self._lock:
            yield self.alive

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

    def soon(self, call: Callable[[], object]) -> None:
        """Call `call` on the event loop, after all work that was submitted before. If the event loop has ended, do
        nothing. Signal handlers can use this, because it takes no lock."""
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(call)

    def close(self) -> None:
        """End the event loop and its thread. Threads that wait for unfinished work get ClosedError. The call is
        idempotent, even if several threads make it at the same time."""
        with self._working() as works:
            if works:
                # Before `_closing` is set: a signal handler that closes the client in between waits for this.
                self.soon(self._begin_to_end)
                self._closing = True
        self._thread.join()

    def abandon(self, stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Stop the client with `stop`, and end the event loop and its thread. Do not wait for it."""

        async def end() -> None:
            try:
                await stop()
            finally:
                self._begin_to_end()

        def begin() -> None:
            self._abandoned = self._loop.create_task(end(), name="end of a forgotten client")

        self.soon(begin)

    def _work(self) -> None:
        try:
            self._run()
        finally:
            self._over = True
            self._loop.close()
            for callback in self._at_end:
                callback()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        except BaseException as error:  # a callback of the program has ended the event loop, for example by sys.exit()
            self._closing = True
            log.error("a function of the program raised %r on the thread of a client, which is closed now", error)
            self._loop.run_until_complete(self._wind_up())
            raise

    def _begin_to_end(self) -> None:
        self._closing = True
        if self._end is None:
            self._end = self._loop.create_task(self._wind_up())

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

    __slots__ = ("_ended", "_error", "_has_ended", "_result", "_task", "_thread", "work")

    def __init__(self, work: Coroutine[Any, Any, T], thread: LoopThread) -> None:
        self.work = work
        self._thread = thread
        # Held until the work has ended; then the waiting thread may take it.
        self._ended = threading.Lock()
        self._ended.acquire()
        self._has_ended = False
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

    def wait(self, seconds: float) -> None:
        """Wait until the work has ended, at most so long."""
        if seconds > 0 and not self._has_ended and self._ended.acquire(timeout=seconds):
            self._ended.release()

    def _end(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._error = _closed() if self._thread.is_closing else concurrent.futures.CancelledError()
        else:
            self._error = task.exception()
            if self._error is None:
                self._result = task.result()
        self._has_ended = True
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
    """Run `stop`, which stops a client, and end the client's thread. The call is idempotent. If Ctrl-C interrupts it,
    the client has CLEAN_UP_S seconds to tell every call that waits."""
    thread.refuse_itself(stop)
    try:
        with contextlib.suppress(ClosedError):  # the client was closed, or another thread is closing it
            thread.run(stop, clean_up_s=CLEAN_UP_S)
    finally:
        thread.close()
