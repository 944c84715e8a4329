"""What the synchronous twins have read ahead of their programs, for iteration.

The one idea: a queue may be paused, or go elsewhere, while messages of it lie here; so each is looked at again when its
turn comes.
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
