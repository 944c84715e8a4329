"""Retry topics and dead letters: their names, the headers of a moved message, and the delays.

Brokers move messages by these rules, and clients read the moved messages by them.
"""

from __future__ import annotations

from collections.abc import Iterable

import xxhash

RETRY, DEAD_LETTERS = "%RETRY%", "%DLQ%"

# Header: how often the message was handed out before, in vain.
ATTEMPT = "%ATTEMPT"
# Header: `topic:queue:offset` of the place where its producer put it.
ORIGIN = "%ORIGIN"
# Header: `topic id:queue:offset` of the place where it was before.
FROM = "%FROM"

# What a message has got by being moved.
MOVED_HEADERS = (ATTEMPT, ORIGIN, FROM)

SECOND, MINUTE, HOUR = 1, 60, 3600
# RocketMQ's: before the second attempt, the third, ... Source: its delay levels from 3 on.
DELAYS_S = (
    10 * SECOND, 30 * SECOND, *(minutes * MINUTE for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    1 * HOUR, 2 * HOUR,
)  # fmt: skip

# Of a consumer group, as in `consumer_groups`.
_MAX_NAME_LENGTH = 63

Headers = Iterable[tuple[str, bytes]]


def retry_topic(consumer_group: str) -> str:
    return RETRY + consumer_group


def dead_letter_topic(consumer_group: str) -> str:
    return DEAD_LETTERS + consumer_group


def resending_group(consumer_group: str) -> str:
    """The consumer group whose progress says how far the dead letters of this one were sent again."""
    name = f"dlq.{consumer_group}"
    return name if len(name) <= _MAX_NAME_LENGTH else f"dlq.{xxhash.xxh3_128_hexdigest(consumer_group.encode())}"


def consumer_group_of(topic: str) -> str | None:
    """Whose retry or dead letter topic that is; None: it is none."""
    for prefix in (RETRY, DEAD_LETTERS):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return None


def attempts(headers: Headers) -> int:
    """How often a message with these headers was handed out before, in vain."""
    text = dict(headers).get(ATTEMPT, b"0")
    return int(text) if text.isdigit() else 0


def origin(headers: Headers) -> str | None:
    """Where its producer put it; None: it was never moved."""
    text = dict(headers).get(ORIGIN)
    return None if text is None else text.decode(errors="replace")


def moved_headers(headers: Headers, *, here: str, came_from: str, attempt: int) -> list[tuple[str, bytes]]:
    """Of a message that is moved from here. `here`, `came_from`: as ORIGIN and FROM have it."""
    kept = [(name, value) for name, value in headers if name not in MOVED_HEADERS]
    first = origin(headers) or here
    return [*kept, (ATTEMPT, b"%d" % attempt), (ORIGIN, first.encode()), (FROM, came_from.encode())]


def place_before(headers: Headers) -> tuple[int, int, int] | None:
    """(topic id, queue, offset) of the place where it was before; None: it was not moved."""
    parts = dict(headers).get(FROM, b"").split(b":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    topic_id, queue, offset = map(int, parts)
    return topic_id, queue, offset
