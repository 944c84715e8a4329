"""Limits the bytes of messages that a producer has accepted and that have no result yet.

Calls that wait for room wait in a queue, so small messages do not starve a large one. A message is admitted and given
to its sequencer in one step, so messages are sent in the order of the calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ledger.errors import BufferFullError, ClosedError


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A call that waits for room. The result of `answer` is True if the call was admitted, and False if the buffer was
    closed. `answer` is cancelled if the call stopped waiting.
    """

    size: int
    place: Callable[[], None]
    answer: asyncio.Future[bool]


class Buffer:
    """A buffer that counts the used bytes, `used`, of `limit_bytes`.

    A message larger than the whole limit is admitted when the buffer is empty.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used = 0  # 0 <= used <= limit_bytes; a single larger message may exceed the limit
        self._line: deque[_Waiting] = deque()
        self._admission_due = False
        self._closed = False

    def enter_nowait(self, size: int, place: Callable[[], None]) -> None:
        """Take `size` bytes and call `place`. Raises BufferFullError if there is no room or other calls wait."""
        if not self._try_enter(size, place):
            raise BufferFullError(
                f"The producer's buffer is full: {self.used} of {self.limit_bytes} bytes are not acknowledged yet, "
                f"and this message needs {size}. Wait for earlier messages, or use send(), which waits."
            )

    async def enter(self, size: int, place: Callable[[], None], timeout_seconds: float | None = None) -> None:
        """Wait for room, take `size` bytes and call `place` in the same step.

        Raises TimeoutError or ClosedError. After such an error `place` was not called and will not be called. If the
        call is cancelled, `place` may have been called before.
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
        """Return when every call that waits now has been admitted, was rejected or stopped waiting."""
        if self._line:
            await asyncio.wait([waiting.answer for waiting in self._line])

    def close(self) -> None:
        """Reject all waiting calls and all later ones with ClosedError."""
        self._closed = True
        while self._line:
            self._line.popleft().answer.set_result(False)

    def take(self, size: int) -> bool:
        """Take `size` bytes if there is room and no other call waits; return whether they were taken.

        If the bytes were taken, the caller must place its message at once. Raises ClosedError.
        """
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
        self._admit_soon()  # the calls behind this one may have room now

    def _admit_soon(self) -> None:
        """Admit waiting calls in a later step of the event loop, because the caller that released bytes may be
        placing earlier messages now."""
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
    return ClosedError("The producer was closed before its buffer had room for this message: it was not sent.")
