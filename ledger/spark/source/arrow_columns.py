"""Makes Arrow arrays from the columns of a batch, without copying them.

    batch   bodies: offsets | bytes          Arrow    value: offsets | bytes             the same memory
            keys: validity | offsets | bytes          key: validity | offsets | bytes
            ...

The columns of a batch have Arrow's memory layout, so an array only refers to the batch's bytes. No code of this module
runs once per message.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledger.batch import Batch
from ledger.batch.columns import BinaryColumn, HeaderColumn
from ledger.calendar import EARLIEST_MS, LATEST_MS, dated_ms
from ledger.errors import CorruptBatchError

Array: TypeAlias = "pa.Array"

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
KEYS = pa.list_(pa.string())
LOOK_UP_KEYS = pa.list_(pa.binary())
TIMESTAMP = pa.timestamp("us", tz="UTC")


def values(batch: Batch) -> Array:
    """Return the values of the messages."""
    return _binary(batch.columns.bodies, len(batch), pa.binary())


def keys(batch: Batch) -> Array | None:
    """Return the keys of the messages; None if no message of the batch has a key."""
    column = batch.columns.keys
    return None if column is None else _binary(column, len(batch), pa.binary())


def tags(batch: Batch) -> Array | None:
    """Return the tags of the messages; None if no message of the batch has a tag."""
    column = batch.columns.tags
    return None if column is None else _text(column, len(batch))


def headers(batch: Batch) -> Array | None:
    """Return the headers of the messages; None if no message of the batch has headers.

    The item of a message without headers is null, as in Kafka's Spark source.
    """
    column = batch.columns.headers
    return None if column is None else _headers(column, len(batch))


def look_up_keys(batch: Batch) -> Array | None:
    """Return the look-up keys of the messages; None if no message of the batch has a look-up key.

    The item of a message without look-up keys is null.
    """
    column = batch.columns.look_up_keys
    if column is None:
        return None
    there = np.packbits(column.offsets[1:] > column.offsets[:-1], bitorder="little")
    keys = _binary(column.keys, int(column.offsets[-1]), pa.binary())
    buffers = [pa.py_buffer(there), pa.py_buffer(column.offsets)]
    return pa.Array.from_buffers(LOOK_UP_KEYS, len(batch), buffers, children=[keys])


def timestamps(batch: Batch) -> Array:
    """Return the producers' timestamps of the messages. Spark's timestamps have dates (ledger/calendar.py)."""
    base, deltas = batch.header.base_timestamp_ms, batch.columns.timestamp_deltas
    if deltas is None:
        times = np.full(len(batch), dated_ms(base), np.int64)
    else:
        times = np.clip(deltas + np.int64(base), EARLIEST_MS, LATEST_MS)
    return from_numbers(times * np.int64(1000), TIMESTAMP)


def from_numbers(numbers: NDArray[np.int64] | NDArray[np.int32], kind: pa.DataType) -> Array:
    """Return an array of type `kind` that shares the memory of `numbers`."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def as_texts(column: Array) -> Array:
    """Return each key as a list with one text, the form of the column "keys". A missing key, or a key that is not
    UTF-8, becomes null.
    """
    if column.null_count == len(column):
        return pa.nulls(len(column), KEYS)
    try:
        texts = column.cast(pa.string())
    except pa.ArrowInvalid:
        texts = _where_utf8(column)
    there = np.asarray(texts.is_valid())
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(there, out=offsets[1:])
    buffers = [pa.py_buffer(np.packbits(there, bitorder="little")), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(KEYS, len(texts), buffers, children=[texts.drop_null()])


def _where_utf8(column: Array) -> Array:
    """Decode each distinct key once. A key that is not UTF-8 becomes null."""
    encoded = pc.dictionary_encode(column)
    texts = [_utf8(key) for key in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(texts, pa.string()), encoded.indices)


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _binary(column: BinaryColumn, count: int, kind: pa.DataType) -> Array:
    data = pa.py_buffer(column.source).slice(column.start, int(column.offsets[-1]))
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(column.offsets), data])


def _text(column: BinaryColumn, count: int) -> Array:
    array = _binary(column, count, pa.string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptBatchError(f"A tag or header name in a batch is not UTF-8: {error}.") from error
    return array


def _headers(column: HeaderColumn, count: int) -> Array:
    total = int(column.offsets[-1])
    pairs = pa.StructArray.from_arrays(
        [_text(column.names, total), _binary(column.values, total, pa.binary())], fields=list(HEADERS.value_type)
    )
    there = np.packbits(np.diff(column.offsets) > 0, bitorder="little")
    buffers = [pa.py_buffer(there), pa.py_buffer(column.offsets)]
    return pa.Array.from_buffers(HEADERS, count, buffers, children=[pairs])
