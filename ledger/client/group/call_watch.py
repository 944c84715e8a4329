"""Running calls of a listener, and which of them take too long.

A call costs an assignment and a count, because only a periodic check reads the clock. A call's time starts when the
check first sees it, so the call has taken at least that long. A call that took too long is marked, and learns of it
when it ends. Calls may begin and end in any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from ledger.client.records import Message


class Call:
    """The call that a worker, a task or a thread, makes at the moment; it makes one at a time."""

    __slots__ = ("_count", "_found", "_seen", "_seen_at", "message", "worker")

    def __init__(self, worker: Hashable) -> None:
        self.worker = worker
        # Who begins a call says here what it is about; None: there is none.
        self.message: Message | None = None
        # Calls that have ended.
        self._count = 0
        # The count when it was seen first, and when it took too long.
        self._seen, self._found = -1, -1
        self._seen_at = 0.0

    @property
    def is_overdue(self) -> bool:
        return self._found == self._count

    def end(self) -> bool:
        """Whether that was in time. Threads hold the watch's lock meanwhile."""
        in_time = self._found != self._count
        self.message = None
        self._count += 1
        return in_time

    def look(self, now: float, timeout_s: float) -> Message | None:
        """What it is about, if it takes too long, and was not said to before."""
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
    def __init__(self, timeout_s: float, clock: Callable[[], float]) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._calls: dict[Hashable, Call] = {}
        # Between threads whose calls end and who looks.
        self.lock = threading.Lock()
        # Calls that took too long.
        self.timeouts = 0

    def of(self, worker: Hashable) -> Call:
        """Where that one notes its calls."""
        call = self._calls.get(worker)
        if call is None:
            call = self._calls[worker] = Call(worker)
        return call

    def overdue(self) -> list[tuple[Call, Message]]:
        """Those whose time is over since this was asked last, and what they are about."""
        now = self._clock()
        with self.lock:
            looked_at = [(call, call.look(now, self._timeout_s)) for call in list(self._calls.values())]
        found = [(call, message) for call, message in looked_at if message is not None]
        self.timeouts += len(found)
        return found
