"""The messages of one `send_many` as checked columns: a list of values, and a list of keys if a message has one.

A program passes values, pairs of key and value, or `OutgoingMessage`s. Work that is done for each message of a large
list is done by loops in C where possible. Each distinct key is checked and hashed once. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ledger.client.producer.arguments import (
    MAX_EXTRAS_BYTES,
    GivenHeaders,
    check_extras,
    checked_headers,
    checked_key,
    checked_look_up_keys,
    checked_queue,
    checked_tag,
    checked_timestamp,
    checked_value,
    not_bytes,
)
from ledger.client.producer.delivery_times import checked_delivery_ms
from ledger.client.producer.producer_batch import Headers, Piece, PieceColumns, Receipt, extras_bytes
from ledger.client.producer.slices import checked_lengths
from ledger.client.records import Given
from ledger.errors import InvalidArgumentError, UnknownQueueError
from ledger.hashing import hashes_of_keys, queue_of

T = TypeVar("T")

# The queue of a message that has neither a key nor a queue: the producer chooses it when the message is sent.
ANY_QUEUE = -1


@dataclass(frozen=True, slots=True)
class OutgoingMessage(Generic[Given]):
    """One message of a `send_many`, with the same arguments as `send`. `None` means that the argument of the
    `send_many` with this name applies, or, without such an argument, the default of `send`. A message with its own
    `deliver_at` or `delay` uses neither of the `send_many`."""

    value: Given
    key: bytes | str | None = None
    tag: str | None = None
    headers: GivenHeaders = None
    timestamp_ms: int | None = None
    queue: int | None = None
    deliver_at: datetime | None = None
    delay: timedelta | None = None
    look_up_keys: Iterable[bytes | str] | None = None
    # Only for the first message of a transaction; `send_many` takes none.
    message_id: bytes | str | None = None


def encoded_items(items: Iterable[Any], encoded: Callable[[Any], bytes]) -> Iterable[Any]:
    """Return the items of a `send_many` with `encoded` values. A list stays a list, so that it is checked as a whole
    before the first message is sent."""
    made = (_encoded_item(item, encoded) for item in items)
    return list(made) if isinstance(items, (list, tuple)) else made


def _encoded_item(item: Any, encoded: Callable[[Any], bytes]) -> Any:
    if isinstance(item, OutgoingMessage):
        return replace(item, value=encoded(item.value))
    if isinstance(item, tuple) and len(item) == 2:
        return item[0], encoded(item[1])
    return encoded(item)


@dataclass(frozen=True, slots=True)
class OutgoingColumns:
    """Checked messages, column by column. A column is None if no message needs it.

    `lengths` has the bytes of each message without the fixed cost of a message: value, keys, tag and headers.
    """

    values: list[bytes]
    lengths: NDArray[np.int64]
    keys: list[bytes | None] | None = None
    tags: list[str | None] | None = None
    headers: list[Headers] | None = None
    timestamps_ms: list[int | None] | None = None
    queues: list[int | None] | None = None
    delivery_times_ms: list[int | None] | None = None
    look_up_keys: list[tuple[bytes, ...]] | None = None

    def waiting(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each message at `places` whether it has a delivery time."""
        if self.delivery_times_ms is None:
            return np.zeros(len(places), np.bool_)
        times = _at(self.delivery_times_ms, places.tolist())
        return np.fromiter((time is not None for time in times), np.bool_, len(times))

    def queues_of(self, places: NDArray[np.int64], queues: int) -> NDArray[np.int64]:
        """Return the queues of the messages at `places` in a topic with `queues` queues, as `send` would choose them.
        A message without a key and a queue gets ANY_QUEUE.

        Raises UnknownQueueError if the topic does not have the queue of a message.
        """
        at = places.tolist()
        chosen = np.full(len(at), ANY_QUEUE, np.int64)
        if self.keys is not None:
            chosen = _queues_of_keys(_at(self.keys, at), queues)
        if self.queues is not None:
            given = np.array([ANY_QUEUE if queue is None else queue for queue in _at(self.queues, at)], np.int64)
            if int(given.max()) >= queues:
                raise UnknownQueueError(f"There is no queue {int(given.max())}: the queues are 0 to {queues - 1}.")
            chosen = np.where(given == ANY_QUEUE, chosen, given)
        return chosen

    def piece(self, place: int, receipt: Receipt) -> tuple[Piece, int | None]:
        """Return the message at `place` as a piece, and the queue that the program gave to the message."""
        value = self.values[place]
        piece = Piece(
            [value],
            len(value),
            receipt,
            None if self.keys is None else self.keys[place],
            None if self.tags is None else self.tags[place],
            None if self.headers is None else self.headers[place],
            None if self.timestamps_ms is None else self.timestamps_ms[place],
            deliver_at_ms=None if self.delivery_times_ms is None else self.delivery_times_ms[place],
            look_up_keys=() if self.look_up_keys is None else self.look_up_keys[place],
        )
        return piece, None if self.queues is None else self.queues[place]

    def some(self, places: list[int]) -> tuple[list[bytes], PieceColumns]:
        """Return the values and the other columns of the messages at these places, in this order. All of them have
        delivery times, or none has one."""
        times = None if self.delivery_times_ms is None else _at(self.delivery_times_ms, places)
        return _at(self.values, places), PieceColumns(
            _at_or_none(self.keys, places),
            _at_or_none(self.tags, places),
            _at_or_none(self.headers, places),
            _at_or_none(self.timestamps_ms, places),
            None if times is None or None in times else cast("list[int]", times),
            _at_or_none(self.look_up_keys, places),
        )


