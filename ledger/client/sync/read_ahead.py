"""The messages that a synchronous client has read ahead for iteration.

A queue may be paused or lost while its messages wait here, so each message is checked again before it is handed out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ledger.client.records import Message


def next_ahead(ahead: deque[Message], may_go: Callable[[Message], bool]) -> Message | None:
    """Takes the first message that may go out; the others keep their places."""
    for at, message in enumerate(ahead):
        if may_go(message):
            del ahead[at]
            return message
    return None
