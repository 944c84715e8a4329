"""Runs a coroutine of a command until it ends or the process is told to stop, by Ctrl-C or by SIGTERM.

Both signals cancel the coroutine, so that its `async with` blocks close the clients: a consumer acknowledges what it
has printed and leaves its group, and a producer reports what was acknowledged. A second signal ends the command at
once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

# As shells report a process that SIGTERM has ended: 128 + 15.
TERMINATED = 143


class TerminatedError(Exception):
    """The command was stopped by SIGTERM. The exit status is 143."""


@contextmanager
def sigterm_stops() -> Iterator[None]:
    """While the body runs, SIGTERM raises TerminatedError in it, as Ctrl-C raises KeyboardInterrupt."""

    def stop(_: int, __: FrameType | None) -> None:
        raise TerminatedError

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_until_stopped(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in an event loop of its own and return its result.

    Raises KeyboardInterrupt after Ctrl-C and TerminatedError after SIGTERM, when the cancelled coroutine has ended.
    """
    import asyncio  # here, so that `ledgermq --help` does not load it

    terminated = False

    async def main() -> T:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()

        def stop(_: int, __: FrameType | None) -> None:
            nonlocal terminated
            assert task is not None
            if terminated or task.done():
                raise TerminatedError
            terminated = True
            task.cancel()
            loop.call_soon_threadsafe(lambda: None)  # wakes the loop

        if threading.current_thread() is not threading.main_thread():
            return await work
        before = signal.signal(signal.SIGTERM, stop)
        try:
            return await work
        finally:
            signal.signal(signal.SIGTERM, before)

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if terminated:
            raise TerminatedError from None
        raise