def with_headers(messages: Iterable[Any], headers: Headers) -> list[OutgoingMessage[Any]]:
    """Return the messages of a send_many with more headers. A header that a message has already stays."""
    more = []
    for each in messages:
        message = _as_message(each)
        given = checked_headers(message.headers) or ()
        names = {name for name, _ in given}
        added = [header for header in headers if header[0] not in names]
        more.append(replace(message, headers=[*given, *added]))
    return more


def columns_of(
    messages: list[Any],
    max_message_bytes: int,
    *,
    key: bytes | None,
    tag: str | None,
    queue: int | None,
    deliver_at_ms: int | None = None,
    look_up_keys: tuple[bytes, ...] = (),
    now_ms: int = 0,
) -> OutgoingColumns:
    """Check messages of all forms, and return them as columns. `key`, `tag`, `queue`, `deliver_at_ms` and
    `look_up_keys` apply to messages that have none of their own. `now_ms` is the present time, in ms since 1970.

    Raises InvalidArgumentError, MessageTooLargeError, TooManyHeadersError or HeadersTooLargeError.
    """
    if set(map(type, messages)) != {tuple}:
        return _mixed(messages, max_message_bytes, key, tag, queue, deliver_at_ms, look_up_keys, now_ms)
    columns = _pairs(messages, max_message_bytes, key)
    count = len(messages)
    extra = extras_bytes(None, tag, None, look_up_keys)
    return OutgoingColumns(
        columns.values,
        columns.lengths + extra if extra else columns.lengths,
        columns.keys,
        None if tag is None else [tag] * count,
        queues=None if queue is None else [queue] * count,
        delivery_times_ms=None if deliver_at_ms is None else [deliver_at_ms] * count,
        look_up_keys=[look_up_keys] * count if look_up_keys else None,
    )


def _pairs(pairs: list[Any], max_message_bytes: int, default: bytes | None) -> OutgoingColumns:
    try:
        keys: list[Any] = [key for key, _ in pairs]
        values: list[bytes] = [value for _, value in pairs]
    except ValueError:
        wrong = next(pair for pair in pairs if len(pair) != 2)
        raise InvalidArgumentError(
            f"send_many() takes values, pairs (key, value) or OutgoingMessages; one tuple has {len(wrong)} items."
        ) from None
    return _with_keys(values, _checked_keys(keys, default), max_message_bytes)


def _checked_keys(keys: list[Any], default: bytes | None) -> list[bytes | None]:
    """Return the keys as bytes. Each distinct key is checked once."""
    kinds = set(map(type, keys))
    if kinds == {bytes}:
        return keys
    if unusual := kinds - {bytes, str, type(None)}:
        raise InvalidArgumentError(f"A message's key must be bytes or str, not {unusual.pop().__name__}.")
    checked: dict[Any, bytes | None] = {key: checked_key(key) for key in set(keys)}
    checked[None] = default
    return list(map(checked.__getitem__, keys))


