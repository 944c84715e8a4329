"""Retry topics and dead-letter topics: their names, the headers of a moved message, and the retry delays.

Brokers use this module when they move a message to a retry topic or a dead-letter topic. Clients use it when they read
such topics.
"""

from __future__ import annotations

from collections.abc import Iterable

import xxhash

RETRY, DEAD_LETTERS = "%RETRY%", "%DLQ%"

# Header: the number of failed deliveries of the message before this one.
ATTEMPT = "%ATTEMPT"
# Header: `topic:queue:offset` of the message that the producer sent.
ORIGIN = "%ORIGIN"
# Header: `topic id:queue:offset` of the message before its last move.
FROM = "%FROM"

# The headers that a move adds to a message.
MOVED_HEADERS = (ATTEMPT, ORIGIN, FROM)

SECOND, MINUTE, HOUR = 1, 60, 3600
# The delay before the second attempt, the third attempt, and so on. Source: RocketMQ's delay levels from 3 on.
DELAYS_S = (
    10 * SECOND, 30 * SECOND, *(minutes * MINUTE for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    1 * HOUR, 2 * HOUR,
)  # fmt: skip

# The limit on a consumer group's name, as in `ledger/consumer_groups.py`.
_MAX_NAME_LENGTH = 63

Headers = Iterable[tuple[str, bytes]]


def retry_topic(consumer_group: str) -> str:
    return RETRY + consumer_group


def dead_letter_topic(consumer_group: str) -> str:
    return DEAD_LETTERS + consumer_group


def resending_group(consumer_group: str) -> str:
    """Return the name of the consumer group that resends dead letters of `consumer_group`.

    The offset of the returned consumer group is the offset before which all dead letters have been sent again.
    """
    name = f"dlq.{consumer_group}"
    return name if len(name) <= _MAX_NAME_LENGTH else f"dlq.{xxhash.xxh3_128_hexdigest(consumer_group.encode())}"


def consumer_group_of(topic: str) -> str | None:
    """Return the consumer group of a retry topic or dead-letter topic, or None for any other topic."""
    for prefix in (RETRY, DEAD_LETTERS):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return None


def attempts(headers: Headers) -> int:
    """Return the number of failed deliveries that a message's headers report; 0 if the message was never moved."""
    text = dict(headers).get(ATTEMPT, b"0")
    return int(text) if text.isdigit() else 0


def origin(headers: Headers) -> str | None:
    """Return `topic:queue:offset` of the message that the producer sent, or None if the message was never moved."""
    text = dict(headers).get(ORIGIN)
    return None if text is None else text.decode(errors="replace")


def moved_headers(headers: Headers, *, here: str, came_from: str, attempt: int) -> list[tuple[str, bytes]]:
    """Return the headers for the copy of a moved message.

    `here`, the place `topic:queue:offset` of the message, becomes the value of the header ORIGIN, unless the topic has
    moved messages. Only there is an ORIGIN of a broker: anywhere else it is what the producer sent, and `dlq resend`
    would send the message wherever the producer wants. `came_from` becomes the value of the header FROM, and `attempt`
    the value of the header ATTEMPT.
    """
    kept = [(name, value) for name, value in headers if name not in MOVED_HEADERS]
    is_moved = consumer_group_of(here.rsplit(":", 2)[0]) is not None
    first = (origin(headers) if is_moved else None) or here
    return [*kept, (ATTEMPT, b"%d" % attempt), (ORIGIN, first.encode()), (FROM, came_from.encode())]


def place_before(headers: Headers) -> tuple[int, int, int] | None:
    """Return the topic id, queue and offset that a message had before its last move, or None if the message was
    never moved."""
    parts = dict(headers).get(FROM, b"").split(b":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    topic_id, queue, offset = map(int, parts)
    return topic_id, queue, offset
