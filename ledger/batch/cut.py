"""Cuts batches: makes a batch that has only some messages of a stored batch.

A cut batch is a batch as any other, with its own checksum. It has the codec, producer and first sequence of the stored
batch, and one more column, which says at which places of the stored batch its messages are:

    stored batch, offsets 500..505     a  b  a  c  a  b
    cut for tag c and b                   b     c     b        places 1, 3, 5: offsets 501, 503, 505

Only consumers get cut batches. A log stores batches as producers sent them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledger.batch.columns import BinaryColumn, ColumnWriter, HeaderColumn, LookUpKeyColumn
from ledger.batch.decode import Batch
from ledger.batch.encode import sealed
from ledger.batch.header import (
    CUT,
    HEADERS,
    KEYS,
    LOOK_UP_KEYS,
    TAGS,
    TIMESTAMPS,
    encoded_look_up_hashes,
    key_hashes,
    look_up_hashes,
    padded,
    tag_hashes,
)
from ledger.codec import Codec
from ledger.errors import InvalidArgumentError

# The columns of a stored batch that its cuts have too.
_KEPT_COLUMNS = KEYS | TAGS | HEADERS | TIMESTAMPS

# Up to this number of messages it costs more to look for runs than to copy each message.
_FEW = 32
# A smaller payload is not compressed: that costs more time than the bytes are worth.
_SMALL_BYTES = 1024

Places = NDArray[np.int64]


def cut(batch: Batch, places: Sequence[int] | Places) -> bytes:
    """Return the bytes of a batch that has only the messages at `places` of `batch`, compressed as `batch` is.

    `places` must be ascending and not empty, and count from 0. `batch` may itself be a cut batch: the new batch then
    has places of the stored batch. Raises InvalidArgumentError.
    """
    taken = _Taken.of(_checked(places, len(batch)))
    header, columns = batch.header, batch.columns
    payload = ColumnWriter()
    largest = taken.put_strings(payload, columns.bodies)
    for column in (columns.keys, columns.tags):
        if column is not None:
            taken.put_strings(payload, column)
    if columns.headers is not None:
        taken.put_headers(payload, columns.headers)
    if columns.timestamp_deltas is not None:
        payload.buffer(columns.timestamp_deltas[taken.places].data)
    present = header.columns & _KEPT_COLUMNS | CUT
    front: list[bytes | memoryview] = [*_hashes(batch, taken.places)]
    if columns.look_up_keys is not None and len(items := taken.items(columns.look_up_keys.offsets).places):
        present |= LOOK_UP_KEYS
        taken.put_look_up_keys(payload, columns.look_up_keys)
        hashes = look_up_hashes(batch.data, header)
        assert hashes is not None
        front.append(encoded_look_up_hashes(hashes[items]))
    return sealed(
        payload,
        [*front, _encoded_places(batch, taken.places)],
        Codec(header.codec) if payload.size >= _SMALL_BYTES else Codec.NONE,
        columns=present,
        count=len(taken.places),
        largest=largest,
        epoch=header.epoch,
        topic_id=header.topic_id,
        queue=header.queue,
        producer_id=header.producer_id,
        first_sequence=header.first_sequence,
        base_timestamp_ms=header.base_timestamp_ms,
    )


def _checked(places: Sequence[int] | Places, count: int) -> Places:
    taken = np.asarray(places, np.int64)
    if not len(taken) or taken[0] < 0 or taken[-1] >= count or (taken[1:] <= taken[:-1]).any():
        raise InvalidArgumentError(f"A cut needs ascending places from 0 to {count - 1}, and at least one.")
    return taken


def _hashes(batch: Batch, places: Places) -> list[memoryview]:
    columns = (tag_hashes(batch.data, batch.header), key_hashes(batch.data, batch.header))
    return [column[places].data for column in columns if column is not None]


def _encoded_places(batch: Batch, places: Places) -> bytes:
    stored = (places if batch.places is None else batch.places[places]).astype("<u2").tobytes()
    return stored.ljust(padded(len(stored)), b"\0")


@dataclass(frozen=True, slots=True)
class _Taken:
    """The items of a column that a cut takes. Neighbours form a run, whose bytes are copied at once."""

    # In ascending order.
    places: Places
    # Run i has the items firsts[i] to ends[i] - 1. Runs can be empty.
    firsts: Places
    ends: Places

    @classmethod
    def of(cls, places: Places) -> _Taken:
        if len(places) <= _FEW:
            return cls(places, places, places + 1)
        ends = places + 1
        gaps = np.flatnonzero(places[1:] != ends[:-1])
        return cls(places, places[np.append(0, gaps + 1)], ends[np.append(gaps, -1)])

    def put_strings(self, payload: ColumnWriter, column: BinaryColumn) -> int:
        """Append the taken strings to the payload. Return the length of the longest string in bytes, 0 if there is
        none."""
        if column.validity is not None:
            payload.validity(np.unpackbits(column.validity, bitorder="little")[self.places].view(np.bool_))
        edges = column.offsets
        lengths = edges[self.places + 1] - edges[self.places]
        _put_offsets(payload, lengths)
        starts, stops = (edges[self.firsts] + column.start).tolist(), (edges[self.ends] + column.start).tolist()
        source = column.source
        payload.buffer(b"".join([source[start:stop] for start, stop in zip(starts, stops, strict=True)]))
        return int(lengths.max(initial=0))

    def put_headers(self, payload: ColumnWriter, column: HeaderColumn) -> None:
        """Append the headers of the taken messages to the payload."""
        self._put_lengths(payload, column.offsets)
        pairs = self.items(column.offsets)
        pairs.put_strings(payload, column.names)
        pairs.put_strings(payload, column.values)

    def put_look_up_keys(self, payload: ColumnWriter, column: LookUpKeyColumn) -> None:
        """Append the look-up keys of the taken messages to the payload."""
        self._put_lengths(payload, column.offsets)
        self.items(column.offsets).put_strings(payload, column.keys)

    def items(self, offsets: NDArray[np.int32]) -> _Taken:
        """Return the items of the taken lists. List i has the items offsets[i] to offsets[i + 1] - 1."""
        firsts, ends = offsets[self.firsts].astype(np.int64), offsets[self.ends].astype(np.int64)
        return _Taken(_ranges(firsts, ends), firsts, ends)

    def _put_lengths(self, payload: ColumnWriter, offsets: NDArray[np.int32]) -> None:
        _put_offsets(payload, offsets[self.places + 1] - offsets[self.places])


def _ranges(firsts: Places, ends: Places) -> Places:
    """Return the numbers firsts[0] to ends[0] - 1, firsts[1] to ends[1] - 1, and so on."""
    lengths = ends - firsts
    before = np.cumsum(lengths) - lengths
    return np.repeat(firsts - before, lengths) + np.arange(int(lengths.sum()))


def _put_offsets(payload: ColumnWriter, lengths: NDArray[np.int32]) -> None:
    offsets = np.zeros(len(lengths) + 1, "<i4")
    np.cumsum(lengths, out=offsets[1:])
    payload.buffer(offsets.data)
