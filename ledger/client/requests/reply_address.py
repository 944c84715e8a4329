"""The headers of requests and replies. A request names its reply address and its correlation id, and the reply repeats
the correlation id. No I/O.

    reply-to         replies:3:9f2c60b1d4a7e853     topic, queue, and the tag that only this requester reads
    correlation-id   9f2c60b1d4a7e853-17            the requester's number of the request
    reply-error      ValueError: ...                only in a reply: why there is no result
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.client.records import Message
from ledger.errors import InvalidTopicNameError
from ledger.topics import validate_topic_name

REPLY_TO, CORRELATION_ID, REPLY_ERROR = "reply-to", "correlation-id", "reply-error"
RESERVED_HEADERS = frozenset((REPLY_TO, CORRELATION_ID, REPLY_ERROR))
# The reply topic of requesters and responders that name no other.
REPLY_TOPIC = "replies"

_MAX_QUEUE_DIGITS = 4
_MAX_TAG_CHARACTERS = 64
_MAX_CORRELATION_BYTES = 128
# An error of a handler is cut to so many characters.
_MAX_ERROR_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class ReplyAddress:
    """Where a requester reads its replies, and the correlation id of one request."""

    topic: str
    queue: int
    tag: str
    correlation_id: bytes

    def headers(self) -> list[tuple[str, bytes]]:
        """Return the headers of the request."""
        return [
            (REPLY_TO, f"{self.topic}:{self.queue}:{self.tag}".encode()),
            (CORRELATION_ID, self.correlation_id),
        ]

    def reply_headers(self, error: str = "") -> list[tuple[str, bytes]]:
        """Return the headers of the reply. `error` says why there is no result, and is "" if there is one."""
        headers = [(CORRELATION_ID, self.correlation_id)]
        if error:
            headers.append((REPLY_ERROR, error[:_MAX_ERROR_CHARACTERS].encode(errors="replace")))
        return headers


def reply_address(message: Message) -> ReplyAddress | None:
    """Return the reply address of a request. Return None if the message has none, or one that is not valid: any program
    may write such headers."""
    correlation_id = correlation_of(message)
    if not 1 <= len(correlation_id) <= _MAX_CORRELATION_BYTES:
        return None
    try:
        topic, queue, tag = _header(message.headers, REPLY_TO).decode().rsplit(":", 2)
        validate_topic_name(topic)
    except (ValueError, InvalidTopicNameError):  # not UTF-8 is a ValueError too
        return None
    is_number = queue.isascii() and queue.isdecimal() and len(queue) <= _MAX_QUEUE_DIGITS
    if not is_number or not 1 <= len(tag) <= _MAX_TAG_CHARACTERS:
        return None
    return ReplyAddress(topic, int(queue), tag, correlation_id)


def correlation_of(message: Message) -> bytes:
    """Return the correlation id of a request or a reply, b"" if it has none."""
    return _header(message.headers, CORRELATION_ID)


def error_of(reply: Message) -> str:
    """Return the error that a reply tells, "" if it tells none."""
    return _header(reply.headers, REPLY_ERROR)[: 4 * _MAX_ERROR_CHARACTERS].decode(errors="replace")


def _header(headers: Sequence[tuple[str, bytes]], name: str) -> bytes:
    return next((value for each, value in headers if each == name), b"")
