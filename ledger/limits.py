"""The limits of a message: the number and size of its headers (RocketMQ's limits), the number of its look-up keys, and
its offset.

Clients check a message against the limits before they send it. Leaders check the limits again before they append a
batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.errors import HeadersTooLargeError, InvalidArgumentError, TooManyHeadersError

MAX_HEADERS = 128
# Bytes of all header names (in UTF-8) and header values of one message together.
MAX_HEADERS_BYTES = 16 * 1024
MAX_LOOK_UP_KEYS = 16
# Of a message id, in UTF-8.
MAX_MESSAGE_ID_BYTES = 256
# Headers whose names begin so are not the user's: a node writes them, for example for a RocketMQ client. They have
# limits of their own.
RESERVED_HEADER = "%"
MAX_RESERVED_HEADERS = 16
MAX_RESERVED_HEADERS_BYTES = 24 * 1024
# The largest offset of a queue: offsets are stored in 64 bits with a sign.
MAX_OFFSET = (1 << 63) - 1
_RESERVED = RESERVED_HEADER.encode()


def validate_headers(count: int, size: int) -> None:
    """Raise TooManyHeadersError if a message has too many headers (`count`), and HeadersTooLargeError if their
    total size (`size`, in bytes) is too large."""
    if count > MAX_HEADERS:
        raise TooManyHeadersError(
            f"A message has {count} headers; the limit is {MAX_HEADERS}. Combine several values in one header, or put "
            "them into the message's value."
        )
    if size > MAX_HEADERS_BYTES:
        raise HeadersTooLargeError(
            f"The headers of a message have {size} bytes; the limit is {MAX_HEADERS_BYTES}. Put large data into the "
            "message's value."
        )


def validate_reserved_headers(count: int, size: int) -> None:
    """Raise TooManyHeadersError or HeadersTooLargeError if a message has too many reserved headers (`count`), or too
    large ones (`size`, in bytes)."""
    if count > MAX_RESERVED_HEADERS:
        raise TooManyHeadersError(
            f"A message has {count} headers whose names begin with {RESERVED_HEADER}; the limit is "
            f"{MAX_RESERVED_HEADERS}. Choose other names."
        )
    if size > MAX_RESERVED_HEADERS_BYTES:
        raise HeadersTooLargeError(
            f"The headers whose names begin with {RESERVED_HEADER} have {size} bytes; the limit is "
            f"{MAX_RESERVED_HEADERS_BYTES}. Choose other names."
        )


def validate_all_headers(names: Sequence[bytes], sizes: Sequence[int]) -> None:
    """Raise TooManyHeadersError or HeadersTooLargeError if the headers of one message are over a limit. `sizes` has the
    bytes of name and value of each."""
    reserved = [size for name, size in zip(names, sizes, strict=True) if name.startswith(_RESERVED)]
    validate_reserved_headers(len(reserved), sum(reserved))
    validate_headers(len(names) - len(reserved), sum(sizes) - sum(reserved))


def validate_look_up_keys(count: int) -> None:
    """Raise InvalidArgumentError if a message has too many look-up keys (`count`)."""
    if count > MAX_LOOK_UP_KEYS:
        raise InvalidArgumentError(
            f"A message has {count} look-up keys; the limit is {MAX_LOOK_UP_KEYS}. Give only the keys by which people "
            "look for the message."
        )
