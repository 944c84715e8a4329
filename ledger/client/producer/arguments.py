"""Checks the arguments that a program passes to a producer. No I/O.

An invalid message would make its whole batch fail, so each message is checked before it enters a batch.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from ledger.client.checked_arguments import checked_hook
from ledger.client.checked_numbers import as_whole, checked_number, checked_whole
from ledger.client.producer.producer_batch import Headers, extras_bytes
from ledger.errors import InvalidArgumentError, MessageTooLargeError
from ledger.hashing import message_id_hash
from ledger.limits import MAX_MESSAGE_ID_BYTES, validate_all_headers, validate_look_up_keys

MAX_BATCH_BYTES = 4 * 1024 * 1024
MAX_EXTRAS_BYTES = 1024 * 1024
MAX_RETRIES = 1_000_000
_MAX_TIMESTAMP_MS = 1 << 62

# What a program may pass as headers. Text is sent as UTF-8.
GivenHeaders = (
    Sequence[tuple[str, bytes | str]] | Mapping[str, bytes] | Mapping[str, str] | Mapping[str, bytes | str] | None
)


def checked_value(value: object, max_message_bytes: int) -> bytes:
    """Return `value` as bytes if it is valid. Raises InvalidArgumentError, or MessageTooLargeError if `value` has more
    than `max_message_bytes` bytes. A `max_message_bytes` of 0 means that the limit is not known yet."""
    if type(value) is not bytes:
        value = bytes_of(value)
    if max_message_bytes and len(value) > max_message_bytes:
        raise too_large(len(value), max_message_bytes)
    return value


def bytes_of(value: object) -> bytes:
    """Return a copy of a bytearray or memoryview as bytes. Raises InvalidArgumentError for another type."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise not_bytes(type(value))
    return bytes(value)


def value_encoder(
    serializer: Callable[[Any], bytes | str] | None, encoding: str | None
) -> Callable[[Any], bytes] | None:
    """Return the function that makes bytes of a producer's values. None: the values are bytes already.

    Raises InvalidArgumentError if both a serializer and an encoding are given, if the serializer is no function, or if
    there is no such encoding.
    """
    checked_hook("serializer", serializer, "that makes bytes of a value, such as json.dumps")
    if serializer is None and encoding is None:
        return None
    if serializer is not None and encoding is not None:
        raise InvalidArgumentError("Give `serializer` or `encoding`, not both: a serializer may return text as UTF-8.")
    if encoding is not None:
        _check_encoding(encoding)

    def encoded(value: Any) -> bytes:
        try:
            if serializer is not None:
                value = serializer(value)
            if isinstance(value, str):
                return value.encode(encoding or "utf-8")
        except Exception as error:
            raise InvalidArgumentError(f"A value of type {type(value).__name__} cannot be sent: {error}") from error
        return bytes_of(value)

    return encoded


def _check_encoding(encoding: str) -> None:
    try:
        codecs.lookup(encoding)
    except (LookupError, TypeError, ValueError):
        raise InvalidArgumentError(f"There is no encoding {encoding!r}: use for example utf-8.") from None


def checked_key(key: bytes | str | None) -> bytes | None:
    if isinstance(key, str):
        return _utf8(key, "key")
    if key is not None and type(key) is not bytes:
        raise InvalidArgumentError(f"A message's key must be bytes or str, not {type(key).__name__}.")
    return key


def checked_queue(queue: object) -> int:
    """Return the number of a queue as an int; it may be an integer of NumPy. Raises InvalidArgumentError."""
    number = queue if type(queue) is int else as_whole(queue)
    if number is None or number < 0:
        raise InvalidArgumentError(f"A message's queue must be a number from 0; it is {queue!r}.")
    return number


def checked_message_id(message_id: bytes | str) -> bytes:
    """Return the hash of a message id, by which brokers know it. Raises InvalidArgumentError."""
    if isinstance(message_id, str):
        message_id = _utf8(message_id, "message id")
    if type(message_id) is not bytes:
        raise InvalidArgumentError(f"A message_id must be bytes or str, not {type(message_id).__name__}.")
    if not 1 <= len(message_id) <= MAX_MESSAGE_ID_BYTES:
        raise InvalidArgumentError(
            f"A message_id has {len(message_id)} bytes; it can have 1 to {MAX_MESSAGE_ID_BYTES} bytes."
        )
    return message_id_hash(message_id)


def checked_look_up_keys(keys: Iterable[bytes | str] | None) -> tuple[bytes, ...]:
    """Return the look-up keys of a message as bytes, without duplicates. Raises InvalidArgumentError."""
    if keys is None:
        return ()
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise InvalidArgumentError(f"A message's look_up_keys must be a list of bytes or str; it is {keys!r}.")
    checked = tuple(dict.fromkeys(_checked_look_up_key(key) for key in keys))
    validate_look_up_keys(len(checked))
    return checked


def _checked_look_up_key(key: object) -> bytes:
    if isinstance(key, str):
        return _utf8(key, "look-up key")
    if type(key) is not bytes:
        raise InvalidArgumentError(f"A message's look-up key must be bytes or str, not {type(key).__name__}.")
    return key


