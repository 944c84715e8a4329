"""The limit on the bytes that a producer holds, from accepting a message until its result is known.

Calls that wait for room wait in line, so small messages do not starve a large one. A message is admitted and placed in
one step, so the order of sends is the order of their calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ledger.errors import BufferFullError, ClosedError


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """Somebody in line. `answer`: true when let in, false when turned away, cancelled when it went away by itself."""

    size: int
    place: Callable[[], None]
    answer: asyncio.Future[bool]


class Buffer:
    """`used` bytes of `limit_bytes`. One message larger than the whole limit is let in when nothing else is there."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used = 0  # >= 0; <= limit_bytes, but for a single message
        self._line: deque[_Waiting] = deque()
        self._admission_due = False
        self._closed = False

    def enter_nowait(self, size: int, place: Callable[[], None]) -> None:
        """Take `size` bytes and call `place`; raises BufferFullError where they are not there, or others wait."""
        if not self._try_enter(size, place):
            raise BufferFullError(
                f"The producer's buffer is full: {self.used} of {self.limit_bytes} bytes wait to be acknowledged, "
                f"and this message needs {size}. Wait for earlier messages, or use send(), which waits."
            )

    async def enter(self, size: int, place: Callable[[], None], timeout_seconds: float | None = None) -> None:
        """Take `size` bytes, waiting in line for them, and call `place` at that moment: nobody comes between.

        Raises TimeoutError or ClosedError; then, `place` was not called and will not be. Whether it was called before
        a cancellation, only `place` knows.
        """
        if self._try_enter(size, place):
            return
        waiting = _Waiting(size, place, asyncio.get_running_loop().create_future())
        self._line.append(waiting)
        try:
            await asyncio.wait((waiting.answer,), timeout=timeout_seconds)
        finally:
            if not waiting.answer.done():
                self._leave(waiting)
        if waiting.answer.cancelled():
            raise TimeoutError
        if not waiting.answer.result():
            raise _closed()

    def release(self, size: int) -> None:
        self.used -= size
        assert self.used >= 0
        self._admit_soon()

    async def line_gone(self) -> None:
        """Returns when everyone who waits at this moment has been let in, was turned away or went away."""
        if self._line:
            await asyncio.wait([waiting.answer for waiting in self._line])

    def close(self) -> None:
        """Turn away everyone who waits, and everyone who comes."""
        self._closed = True
        while self._line:
            self._line.popleft().answer.set_result(False)

    def take(self, size: int) -> bool:
        """Whether the bytes are there and nobody waits for them: they are taken, and whoever asked places at once."""
        if self._closed:
            raise _closed()
        if self._line or not self._fits(size):
            return False
        self.used += size
        return True

    def _try_enter(self, size: int, place: Callable[[], None]) -> bool:
        taken = self.take(size)
        if taken:
            place()
        return taken

    def _fits(self, size: int) -> bool:
        return self.used + size <= self.limit_bytes or self.used == 0

    def _leave(self, waiting: _Waiting) -> None:
        waiting.answer.cancel()
        self._line.remove(waiting)
        self._admit_soon()  # it may have held up those behind it

    def _admit_soon(self) -> None:
        """In a step of its own: whoever releases bytes may be in the middle of placing others, who came earlier."""
        if self._line and not self._admission_due:
            self._admission_due = True
            asyncio.get_running_loop().call_soon(self._admit)

    def _admit(self) -> None:
        self._admission_due = False
        while self._line and self._fits(self._line[0].size):
            waiting = self._line.popleft()
            self.used += waiting.size
            waiting.answer.set_result(True)
            waiting.place()


def _closed() -> ClosedError:
    return ClosedError("The producer was closed before there was room for this message: it was not sent.")
