"""Watches the running calls of a listener, and finds the calls that take too long.

A check, which runs regularly, reads the clock. A worker does not read the clock, so for each call the worker only sets
one variable. The duration of a call is counted from the first check that sees the call, so
the real duration is at least as long. If a call takes too long, the check marks the call, and the worker sees the mark
when the call ends. Calls can begin and end in any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from ledger.client.records import Message


class Call:
    """The call of the listener that one worker makes at present. A worker is a task or a thread, and makes one call
    at a time."""

    __slots__ = ("_ends", "_found", "_seen", "_seen_at", "_seen_ends", "message", "worker")

    def __init__(self, worker: Hashable) -> None:
        self.worker = worker
        # The worker sets the message of its present call; None: no call is running. A worker that calls the listener
        # with one message after another only sets the next message. The same message comes again only behind `end`.
        self.message: Message | None = None
        # How many times `end` was called.
        self._ends = 0
        # The message of the call that the check saw last, and `_ends` at that time.
        self._seen: Message | None = None
        self._seen_ends = -1
        self._seen_at = 0.0
        # The message of the call that the check marked as too long.
        self._found: Message | None = None

    @property
    def is_overdue(self) -> bool:
        """True if the check has marked the present call as too long."""
        return self._found is not None and self._found is self.message

    def end(self) -> bool:
        """Record the end of the last call. Return True if the call was not marked as too long. A worker thread must
        hold `CallWatch.lock` when it calls `end`."""
        in_time = not self.is_overdue
        self.message = self._found = None
        self._ends += 1
        return in_time

    def look(self, now: float, timeout_s: float) -> Message | None:
        """Check how long the call has taken. If the call takes too long and is not marked yet, mark the call and
        return its message; otherwise return None."""
        message, ends = self.message, self._ends
        if message is None or message is self._found:
            return None
        if self._seen is not message or self._seen_ends != ends:
            self._seen, self._seen_ends, self._seen_at = message, ends, now
        if now - self._seen_at < timeout_s:
            return None
        self._found = message
        return message


class CallWatch:
    """Finds the calls of one listener that take too long."""

    def __init__(self, timeout_s: float, clock: Callable[[], float]) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._calls: dict[Hashable, Call] = {}
        # Held while a thread ends its call, and during a check.
        self.lock = threading.Lock()
        # How many calls took too long.
        self.timeouts = 0

    def of(self, worker: Hashable) -> Call:
        """Return the `Call` object of this worker."""
        call = self._calls.get(worker)
        if call is None:
            call = self._calls[worker] = Call(worker)
        return call

    def overdue(self) -> list[tuple[Call, Message]]:
        """Check all running calls. Mark the calls that take too long, and return the newly marked calls, each with
        its message."""
        now = self._clock()
        with self.lock:
            looked_at = [(call, call.look(now, self._timeout_s)) for call in list(self._calls.values())]
        found = [(call, message) for call, message in looked_at if message is not None]
        self.timeouts += len(found)
        return found
