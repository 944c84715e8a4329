"""Calls the queue selector, a function of the user that chooses the queue of a message.

The producer checks the result of the queue selector. If the result is wrong or the queue selector raises an exception,
only the send of this message fails. The error message of the failed send names the queue selector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index

from ledger.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class UnplacedMessage:
    """A message that was sent without `queue`, as it is passed to the queue selector. `headers` has pairs of a name
    and a value."""

    topic: str
    value: bytes
    key: bytes | None = None
    tag: str | None = None
    headers: Sequence[tuple[str, bytes]] = ()


# `selector(message, queues)` returns a queue, 0 to queues - 1, or None for the default choice. It is called on the
# client's event loop, once for each message, and must not block. `queues` may grow at any time.
QueueSelector = Callable[[UnplacedMessage, int], int | None]


def selected(selector: QueueSelector, message: UnplacedMessage, queues: int) -> int | None:
    """Return the queue that the selector chose, or None for the default choice. Raises InvalidArgumentError if the
    topic has no such queue, or if the selector raises an exception."""
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
            f"{queues - 1}: it must return one of these, or None. The message was not sent."
        )
    return queue
