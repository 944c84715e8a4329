"""Limits the bytes of messages that a producer has accepted and that have no result yet.

Calls that wait for room are admitted in the order in which they began to wait, so small messages cannot overtake a
large message. A message is admitted and given to its sequencer in one step, so messages are sent in the order of the
calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ledger.errors import BufferFullError, ClosedError


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A call that waits for room in the buffer. The result of the future `answer` is True if the call was admitted,
    and False if the buffer was closed. The future `answer` is cancelled if the call stopped waiting.
    """

    size: int
    place: Callable[[], None]
    answer: asyncio.Future[bool]


class Buffer:
    """Counts the bytes of accepted messages without a result in `used`, and limits them to `limit_bytes`.

    A message that is larger than `limit_bytes` is admitted when `used` is 0.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used = 0  # 0 <= used <= limit_bytes; a single larger message may exceed the limit
        self._line: deque[_Waiting] = deque()
        self._admission_due = False
        self._closed = False

    def enter_nowait(self, size: int, place: Callable[[], None]) -> None:
        """Add `size` to the used bytes, and call `place`. Raises BufferFullError if there is no room for `size`
        bytes, or if other calls wait for room."""
        if not self._try_enter(size, place):
            raise BufferFullError(
                f"The producer's buffer is full: {self.used} of {self.limit_bytes} bytes are not acknowledged yet, "
                f"and this message needs {size}. Wait for earlier messages, or use send(), which waits."
            )

    async def enter(self, size: int, place: Callable[[], None], timeout_seconds: float | None = None) -> None:
        """Wait until there is room for `size` bytes. When there is room, add `size` to the used bytes and call
        `place`, both in one step.

        Raises TimeoutError or ClosedError. If `enter` raises TimeoutError or ClosedError, `place` was not called and
        will not be called. If the waiting call is cancelled, it is possible that `place` was already called.
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
        """Wait until every call that waits for free bytes at this moment is admitted, is rejected or stops waiting."""
        if self._line:
            await asyncio.wait([waiting.answer for waiting in self._line])

    def close(self) -> None:
        """Reject all calls that wait for room, and all later calls, with ClosedError."""
        self._closed = True
        while self._line:
            self._line.popleft().answer.set_result(False)

    def take(self, size: int) -> bool:
        """If there is room for `size` bytes and no other call waits, add `size` to the used bytes and return True;
        otherwise return False.

        If the result is True, the caller must give its message to a sequencer at once. Raises ClosedError.
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
        """Admit waiting calls in a later step of the event loop, because the code that released bytes may be adding
        earlier messages to sequencers in this step."""
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