class StoredTag(str):
    """The tag of a stored message that is sent on as it is, also if no tag expression can select it."""

    __slots__ = ()


def stored_tag(tag: str | None) -> StoredTag | None:
    return None if tag is None else StoredTag(tag)


def checked_tag(tag: str | None) -> str | None:
    if tag is None:
        return None
    if not isinstance(tag, str) or not tag:
        raise InvalidArgumentError(f"A message's tag must be None or a str that is not empty; it is {tag!r}.")
    _utf8(tag, "tag")
    if not isinstance(tag, StoredTag) and ("||" in tag or tag == "*" or tag != tag.strip()):
        raise InvalidArgumentError(
            f"A message's tag cannot be {tag!r}, because no consumer could ask for it: in a tag expression || stands "
            "between tags, * for all messages, and spaces around a tag do not count. Choose another tag, or use a "
            "header."
        )
    return tag


def checked_headers(headers: GivenHeaders) -> Headers | None:
    if headers is None:
        return None
    pairs: Any = headers.items() if isinstance(headers, Mapping) else headers
    if not isinstance(pairs, Iterable) or isinstance(pairs, (str, bytes)):
        _no_header(pairs)
    checked = tuple(
        _checked_header(*pair) if isinstance(pair, (tuple, list)) and len(pair) == 2 else _no_header(pair)
        for pair in pairs
    )
    if not checked:
        return None
    names = [name.encode() for name, _ in checked]
    validate_all_headers(names, [len(name) + len(value) for name, (_, value) in zip(names, checked, strict=True)])
    return checked


def _checked_header(name: str, value: bytes | str) -> tuple[str, bytes]:
    if isinstance(value, str):
        value = _utf8(value, "header")
    if not isinstance(name, str) or type(value) is not bytes:
        _no_header((name, value))
    _utf8(name, "header's name")
    return name, value


def _no_header(pair: object) -> NoReturn:
    raise InvalidArgumentError(f"A message's headers must be pairs of a str and bytes or str; one is {pair!r}.")


def checked_timestamp(timestamp_ms: int | None) -> int | None:
    """Return the timestamp as an int; it may be an integer of NumPy. Raises InvalidArgumentError."""
    if timestamp_ms is None:
        return None
    if type(timestamp_ms) is int:  # the usual case, without the slow look at an interface
        number: int | None = timestamp_ms
    else:
        number = as_whole(timestamp_ms)
    if number is None or not 0 <= number < _MAX_TIMESTAMP_MS:
        raise InvalidArgumentError(f"A message's timestamp_ms must be milliseconds since 1970; it is {timestamp_ms!r}.")
    return number


def check_extras(
    key: bytes | None, tag: str | None, headers: Headers | None, look_up_keys: tuple[bytes, ...] = ()
) -> None:
    size = extras_bytes(key, tag, headers, look_up_keys)
    if size > MAX_EXTRAS_BYTES:
        raise MessageTooLargeError(
            f"Keys, tag and headers of a message have {size} bytes; the limit is {MAX_EXTRAS_BYTES}. Put large data "
            "into the message's value."
        )


def check_settings(
    linger_ms: float,
    batch_bytes: int,
    buffer_bytes: int,
    delivery_timeout_ms: float,
    request_timeout_ms: float,
    retry_backoff_ms: float,
) -> None:
    """Raise InvalidArgumentError if a setting of a producer is outside its limits."""
    checked_number("linger_ms", linger_ms, 0, 60_000)
    checked_whole("batch_bytes", batch_bytes, 1, MAX_BATCH_BYTES)
    checked_whole("buffer_bytes", buffer_bytes, 1, 1 << 40)
    checked_number("delivery_timeout_ms", delivery_timeout_ms, 1, 86_400_000)
    checked_number("request_timeout_ms", request_timeout_ms, 1, 86_400_000)
    checked_number("retry_backoff_ms", retry_backoff_ms, 1, 60_000)


def check_retries(retries: int | None) -> None:
    number = as_whole(retries)
    if retries is not None and (number is None or not 0 <= number <= MAX_RETRIES):
        raise InvalidArgumentError(
            f"retries is {retries!r}: it must be 0 to {MAX_RETRIES}, or None to retry until `delivery_timeout_ms` has "
            "passed."
        )


def not_bytes(kind: type) -> InvalidArgumentError:
    advice = (
        "encode it first, as in text.encode(), or give the producer `encoding=`"
        if kind is str
        else "convert it, or give the producer a `serializer`"
    )
    return InvalidArgumentError(f"A message's value must be bytes, not {kind.__name__}: {advice}.")


def too_large(size: int, limit: int) -> MessageTooLargeError:
    return MessageTooLargeError(
        f"A message of {size} bytes is over the cluster's limit of {limit}: split it, or store the data elsewhere and "
        "send a reference."
    )


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"A message's {what} cannot be encoded as UTF-8: {error}.") from None
