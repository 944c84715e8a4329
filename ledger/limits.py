"""The limits on the number and size of a message's headers (RocketMQ's limits).

Clients check them before they send, brokers before they append.
"""

from __future__ import annotations

from ledger.errors import HeadersTooLargeError, TooManyHeadersError

MAX_HEADERS = 128
# Of the names, in UTF-8, and the values of one message together.
MAX_HEADERS_BYTES = 16 * 1024


def validate_headers(count: int, size: int) -> None:
    """Raise TooManyHeadersError or HeadersTooLargeError unless a message may have `count` headers of `size` bytes."""
    if count > MAX_HEADERS:
        raise TooManyHeadersError(
            f"A message has {count} headers and may have {MAX_HEADERS}: put several values into one, or into the body."
        )
    if size > MAX_HEADERS_BYTES:
        raise HeadersTooLargeError(
            f"The headers of a message have {size} bytes and may have {MAX_HEADERS_BYTES}: put large values into the "
            "body."
        )
