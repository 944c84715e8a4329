"""Writes one log line for each administrative act: who did what, from where, and whether it succeeded.

The lines have the logger `ledgermq.audit`. They name users, topics, consumer groups and nodes, and never a password, a
token or a message.
"""

from __future__ import annotations

import logging
from typing import Any

from google.protobuf.message import Message

from ledger.broker.access.callers import Caller

log = logging.getLogger("ledgermq.audit")

# Fields of requests that are secrets, or long.
_LEFT_OUT = ("verifier", "incarnation", "incarnations")
MAX_CHARACTERS = 500


def record(caller: Caller, peer: str, method: str, request: Message, error: str) -> None:
    """Log one act. `error` is empty if the act succeeded."""
    log.info("%s from %s: %s %s: %s", caller, peer, method, described(request), error or "done")


def record_path(caller: Caller, peer: str, path: str, error: str) -> None:
    """Log one request of an HTTP path. `error` is empty if the caller had the right."""
    log.info("%s from %s: GET %s: %s", caller, peer, repr(path)[1:-1][:MAX_CHARACTERS], error or "allowed")


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
