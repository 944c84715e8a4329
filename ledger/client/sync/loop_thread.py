"""An event loop in a thread of its own, on which a synchronous client runs its asyncio client.

A waiting caller gets the result or the error of its call, also if the loop ends first: no thread waits for ever.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from ledger.errors import ClosedError

T = TypeVar("T")


class Client(Protocol):
    """Of asyncio: started once, stopped once."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class LoopThread:
    """An event loop in a daemon thread. Made before a fork, it is of no use behind it."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()  # nothing is submitted behind the end
        self._closing = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._closing

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there, and wait for it here. An interrupt here cancels it there."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        with self._lock:
            if self.alive:
                return asyncio.run_coroutine_threadsafe(self._closed_where_cancelled(work), self._loop)
        work.close()
        raise _closed()

    def close(self) -> None:
        """End the loop; what still runs there raises ClosedError. To do it twice, or from two threads, is harmless."""
        with self._lock:
            winding_up, self._closing = self.alive, True
            if winding_up:
                asyncio.run_coroutine_threadsafe(self._wind_up(), self._loop)
        self._thread.join()

    def _work(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    async def _wind_up(self) -> None:
        """All that was submitted has begun by now, and nothing is submitted any more."""
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        self._loop.call_soon(self._loop.stop)  # behind the callbacks that tell the other threads

    async def _closed_where_cancelled(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        except asyncio.CancelledError:
            if not self._closing:
                raise
            raise _closed() from None


def _closed() -> ClosedError:
    return ClosedError("This client is closed: make a new one.")


async def made(make: Callable[[], T]) -> T:
    """What has no `await`, to be done over there."""
    return make()


def started(client: Client, name: str) -> LoopThread:
    """A thread on which the client has started."""
    thread = LoopThread(name)
    try:
        thread.run(client.start())
    except BaseException:
        thread.close()
        raise
    return thread


def stopped(client: Client, thread: LoopThread) -> None:
    """The client is stopped, and its thread ends. To do it twice is harmless."""
    try:
        with contextlib.suppress(ClosedError):  # it has been closed, or another thread is about it
            thread.run(client.stop())
    finally:
        thread.close()
