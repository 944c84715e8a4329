"""Selects what to hand out from the messages that a synchronous client has read ahead.

The event loop's thread stores what it has read, and the program's thread takes it from there. A signal handler may
raise an exception in the program's thread at any moment, for example at Ctrl-C. Then no message may be lost between the
two threads: a message is removed from what was read ahead only in the last step before it is returned. These functions
therefore remove nothing.

A queue can be paused or lost after its messages were read ahead, so each message is checked again before it is handed
out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ledger.client.records import Message, Received


def first_ahead(ahead: deque[Message[Received]], may_go: Callable[[Message[Received]], bool]) -> int | None:
    """Return the place of the first message for which `may_go` returns True, or None if there is no such message."""
    for at, message in enumerate(ahead):
        if may_go(message):
            return at
    return None


def split_ahead(
    ahead: deque[Message[Received]], may_go: Callable[[Message[Received]], bool], max_messages: int
) -> tuple[list[Message[Received]], deque[Message[Received]]]:
    """Return the first `max_messages` messages for which `may_go` returns True, and the other messages, both in their
    order."""
    taken: list[Message[Received]] = []
    others: deque[Message[Received]] = deque()
    for message in ahead:
        if len(taken) < max_messages and may_go(message):
            taken.append(message)
        else:
            others.append(message)
    return taken, others
