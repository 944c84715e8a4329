"""The reserved headers in which the cluster keeps what RocketMQ's clients say about a message.

Key, tag, look-up keys, time and user's properties have fields of their own in a message of the cluster. The other
properties are headers. Their names begin with `%`. A user's property whose name begins with `%` is a header with a
control character before the name, which no name of a property contains.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.limits import MAX_LOOK_UP_KEYS
from ledger.rocketmq.v2 import definition_pb2 as pb

# The id that the producer gave to the message.
MESSAGE_ID = "%MESSAGE_ID"
# The type of the message, such as "FIFO"; a message without this header is NORMAL.
TYPE = "%TYPE"
# The host of the producer, as it told it.
BORN_HOST = "%BORN_HOST"
# "GZIP" if the producer compressed the body.
ENCODING = "%ENCODING"
# What a tracer of the producer wrote.
TRACE = "%TRACE"
# The priority of the message, a number as text.
PRIORITY = "%PRIORITY"
# All keys, if there are more than the cluster finds the message by. No key has the separator, a control character.
KEYS = "%KEYS"
KEY_SEPARATOR = "\x01"

RESERVED = "%"
_ESCAPE = "\x01"


def header_of(property_name: str) -> str:
    """Return the name of the header that keeps a user's property."""
    return f"{_ESCAPE}{property_name}" if property_name.startswith(RESERVED) else property_name


def property_of(header: str) -> str:
    """Return the name of the user's property that a header keeps, which is no reserved header."""
    return header.removeprefix(_ESCAPE) if header.startswith(f"{_ESCAPE}{RESERVED}") else header


def reserved_headers(
    *,
    message_id: str,
    kind: pb.MessageType,
    born_host: bytes,
    body_encoding: pb.Encoding,
    trace: bytes,
    priority: int | None,
    keys: Sequence[str],
) -> list[tuple[str, bytes]]:
    """Return the reserved headers of a message. What is empty, None or the default has no header."""
    found = [(MESSAGE_ID, message_id.encode())]
    if kind != pb.NORMAL:
        found.append((TYPE, pb.MessageType.Name(kind).encode()))
    if born_host:
        found.append((BORN_HOST, born_host))
    if body_encoding == pb.GZIP:
        found.append((ENCODING, b"GZIP"))
    if trace:
        found.append((TRACE, trace))
    if priority is not None:
        found.append((PRIORITY, b"%d" % priority))
    if len(keys) > MAX_LOOK_UP_KEYS:
        found.append((KEYS, KEY_SEPARATOR.join(keys).encode()))
    return found
