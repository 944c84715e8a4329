"""Calls the user's own function that chooses a message's queue.

The function is user code, so the producer checks its result. A wrong result or an exception fails only the send of
that message, with an error that names the function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import index

from ledger.client.producer.producer_batch import Headers
from ledger.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class UnplacedMessage:
    """A message that was sent without `queue`. `headers` has pairs of a name and a value."""

    topic: str
    value: bytes
    key: bytes | None = None
    tag: str | None = None
    headers: Headers = ()


# `selector(message, queues)` returns a queue, 0 to queues - 1, or None for the default choice. It is called on the
# client's event loop, once for each message, and must not block. `queues` may grow at any time.
QueueSelector = Callable[[UnplacedMessage, int], int | None]


def selected(selector: QueueSelector, message: UnplacedMessage, queues: int) -> int | None:
    """Return the selector's choice. Raises InvalidArgumentError if the choice is not a queue or the selector raises."""
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
