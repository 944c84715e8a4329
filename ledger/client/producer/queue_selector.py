"""The user's own function that chooses a message's queue.

A selector is foreign code. Its result affects one send only: a queue, no choice, or an error that blames the selector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import index

from ledger.client.producer.producer_batch import Headers
from ledger.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class UnplacedMessage:
    """A message that no queue was named for. `headers`: pairs of a name and a value, perhaps none."""

    topic: str
    value: bytes
    key: bytes | None = None
    tag: str | None = None
    headers: Headers = ()


# `selector(message, queues)` gives the queue, 0 to queues - 1, or None: as without a selector. It is called on the
# client's loop, once for each message, and must not block. A topic may be given more queues at any time.
QueueSelector = Callable[[UnplacedMessage, int], int | None]


def selected(selector: QueueSelector, message: UnplacedMessage, queues: int) -> int | None:
    """What it says. Raises InvalidArgumentError where that is no queue, or where it raises (which is the cause)."""
    try:
        chosen = selector(message, queues)
    except Exception as error:
        raise InvalidArgumentError(
            f'queue_selector raised {error!r} for a message of topic "{message.topic}": the message was not sent.'
        ) from error
    if chosen is None:
        return None
    try:
        queue = index(chosen)
    except TypeError:
        queue = -1
    if not 0 <= queue < queues:
        raise InvalidArgumentError(
            f'queue_selector chose {chosen!r} for a message of topic "{message.topic}", which has the queues 0 to '
            f"{queues - 1}: let it return one of these, or None. The message was not sent."
        )
    return queue
