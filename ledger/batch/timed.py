"""The columns of messages with delivery times. They are in front of the payload, so a broker reads them without
decompressing the batch.

    a timed batch    has TIMED: messages of the topic `%TIMED`, which wait for their delivery times
    a firing batch   has FIRED: messages that waited, in their target queue
    a copying batch  has TIMED and COPIED: copies of waiting messages in `%TIMED`, made before the originals are removed
                     from the log

The identity of a waiting message is the offset in its queue of `%TIMED` at which the producer's batch put it. A copy
keeps the identity. The arrays that the functions return are views of the batch, not copies.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledger.batch.header import COPIED, FIRED, HEADER_BYTES, TIMED, BatchHeader, Buffer, hashes_end_in
from ledger.errors import CorruptBatchError, InvalidArgumentError
from ledger.timed import MAX_DELIVERY_MS, MAX_IDENTITY

_TARGET = struct.Struct("<II")
_COLUMNS_AND_COUNT = struct.Struct("<HI")
_COLUMNS_POSITION = 10


@dataclass(frozen=True, slots=True)
class TimedColumn:
    """The target queue of a timed batch, and the delivery time of each message, in ms since 1970."""

    topic_id: int
    queue: int
    times_ms: NDArray[np.int64]

    def encoded(self) -> bytes:
        """Return the bytes of the column. Raises InvalidArgumentError if a delivery time is out of range."""
        return _TARGET.pack(self.topic_id, self.queue) + _encoded_times(self.times_ms)


@dataclass(frozen=True, slots=True)
class FiredColumn:
    """The identity of each message of a firing batch, and its delivery time, in ms since 1970."""

    identities: NDArray[np.uint64]
    times_ms: NDArray[np.int64]

    def encoded(self) -> bytes:
        """Return the bytes of the column. Raises InvalidArgumentError if an identity or a delivery time is out of
        range."""
        return encoded_identities(self.identities) + _encoded_times(self.times_ms)


def timed_column(data: Buffer, header: BatchHeader | None = None) -> TimedColumn | None:
    """Return the target queue and the delivery times of a batch that `check_header` accepts. Return None if the batch
    is no timed batch. If `header` is None, parse the header of `data`. Raises CorruptBatchError if a delivery time is
    out of range."""
    header = header or BatchHeader.parse(data)
    if not header.columns & TIMED:
        return None
    position = header.hashes_end
    topic_id, queue = _TARGET.unpack_from(data, position)
    return TimedColumn(topic_id, queue, _times(data, header.count, position + _TARGET.size))


def target_of(data: Buffer) -> tuple[int, int] | None:
    """Read the target topic id and target queue of a timed batch, without checking that the bytes are a valid batch.
    Return None if the batch is no timed batch, or if its bytes are too short."""
    if len(data) < HEADER_BYTES:
        return None
    columns, count = _COLUMNS_AND_COUNT.unpack_from(data, _COLUMNS_POSITION)
    if not columns & TIMED:
        return None
    try:
        position = hashes_end_in(data, columns, count)
    except CorruptBatchError:
        return None
    if len(data) < position + _TARGET.size:
        return None
    topic_id, queue = _TARGET.unpack_from(data, position)
    return topic_id, queue


def fired_column(data: Buffer, header: BatchHeader | None = None) -> FiredColumn | None:
    """Return the identities and delivery times of a batch that `check_header` accepts. Return None if the batch is no
    firing batch. If `header` is None, parse the header of `data`. Raises CorruptBatchError if an identity or a delivery
    time is out of range."""
    header = header or BatchHeader.parse(data)
    if not header.columns & FIRED:
        return None
    position = header.payload_position - 16 * header.count
    return FiredColumn(
        _identities(data, header.count, position), _times(data, header.count, position + 8 * header.count)
    )


def copied_identities(data: Buffer, header: BatchHeader | None = None) -> NDArray[np.uint64] | None:
    """Return the identities of the messages of a batch that `check_header` accepts. Return None if the batch is no
    copying batch. If `header` is None, parse the header of `data`. Raises CorruptBatchError if an identity is out of
    range."""
    header = header or BatchHeader.parse(data)
    if not header.columns & COPIED:
        return None
    return _identities(data, header.count, header.payload_position - 8 * header.count)


def check_time_columns(data: Buffer, header: BatchHeader) -> None:
    """Raise CorruptBatchError if a delivery time or an identity is out of range. `check_header` must have accepted the
    header."""
    timed_column(data, header)
    fired_column(data, header)
    copied_identities(data, header)


def encoded_identities(identities: NDArray[np.uint64]) -> bytes:
    """Return the bytes of a column of identities. Raises InvalidArgumentError if an identity is out of range."""
    if not _are_within(identities, MAX_IDENTITY):
        raise InvalidArgumentError(f"An identity is out of range: give 0 to {MAX_IDENTITY}.")
    return identities.astype("<u8").tobytes()


def _encoded_times(times_ms: NDArray[np.int64]) -> bytes:
    if not _are_within(times_ms, MAX_DELIVERY_MS):
        raise InvalidArgumentError(f"A delivery time is out of range: give 0 to {MAX_DELIVERY_MS} ms since 1970.")
    return times_ms.astype("<i8").tobytes()


def _identities(data: Buffer, count: int, position: int) -> NDArray[np.uint64]:
    identities = np.frombuffer(data, "<u8", count, position)
    if not _are_within(identities, MAX_IDENTITY):
        raise CorruptBatchError(f"An identity in a batch is not from 0 to {MAX_IDENTITY}.")
    return identities


def _times(data: Buffer, count: int, position: int) -> NDArray[np.int64]:
    times_ms = np.frombuffer(data, "<i8", count, position)
    if not _are_within(times_ms, MAX_DELIVERY_MS):
        raise CorruptBatchError(f"A delivery time in a batch is not from 0 to {MAX_DELIVERY_MS} ms since 1970.")
    return times_ms


def _are_within(numbers: NDArray[np.int64] | NDArray[np.uint64], most: int) -> bool:
    return not numbers.size or (int(numbers.min()) >= 0 and int(numbers.max()) <= most)
