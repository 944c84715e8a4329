"""Selects the next message from the messages that a synchronous client has read ahead for iteration.

A queue can be paused or lost after its messages were read ahead, so each message is checked again before it is handed
out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ledger.client.records import Message, Received


def next_ahead(
    ahead: deque[Message[Received]], may_go: Callable[[Message[Received]], bool]
) -> Message[Received] | None:
    """Remove and return the first message for which `may_go` returns True. If `may_go` returns False for every
    message, return None. All other messages keep their order.
    """
    for at, message in enumerate(ahead):
        if may_go(message):
            del ahead[at]
            return message
    return None
