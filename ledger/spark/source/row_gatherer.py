"""Gathers batches of messages into Arrow record batches of a size that suits Spark.

A batch of the log has 1 to 65,535 messages; the record batches have about equal sizes. Only the columns of the schema
are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledger.batch import Batch
from ledger.spark.source import arrow_columns
from ledger.spark.source.arrow_columns import Array
from ledger.spark.source.schema import CREATE_TIME

MAX_ROWS = 65_536
MAX_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a batch: the term of its entry, and the replica from which it was read (None: not known)."""

    term: int
    replica: str | None


@dataclass(slots=True)
class _Piece:
    """The rows [first, end) of a batch. `base_offset` is the offset of the first message of the stored batch."""

    batch: Batch
    base_offset: int
    first: int
    end: int
    origin: Origin

    @property
    def rows(self) -> int:
        return self.end - self.first


_FROM_BATCH: dict[str, tuple[Callable[[Batch], Array | None], pa.DataType]] = {
    "key": (arrow_columns.keys, pa.binary()),
    "value": (arrow_columns.values, pa.binary()),
    "tag": (arrow_columns.tags, pa.string()),
    "headers": (arrow_columns.headers, arrow_columns.HEADERS),
    "look_up_keys": (arrow_columns.look_up_keys, arrow_columns.LOOK_UP_KEYS),
    "timestamp": (arrow_columns.timestamps, arrow_columns.TIMESTAMP),
}


@dataclass(slots=True)
class RowGatherer:
    """Gathers the rows of one queue into record batches.

    Arguments:

        schema  the columns to make, in this order
        tags    only rows with one of these tags; None: all rows
    """

    schema: pa.Schema
    topic: str
    queue: int
    tags: frozenset[str] | None = None
    _pieces: list[_Piece] = field(default_factory=list)
    _rows: int = 0
    _bytes: int = 0

    def add(self, batch: Batch, base_offset: int, start: int, end: int, origin: Origin) -> Iterator[pa.RecordBatch]:
        """Add the batch's messages with offsets in [start, end). Yield a record batch if enough rows are gathered."""
        first, last = batch.first_from(start - base_offset), batch.first_from(end - base_offset)
        if first >= last:
            return
        self._pieces.append(_Piece(batch, base_offset, first, last, origin))
        self._rows += last - first
        self._bytes += batch.header.plain_size
        if self._rows >= MAX_ROWS or self._bytes >= MAX_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the gathered rows as one record batch, or nothing if no row has a wanted tag."""
        if not self._pieces:
            return
        pieces, self._pieces, self._rows, self._bytes = self._pieces, [], 0, 0
        columns = _Columns(self, pieces)
        rows = pa.RecordBatch.from_arrays([columns.named(name) for name in self.schema.names], schema=self.schema)
        if self.tags is not None:
            rows = rows.filter(pc.is_in(columns.named("tag"), pa.array(sorted(self.tags), pa.string())))
        if rows.num_rows:
            yield rows


class _Columns:
    """The columns of one record batch. Each column is made when it is needed."""

    def __init__(self, gatherer: RowGatherer, pieces: list[_Piece]) -> None:
        self._gatherer = gatherer
        self._pieces = pieces
        self._count = sum(piece.rows for piece in pieces)

    def named(self, name: str) -> Array:
        match name:
            case "topic":
                return repeated(self._gatherer.topic, self._count)
            case "partition":
                return _constant(self._gatherer.queue, self._count, np.dtype(np.int32), pa.int32())
            case "timestampType":
                return _constant(CREATE_TIME, self._count, np.dtype(np.int32), pa.int32())
            case "offset":
                return arrow_columns.from_numbers(self._offsets(), pa.int64())
            case "term":
                terms = [piece.origin.term for piece in self._pieces]
                return arrow_columns.from_numbers(np.repeat(np.array(terms, np.int64), self._row_counts), pa.int64())
            case "replica":
                return self._replicas()
            case "keys":
                return arrow_columns.as_texts(self.named("key"))
            case _:
                return self._from_batches(*_FROM_BATCH[name])

    @cached_property
    def _row_counts(self) -> list[int]:
        return [piece.rows for piece in self._pieces]

    def _offsets(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.concatenate(
            [piece.batch.offsets_from(piece.base_offset)[piece.first : piece.end] for piece in self._pieces]
        )

    def _replicas(self) -> Array:
        """Return the column of replica names. In most cases all rows have the same replica."""
        of_one = groupby(self._pieces, key=lambda piece: piece.origin.replica)
        return _joined([_replica(name, sum(piece.rows for piece in pieces)) for name, pieces in of_one])

    def _from_batches(self, column: Callable[[Batch], Array | None], kind: pa.DataType) -> Array:
        parts = []
        for piece in self._pieces:
            whole = column(piece.batch)
            parts.append(pa.nulls(piece.rows, kind) if whole is None else whole.slice(piece.first, piece.rows))
        return _joined(parts)


def repeated(text: str, count: int) -> Array:
    """Return an array with `count` copies of the text."""
    data = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * len(data)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data * count)])


def _replica(name: str | None, count: int) -> Array:
    return pa.nulls(count, pa.string()) if name is None else repeated(name, count)


def _constant(number: int, count: int, kind: np.dtype[np.int32], arrow: pa.DataType) -> Array:
    return arrow_columns.from_numbers(np.full(count, number, kind), arrow)


def _joined(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
