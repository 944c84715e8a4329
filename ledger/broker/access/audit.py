"""Writes one log line for each administrative act: who did what, from where, and whether it succeeded.

The lines have the logger `ledgermq.audit`, and the newest `MAX_LINES` stay in memory (`after`). They name users,
topics, consumer groups and nodes, and never a password, a token or a message. A user without rights can try acts
without end, so only `MAX_REFUSED` refused acts of one user are logged in a minute. The next line of the user says how
many were left out.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from ledger.broker.access.callers import Caller

log = logging.getLogger("ledgermq.audit")

# Fields of requests that are secrets, or long.
_LEFT_OUT = ("verifier", "incarnation", "incarnations")
# Of a request, and of an error.
MAX_CHARACTERS = 500


MAX_REFUSED = 60
INTERVAL_S = 60.0
# How many lines stay in memory.
MAX_LINES = 1_000
# Users whose refused acts are counted. The ones that tried nothing for longest are forgotten first.
_MAX_USERS = 1_000


@dataclass(slots=True)
class _Refused:
    """The refused acts of one user since `began_s`."""

    began_s: float
    logged: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class AuditLine:
    """`number` counts the lines of this run of the node, from 1. `time_ms` is in ms since 1970."""

    number: int
    time_ms: int
    text: str


class AuditLog:
    """Writes the lines of one node. `monotonic_s` is the clock, in seconds, and `now_ms` the wall clock."""

    def __init__(
        self,
        monotonic_s: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._monotonic_s = monotonic_s
        self._now_ms = now_ms
        self._lines: deque[AuditLine] = deque(maxlen=MAX_LINES)
        self._count = 0
        self._refused: OrderedDict[str, _Refused] = OrderedDict()

    def after(self, number: int) -> list[AuditLine]:
        """Return the lines after the line with this number, the oldest first."""
        return [line for line in self._lines if line.number > number]

    def _write(self, text: str) -> None:
        self._count += 1
        self._lines.append(AuditLine(self._count, self._now_ms(), text))
        log.info("%s", text)

    def record(self, caller: Caller, peer: str, method: str, request: Message, error: str) -> None:
        """Log one act that the caller had the right to. `error` is empty if the act succeeded."""
        self._write(f"{caller} from {peer}: {method} {described(request)}: {error[:MAX_CHARACTERS] or 'done'}")

    def record_refused(self, caller: Caller, peer: str, method: str, request: Message, error: str) -> None:
        """Log one act that was refused, unless many acts of this user were refused within the last minute."""
        if self._may_log_refused(caller.user):
            self._write(f"{caller} from {peer}: {method} {described(request)}: {error[:MAX_CHARACTERS]}")

    def record_path(self, caller: Caller, peer: str, path: str) -> None:
        """Log one request of an HTTP path."""
        self._write(f"{caller} from {peer}: GET {_on_one_line(path)}: allowed")

    def record_refused_path(self, caller: Caller, peer: str, path: str, error: str) -> None:
        """Log one request of an HTTP path that was refused, as `record_refused` does."""
        if self._may_log_refused(caller.user):
            self._write(f"{caller} from {peer}: GET {_on_one_line(path)}: {error}")

    def _may_log_refused(self, user: str) -> bool:
        """Count one refused act of the user. Return True if it may be logged."""
        now_s = self._monotonic_s()
        refused = self._refused.get(user)
        if refused is None or now_s - refused.began_s >= INTERVAL_S:
            if refused is not None and refused.left_out:
                self._write(f"{user}: {refused.left_out} more refused acts were left out")
            refused = self._refused[user] = _Refused(now_s)
            if len(self._refused) > _MAX_USERS:
                self._refused.popitem(last=False)
        self._refused.move_to_end(user)
        if refused.logged >= MAX_REFUSED:
            refused.left_out += 1
            return False
        refused.logged += 1
        return True


def _on_one_line(path: str) -> str:
    return repr(path)[1:-1][:MAX_CHARACTERS]


def described(request: Message) -> str:
    """Return the fields of a request as text, without secrets, on one line."""
    parts = []
    for field, value in request.ListFields():
        shown = "..." if field.name in _LEFT_OUT else _shown(value)
        parts.append(f"{field.name}={shown}")
    return " ".join(parts)[:MAX_CHARACTERS]


def _shown(value: Any) -> str:
    if isinstance(value, str | int | float | bool):
        return repr(value)
    return " ".join(str(value).split())
