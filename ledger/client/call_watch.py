"""Calls of a listener that are under way, and those of them that take too long.

The one idea: a call costs an entry here and nothing else; who takes too long is found by looking now and then. A call
that was found is no call any more for whoever began it: it is told so when it ends. Calls begin and end in any thread.

It must not know how a call is ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from ledger.client.records import Message


@dataclass(slots=True)
class Call:
    worker: Hashable
    """A task or a thread, which makes one call at a time."""
    message: Message
    ends_by: float
    is_overdue: bool = False


class CallWatch:
    def __init__(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._calls: dict[Hashable, Call] = {}
        self._lock = threading.Lock()
        self.timeouts = 0
        """Calls that took too long."""

    def begin(self, worker: Hashable, message: Message) -> None:
        call = Call(worker, message, self._clock() + self._timeout_s)
        with self._lock:
            self._calls[worker] = call

    def end(self, worker: Hashable) -> bool:
        """Whether that was in time."""
        with self._lock:
            return not self._calls.pop(worker).is_overdue

    def is_overdue(self, worker: Hashable) -> bool:
        with self._lock:
            return self._calls[worker].is_overdue

    def overdue(self) -> list[Call]:
        """Those whose time is over since this was asked last."""
        now = self._clock()
        with self._lock:
            found = [call for call in self._calls.values() if call.ends_by <= now and not call.is_overdue]
            for call in found:
                call.is_overdue = True
        self.timeouts += len(found)
        return found
