"""Watches the running calls of a listener, and finds those that take too long.

Only a periodic check reads the clock, so a call costs no more than an assignment and a count. The measured time of a
call starts when the check first sees the call, so the call took at least the measured time. A call that takes too long
is marked; the worker sees the mark when the call ends. Calls may begin and end in any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from ledger.client.records import Message


class Call:
    """The present call of one worker. A worker is a task or a thread, and makes one call at a time."""

    __slots__ = ("_count", "_found", "_seen", "_seen_at", "message", "worker")

    def __init__(self, worker: Hashable) -> None:
        self.worker = worker
        # The worker sets the message of its present call; None: no call is running.
        self.message: Message | None = None
        # How many calls have ended.
        self._count = 0
        # The count when the check first saw the present call, and when the check marked it.
        self._seen, self._found = -1, -1
        self._seen_at = 0.0

    @property
    def is_overdue(self) -> bool:
        return self._found == self._count

    def end(self) -> bool:
        """End the call; return whether it ended in time. A thread must hold the lock of the watch."""
        in_time = self._found != self._count
        self.message = None
        self._count += 1
        return in_time

    def look(self, now: float, timeout_s: float) -> Message | None:
        """Check the call. If the call takes too long and was not marked before, mark it and return its message;
        otherwise return None."""
        message, count = self.message, self._count
        if message is None or self._found == count:
            return None
        if self._seen != count:
            self._seen, self._seen_at = count, now
        if now - self._seen_at < timeout_s:
            return None
        self._found = count
        return message


class CallWatch:
    """The calls of all workers of one listener."""

    def __init__(self, timeout_s: float, clock: Callable[[], float]) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._calls: dict[Hashable, Call] = {}
        # Held while a thread ends its call, and during a check.
        self.lock = threading.Lock()
        # How many calls took too long.
        self.timeouts = 0

    def of(self, worker: Hashable) -> Call:
        """Return the Call of this worker."""
        call = self._calls.get(worker)
        if call is None:
            call = self._calls[worker] = Call(worker)
        return call

    def overdue(self) -> list[tuple[Call, Message]]:
        """Return the calls that were marked by this check, each with its message."""
        now = self._clock()
        with self.lock:
            looked_at = [(call, call.look(now, self._timeout_s)) for call in list(self._calls.values())]
        found = [(call, message) for call, message in looked_at if message is not None]
        self.timeouts += len(found)
        return found
