"""Encodes messages of one queue as a batch. The producer calls `encode` once for each batch. The encoder works column
by column, and not message by message. The encoder hashes and encodes each distinct tag only once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Sized
from dataclasses import replace
from itertools import chain
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ledger.batch.columns import ColumnWriter
from ledger.batch.header import (
    HALF,
    HEADER_BYTES,
    HEADERS,
    KEYS,
    LOOK_UP_KEYS,
    MAX_COUNT,
    MAX_PLAIN_BYTES,
    MESSAGE_IDS,
    TAGS,
    TIMED,
    TIMESTAMPS,
    BatchHeader,
    encoded_look_up_hashes,
    seal,
)
from ledger.batch.strings import Strings
from ledger.batch.timed import TimedColumn
from ledger.batch.transactions import HalfColumn
from ledger.codec import Codec, compress
from ledger.errors import InvalidArgumentError
from ledger.hashing import NO_HASH, hashes_of_keys, key_hash, tag_hash

_Item = TypeVar("_Item", bound=Hashable)


def encode(
    values: Sequence[bytes],
    *,
    topic_id: int,
    queue: int,
    producer_id: int,
    epoch: int,
    first_sequence: int,
    base_timestamp_ms: int,
    keys: Sequence[bytes | None] | None = None,
    tags: Sequence[str | None] | None = None,
    headers: Sequence[Sequence[tuple[str, bytes]]] | None = None,
    timestamps_ms: Sequence[int] | None = None,
    look_up_keys: Sequence[Sequence[bytes]] | None = None,
    timed: TimedColumn | None = None,
    half: HalfColumn | None = None,
    ids: Sequence[bytes] | None = None,
    codec: Codec = Codec.NONE,
) -> bytes:
    """Return the bytes of one batch of 1..65,535 messages.

    Each of `keys`, `tags`, `headers`, `timestamps_ms` and `look_up_keys` is None or has one item for each message.
    Without `timestamps_ms`, every message has the timestamp `base_timestamp_ms`. With `timed`, the batch is a timed
    batch: it waits in a queue of `%TIMED`, and `timed` has its target queue and the delivery time of each message. With
    `half`, the batch is a half batch of a transaction. It is not both. `ids` has the `message_id_hash` of each message
    id, or is None if the messages have no ids. A payload that the codec does not make smaller is stored
    uncompressed. Raises InvalidArgumentError.
    """
    check_counts(
        len(values), keys=keys, tags=tags, headers=headers, timestamps_ms=timestamps_ms, look_up_keys=look_up_keys
    )
    present = 0
    front: list[bytes | memoryview] = []
    payload = ColumnWriter()
    largest = payload.binary(values)
    if keys is not None and (key_column := _keys(payload, keys)) is not None:
        present |= KEYS
        front.append(key_column)
    if tags is not None and (tag_column := _hashed(payload, tags, tag_hash, str.encode, "<i8")) is not None:
        present |= TAGS
        front.insert(0, tag_column)  # tag hashes come first
    if headers is not None and any(headers):
        present |= HEADERS
        payload.headers(headers)
    if timestamps_ms is not None:
        present |= TIMESTAMPS
        payload.buffer(_deltas(timestamps_ms, base_timestamp_ms).data)
    if look_up_keys is not None and any(look_up_keys):
        present |= LOOK_UP_KEYS
        front.append(put_look_up_keys(payload, look_up_keys))
    if timed is not None:
        check_counts(len(values), delivery_times=timed.times_ms)
        present |= TIMED
        front.append(timed.encoded())
    if half is not None:
        present |= HALF
        front.append(half.encoded())
    if ids is not None:
        check_counts(len(values), ids=ids)
        present |= MESSAGE_IDS
        front.append(b"".join(ids))
    return sealed(
        payload,
        front,
        codec,
        columns=present,
        count=len(values),
        largest=largest,
        epoch=epoch,
        topic_id=topic_id,
        queue=queue,
        producer_id=producer_id,
        first_sequence=first_sequence,
        base_timestamp_ms=base_timestamp_ms,
    )


def encode_strings(
    values: Strings,
    keys: Strings | None,
    key_hashes: NDArray[np.uint64] | None,
    *,
    topic_id: int,
    queue: int,
    producer_id: int,
    epoch: int,
    first_sequence: int,
    base_timestamp_ms: int,
    codec: Codec = Codec.NONE,
) -> bytes:
    """Return the bytes of one batch, as `encode` does for the same values and keys. `key_hashes` are the hashes of the
    keys, and None if there are no keys. Raises InvalidArgumentError."""
    check_counts(len(values), keys=keys, key_hashes=key_hashes)
    payload = ColumnWriter()
    largest = payload.strings(values)
    hashes: list[bytes | memoryview] = []
    if keys is not None and key_hashes is not None and (key_hashes != NO_HASH).any():
        hashes.append(np.ascontiguousarray(key_hashes, "<u8").data)
        payload.validity(key_hashes != NO_HASH)
        payload.strings(keys)
    return sealed(
        payload,
        hashes,
        codec,
        columns=KEYS if hashes else 0,
        count=len(values),
        largest=largest,
        epoch=epoch,
        topic_id=topic_id,
        queue=queue,
        producer_id=producer_id,
        first_sequence=first_sequence,
        base_timestamp_ms=base_timestamp_ms,
    )


def sealed(
    payload: ColumnWriter, front: Sequence[bytes | memoryview], codec: Codec, *, count: int, **fields: int
) -> bytes:
    """Return a batch of the columns in front of the payload, in their order, and the payload. `fields` are the fields
    of the header that do not follow from them."""
    codec, parts, plain_size = _compressed(codec, payload)
    size = HEADER_BYTES + sum(map(_size, front)) + sum(map(_size, parts))
    header = BatchHeader(crc=0, codec=codec, count=count, size=size, plain_size=plain_size, **fields)
    return seal(header.pack(), *front, *parts)


def readdress(data: bytes, *, queue: int, epoch: int, first_sequence: int) -> bytes:
    """Return a copy of the batch with another queue, epoch and first sequence. `readdress` does not decode the
    messages."""
    header = replace(BatchHeader.parse(data), queue=queue, epoch=epoch, first_sequence=first_sequence)
    return seal(header.pack(), memoryview(data)[HEADER_BYTES:])


def check_counts(count: int, **columns: Sized | None) -> None:
    """Raise InvalidArgumentError if a batch cannot have `count` messages, or if a column has another number of
    items."""
    if not 1 <= count <= MAX_COUNT:
        raise InvalidArgumentError(f"A batch cannot have {count} messages: send 1 to {MAX_COUNT}.")
    for name, column in columns.items():
        if column is not None and len(column) != count:
            raise InvalidArgumentError(
                f"A batch of {count} messages was given {len(column)} {name}: give one for each message."
            )


def put_look_up_keys(payload: ColumnWriter, look_up_keys: Sequence[Sequence[bytes]]) -> bytes:
    """Append the column of look-up keys to the payload, and return the column of their hashes."""
    payload.look_up_keys(look_up_keys)
    return encoded_look_up_hashes(hashes_of_keys(list(chain.from_iterable(look_up_keys))))


def _keys(payload: ColumnWriter, keys: Sequence[bytes | None]) -> memoryview | None:
    """Append the column of keys to the payload, and return the hashes of the keys. If no message has a key, append
    nothing and return None."""
    if None in keys:
        return _hashed(payload, keys, key_hash, bytes, "<u8")
    there = cast("Sequence[bytes]", keys)
    hashes = hashes_of_keys(there)
    payload.validity(np.ones(len(there), np.bool_))
    payload.binary(there)
    return hashes.data


def _hashed(
    payload: ColumnWriter,
    items: Sequence[_Item | None],
    hash_item: Callable[[_Item], int],
    to_bytes: Callable[[_Item], bytes],
    hash_dtype: str,
) -> memoryview | None:
    """Append a column of items that can be None to the payload, and return the hashes of the items. If every item
    is None, append nothing and return None."""
    distinct = {item for item in set(items) if item is not None}
    if not distinct:
        return None
    hash_of: dict[_Item | None, int] = {None: NO_HASH, **{item: hash_item(item) for item in distinct}}
    bytes_of: dict[_Item | None, bytes] = {None: b"", **{item: to_bytes(item) for item in distinct}}
    hashes = np.fromiter(map(hash_of.__getitem__, items), hash_dtype, len(items))
    payload.validity(hashes != NO_HASH)  # no existing item has this hash
    payload.binary(list(map(bytes_of.__getitem__, items)))
    return hashes.data


def _deltas(timestamps_ms: Sequence[int], base_timestamp_ms: int) -> NDArray[np.int64]:
    try:
        # A difference that does not fit 64 bits wraps around, and wraps back when the reader adds the base.
        return np.array(timestamps_ms, "<i8") - np.int64(base_timestamp_ms)
    except OverflowError:
        raise InvalidArgumentError(
            "A timestamp does not fit a signed 64-bit number: give it in ms since 1970."
        ) from None


def _compressed(codec: Codec, payload: ColumnWriter) -> tuple[Codec, list[bytes | memoryview], int]:
    """Compress the payload if that makes it smaller. Return the codec of the stored payload, its byte strings, and
    its size before compression."""
    plain_size = sum(map(_size, payload.parts))
    if plain_size > MAX_PLAIN_BYTES:
        raise InvalidArgumentError(
            f"A batch would have {plain_size} bytes; at most {MAX_PLAIN_BYTES} are possible: send smaller batches."
        )
    if codec is not Codec.NONE:
        compressed = compress(codec, b"".join(payload.parts))
        if len(compressed) < plain_size:
            return codec, [compressed], plain_size
    return Codec.NONE, payload.parts, plain_size


def _size(part: bytes | memoryview) -> int:
    return part.nbytes if isinstance(part, memoryview) else len(part)