def _with_keys(values: list[bytes], keys: list[bytes | None] | None, max_message_bytes: int) -> OutgoingColumns:
    lengths = checked_lengths(values, max_message_bytes)
    if keys is None:
        return OutgoingColumns(values, lengths)
    if None in keys:
        key_lengths = np.fromiter((0 if key is None else len(key) for key in keys), np.int64, len(keys))
    else:
        key_lengths = np.fromiter(map(len, keys), np.int64, len(keys))  # type: ignore[arg-type]  # None is not in keys
    if int(key_lengths.max()) > MAX_EXTRAS_BYTES:
        check_extras(keys[int(key_lengths.argmax())], None, None)
    return OutgoingColumns(values, lengths + key_lengths, keys)


def _mixed(
    messages: list[Any],
    max_message_bytes: int,
    key: bytes | None,
    tag: str | None,
    queue: int | None,
    deliver_at_ms: int | None,
    look_up_keys: tuple[bytes, ...],
    now_ms: int,
) -> OutgoingColumns:
    """Check messages one by one, because each of them may have other arguments."""
    given = list(map(_as_message, messages))
    checked = [_checked(message, max_message_bytes, key, tag, queue, look_up_keys) for message in given]
    own = [checked_delivery_ms(message.deliver_at, message.delay, now_ms) for message in given]
    values, keys, tags, headers, timestamps, queues, more_keys, lengths = map(list, zip(*checked, strict=True))
    return OutgoingColumns(
        values,
        np.array(lengths, np.int64),
        _needed(keys),
        _needed(tags),
        headers if any(headers) else None,
        _needed(timestamps),
        _needed(queues),
        _needed([deliver_at_ms if time is None else time for time in own]),
        more_keys if any(more_keys) else None,
    )


def _checked(
    one: OutgoingMessage[bytes],
    max_message_bytes: int,
    key: bytes | None,
    tag: str | None,
    queue: int | None,
    look_up_keys: tuple[bytes, ...],
) -> tuple[bytes, bytes | None, str | None, Headers, int | None, int | None, tuple[bytes, ...], int]:
    if one.message_id is not None:
        raise InvalidArgumentError("send_many takes no message ids: use send() or send_nowait().")
    value = checked_value(one.value, max_message_bytes)
    own_key = key if one.key is None else checked_key(one.key)
    own_tag = tag if one.tag is None else checked_tag(one.tag)
    headers = checked_headers(one.headers) or ()
    more_keys = look_up_keys if one.look_up_keys is None else checked_look_up_keys(one.look_up_keys)
    check_extras(own_key, own_tag, headers, more_keys)
    length = len(value) + extras_bytes(own_key, own_tag, headers, more_keys)
    own_queue = queue if one.queue is None else checked_queue(one.queue)
    return value, own_key, own_tag, headers, checked_timestamp(one.timestamp_ms), own_queue, more_keys, length


def _queues_of_keys(keys: list[bytes | None], queues: int) -> NDArray[np.int64]:
    if None not in keys:
        hashes = hashes_of_keys(cast("list[bytes]", keys))
        return (hashes % np.uint64(queues)).astype(np.int64)
    of = {key: ANY_QUEUE if key is None else queue_of(key, queues) for key in set(keys)}
    return np.fromiter(map(of.__getitem__, keys), np.int64, len(keys))


def _as_message(message: Any) -> OutgoingMessage[bytes]:
    if isinstance(message, OutgoingMessage):
        return message
    if isinstance(message, (bytes, bytearray, memoryview)):
        return OutgoingMessage(bytes(message))
    if isinstance(message, tuple) and len(message) == 2:
        return OutgoingMessage(message[1], message[0])
    raise not_bytes(type(message))


def _needed(column: list[Any]) -> list[Any] | None:
    return column if any(item is not None for item in column) else None


def _at(column: Sequence[T], places: list[int]) -> list[T]:
    return list(map(column.__getitem__, places))


def _at_or_none(column: Sequence[T] | None, places: list[int]) -> list[T] | None:
    return None if column is None else _at(column, places)
