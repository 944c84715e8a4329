"""Sends the rows of a table: columns become batches without a Python object for each row.

A column is read as byte strings: of Arrow arrays (binary or text), of numpy arrays, or of lists of bytes and str. Rows
with a key go to the queues to which `send` sends this key. The rows of one queue keep their order.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ledger.batch.strings import Strings, from_arrow, loaded_arrow
from ledger.client.producer.arguments import MAX_EXTRAS_BYTES, check_extras, too_large
from ledger.client.producer.delivery import MAX_BATCH_MESSAGES
from ledger.client.producer.outgoing import ANY_QUEUE
from ledger.client.producer.producer_batch import Receipt, TablePiece
from ledger.client.producer.slices import by_queue, cuts, in_turns
from ledger.errors import InvalidArgumentError
from ledger.hashing import NO_HASH

# How many rows are hashed, sorted and copied at a time.
BLOCK_ROWS = 65_536


class Table(Protocol):
    """A table or a mapping of arrays: `table[name]` is a column."""

    def __getitem__(self, name: str, /) -> Any: ...


class RowSlice:
    """Rows of one queue that become one batch. `rows` says which rows of the table they are."""

    __slots__ = ("_hashes", "_keys", "_values", "queue", "rows")

    def __init__(
        self,
        rows: NDArray[np.int64],
        queue: int | None,
        values: Strings,
        keys: Strings | None,
        hashes: NDArray[np.uint64] | None,
    ) -> None:
        self.rows = array("q", rows.astype("=i8").tobytes())
        self.queue = queue
        self._values, self._keys, self._hashes = values, keys, hashes

    def piece(self, receipt: Receipt) -> TablePiece:
        return TablePiece(self._values, self._keys, self._hashes, receipt)


class TableRows:
    """The checked columns of one `send_table`. Raises InvalidArgumentError or MessageTooLargeError."""

    def __init__(self, table: Table, value: str, key: str | None, max_message_bytes: int) -> None:
        self.values = column_of(table, value)
        self.keys = None if key is None else column_of(table, key)
        if self.values.valid is not None:
            row = int(np.argmin(self.values.valid))
            raise InvalidArgumentError(f'Column "{value}" has no value in row {row}: a message needs one.')
        if self.keys is not None and len(self.keys) != len(self.values):
            raise InvalidArgumentError(
                f'Column "{key}" has {len(self.keys)} rows and "{value}" has {len(self.values)}: they must be equal.'
            )
        longest = int(self.values.lengths.max(initial=0))
        if max_message_bytes and longest > max_message_bytes:
            raise too_large(longest, max_message_bytes)
        if self.keys is not None and int(self.keys.lengths.max(initial=0)) > MAX_EXTRAS_BYTES:
            check_extras(bytes(int(self.keys.lengths.max())), None, None)

    def __len__(self) -> int:
        return len(self.values)

    def pairs(self) -> list[tuple[bytes | None, bytes]]:
        """Return all rows as pairs of key and value."""
        values = [value or b"" for value in self.values.list()]
        keys = [None] * len(values) if self.keys is None else self.keys.list()
        return list(zip(keys, values, strict=True))

    def slices(self, start: int, queue: int | None, queues: int, batch_bytes: int) -> Iterator[RowSlice]:
        """Yield slices of the rows start to start + BLOCK_ROWS - 1, with queues of a topic that has `queues` queues.
        The queues take turns."""
        stop = min(start + BLOCK_ROWS, len(self))
        values = self.values.part(start, stop)
        keys = None if self.keys is None else self.keys.part(start, stop)
        hashes = None if keys is None else keys.hashes()
        rows = np.arange(stop - start, dtype=np.int64)
        if hashes is None or queue is not None:
            groups = [rows]
        else:
            chosen = np.where(hashes == NO_HASH, ANY_QUEUE, (hashes % np.uint64(queues)).astype(np.int64))
            groups = by_queue(chosen)
        yield from in_turns(
            [
                self._group(
                    group + start,
                    _queue_of(queue, hashes, group, queues),
                    values if len(groups) == 1 else values.taken(group),
                    keys if keys is None or len(groups) == 1 else keys.taken(group),
                    None if hashes is None else hashes[group],
                    batch_bytes,
                )
                for group in groups
            ]
        )

    def _group(
        self,
        rows: NDArray[np.int64],
        queue: int | None,
        values: Strings,
        keys: Strings | None,
        hashes: NDArray[np.uint64] | None,
        batch_bytes: int,
    ) -> Iterator[RowSlice]:
        lengths = values.lengths if keys is None else values.lengths + keys.lengths
        for start, stop, _ in cuts(lengths, max_bytes=batch_bytes, max_count=MAX_BATCH_MESSAGES):
            yield RowSlice(
                rows[start:stop],
                queue,
                values.part(start, stop),
                None if keys is None else keys.part(start, stop),
                None if hashes is None else hashes[start:stop],
            )


def column_of(table: Table, name: str) -> Strings:
    """Return a column as byte strings. Text is encoded as UTF-8. Raises InvalidArgumentError."""
    try:
        column = table[name]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if not _is_table(table):
            raise InvalidArgumentError(
                f"table is of type {type(table).__name__}: give a pyarrow.Table, or a mapping of names to columns, "
                'such as {"value": [b"one", b"two"]}.'
            ) from error
        there = list(getattr(table, "column_names", ())).count(name)
        how_many = f"{there} columns" if there else "no column"
        raise InvalidArgumentError(f"The table has {how_many} {name!r}.") from error
    arrow = loaded_arrow()
    if arrow is not None and isinstance(column, (arrow.Array, arrow.ChunkedArray)):
        try:
            return from_arrow(column)
        except arrow.ArrowInvalid as error:
            raise _wrong(name, column.type) from error
        except arrow.ArrowNotImplementedError as error:
            raise _wrong(name, column.type) from error
    if isinstance(column, np.ndarray) and column.dtype.kind in "SU" and column.ndim == 1:
        return _of_numpy(column if column.dtype.kind == "S" else np.char.encode(column, "utf-8"))
    # A single text would be a list of its characters, and a table, such as two columns of one name in pandas, a list of
    # names.
    if not isinstance(column, Iterable) or isinstance(column, (str, bytes, Mapping)) or getattr(column, "ndim", 1) != 1:
        raise InvalidArgumentError(
            f'Column "{name}" is of type {type(column).__name__}: give an Arrow array, a numpy array or a list.'
        )
    return _of_objects(name, list(column))


def _is_table(table: object) -> bool:
    if isinstance(table, np.ndarray):
        return table.dtype.names is not None
    return hasattr(table, "__getitem__") and (hasattr(table, "keys") or hasattr(table, "schema"))


def _of_numpy(column: NDArray[np.bytes_]) -> Strings:
    """Return the strings of a numpy array of type S. Zero bytes at the end of a string are padding to numpy."""
    lengths = np.char.str_len(column).astype(np.int64)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    cells = np.ascontiguousarray(column).view(np.uint8).reshape(len(column), column.dtype.itemsize)
    return Strings(offsets, cells[np.arange(column.dtype.itemsize) < lengths[:, None]])


def _of_objects(name: str, items: list[Any]) -> Strings:
    kinds = set(map(type, items))
    if not kinds <= {bytes, str, type(None)}:
        items = [None if _is_missing(item) else item for item in items]
        kinds = set(map(type, items))
    if unusual := kinds - {bytes, str, type(None)}:
        raise _wrong(name, unusual.pop().__name__)
    there = np.fromiter((item is not None for item in items), np.bool_, len(items)) if type(None) in kinds else None
    if kinds != {bytes}:
        items = [item.encode() if isinstance(item, str) else item or b"" for item in items]
    lengths = np.fromiter(map(len, items), np.int64, len(items))
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return Strings(offsets, np.frombuffer(b"".join(items), np.uint8), there)


def _is_missing(item: object) -> bool:
    """Return True for NaN and for pandas.NA, with which pandas fills a cell without a value."""
    return (isinstance(item, float) and math.isnan(item)) or type(item).__name__ == "NAType"


def _queue_of(
    queue: int | None, hashes: NDArray[np.uint64] | None, group: NDArray[np.int64], queues: int
) -> int | None:
    if queue is not None or hashes is None or hashes[group[0]] == NO_HASH:
        return queue
    return int(hashes[group[0]]) % queues


def _wrong(name: str, kind: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f'Column "{name}" has items of type {kind}: a column must have bytes or text. Encode it first, for example '
        "with json.dumps()."
    )
