"""The columns of batches of transactions. They are in front of the payload, so a broker reads them without
decompressing the batch.

    a half batch     has HALF: messages of the topic `%HALF`, which wait for the end of their transaction
    a decided batch  has DECIDED: the messages of a half batch, in their target queue or in a dead-letter topic

The number of a half batch is its offset in the queue of `%HALF`. A copy of a half batch keeps the number.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import NamedTuple

from ledger.batch.header import (
    DECIDED,
    DECIDED_BYTES,
    HALF,
    HALF_BYTES,
    HALF_GROUP_BYTES,
    HEADER_BYTES,
    MESSAGE_IDS,
    BatchHeader,
    Buffer,
    hashes_end_in,
    seal,
)
from ledger.batch.timed import target_of
from ledger.consumer_groups import validate_group_name
from ledger.errors import CorruptBatchError, InvalidGroupNameError
from ledger.transactions import MAX_HALF, NO_HALF

# target topic id u32 | target queue u32 | decision shard u32 | bytes of the group u32 | transaction u64 | copy of u64 |
# name of the producer group, padded with zeros
_HALF = struct.Struct(f"<IIIIQQ{HALF_GROUP_BYTES}s")
assert _HALF.size == HALF_BYTES
# number of the half batch u64 | transaction u64 | decision shard u32 | flags u32
_DECIDED = struct.Struct("<QQII")
assert _DECIDED.size == DECIDED_BYTES
_COLUMNS_AND_COUNT = struct.Struct("<HI")
_COLUMNS_POSITION = 10

# The producer id of batches that the broker makes.
_BROKER = 0

# The entry of the batch is itself the decision about its transaction.
DECIDES = 1 << 0
# The messages are dead letters: no producer knew the outcome of the transaction.
DEAD = 1 << 1


@dataclass(frozen=True, slots=True)
class HalfColumn:
    """The target queue, the transaction and the producer group of a half batch.

    `transaction` is the number of the transaction in the shard `shard`, and None if this batch begins the transaction.
    `copy_of` is the number of the half batch that this batch copies, and None if it is no copy."""

    topic_id: int
    queue: int
    shard: int
    group: str
    transaction: int | None = None
    copy_of: int | None = None

    def encoded(self) -> bytes:
        """Return the bytes of the column. Raises InvalidGroupNameError."""
        validate_group_name(self.group)
        group = self.group.encode()
        return _HALF.pack(
            self.topic_id, self.queue, self.shard, len(group), _or_none(self.transaction), _or_none(self.copy_of), group
        )


@dataclass(frozen=True, slots=True)
class DecidedColumn:
    """The half batch whose messages a decided batch has, and its transaction, number `transaction` of the shard
    `shard`. `decides` says that the entry of the batch is the decision. `dead` says that the messages are dead
    letters."""

    half: int
    transaction: int
    shard: int
    decides: bool = False
    dead: bool = False

    def encoded(self) -> bytes:
        """Return the bytes of the column."""
        flags = DECIDES * self.decides | DEAD * self.dead
        return _DECIDED.pack(self.half, self.transaction, self.shard, flags)


def half_column(data: Buffer, header: BatchHeader | None = None) -> HalfColumn | None:
    """Return what a half batch says about its transaction. Return None if the batch is no half batch. `check_header`
    must have accepted the header. Raises CorruptBatchError if a field is out of range."""
    header = header or BatchHeader.parse(data)
    if not header.columns & HALF:
        return None
    topic_id, queue, shard, size, transaction, copy_of, group = _HALF.unpack_from(data, header.hashes_end)
    if size > HALF_GROUP_BYTES or any(group[size:]):
        raise CorruptBatchError("The producer group of a half batch has a wrong length.")
    try:
        name = group[:size].decode("ascii")
        validate_group_name(name)
    except (UnicodeDecodeError, InvalidGroupNameError) as error:
        raise CorruptBatchError(f"The producer group of a half batch is no name of a group: {error}") from None
    return HalfColumn(topic_id, queue, shard, name, _checked(transaction), _checked(copy_of))


class HalfTarget(NamedTuple):
    """Topic id and number of the target queue of a half batch, and its producer group."""

    target: tuple[int, int]
    group: str


def half_target_of(data: Buffer) -> HalfTarget | None:
    """Read the target queue and the producer group of a half batch, without checking that the bytes are a valid batch.
    Return None if the batch is no half batch, or if its bytes are too short."""
    if len(data) < HEADER_BYTES:
        return None
    columns, count = _COLUMNS_AND_COUNT.unpack_from(data, _COLUMNS_POSITION)
    if not columns & HALF:
        return None
    try:
        position = hashes_end_in(data, columns, count)
    except CorruptBatchError:
        return None
    if len(data) < position + HALF_BYTES:
        return None
    topic_id, queue, _, size, _, _, group = _HALF.unpack_from(data, position)
    return HalfTarget((topic_id, queue), group[: min(size, HALF_GROUP_BYTES)].decode("ascii", "replace"))


def decided_column(data: Buffer, header: BatchHeader | None = None) -> DecidedColumn | None:
    """Return which half batch a decided batch settles. Return None if the batch is no decided batch. `check_header`
    must have accepted the header. Raises CorruptBatchError if a field is out of range."""
    header = header or BatchHeader.parse(data)
    if not header.columns & DECIDED:
        return None
    half, transaction, shard, flags = _DECIDED.unpack_from(data, header.payload_position - DECIDED_BYTES)
    if half > MAX_HALF or transaction > MAX_HALF or flags & ~(DECIDES | DEAD):
        raise CorruptBatchError("A decided batch names a half batch that cannot exist.")
    return DecidedColumn(half, transaction, shard, bool(flags & DECIDES), bool(flags & DEAD))


def check_transaction_columns(data: Buffer, header: BatchHeader) -> None:
    """Raise CorruptBatchError if a field of the columns is out of range. `check_header` must have accepted the
    header."""
    half_column(data, header)
    decided_column(data, header)


def decided_batch(half: bytes, column: DecidedColumn, *, topic_id: int, queue: int, first_sequence: int) -> bytes:
    """Return the batch that has the messages of the half batch `half` in this queue. The payload is not decoded."""
    return _with_column(half, DECIDED, column.encoded(), topic_id, queue, first_sequence)


def copied_half(half: bytes, number: int, first_sequence: int) -> bytes:
    """Return the copy of a half batch for the same queue of `%HALF`. `number` is the number of the half batch."""
    header = BatchHeader.parse(half)
    column = half_column(half, header)
    assert column is not None, "the batch is a half batch"
    encoded = replace(column, copy_of=number).encoded()
    return _with_column(half, HALF, encoded, header.topic_id, header.queue, first_sequence)


def _with_column(half: bytes, bit: int, column: bytes, topic_id: int, queue: int, first_sequence: int) -> bytes:
    """Return the half batch with another column in place of HALF, and without message ids, as a batch of the
    broker."""
    header = BatchHeader.parse(half)
    view = memoryview(half)
    made = replace(
        header,
        columns=header.columns & ~(HALF | MESSAGE_IDS) | bit,
        size=header.size - (header.payload_position - header.hashes_end) + len(column),
        topic_id=topic_id,
        queue=queue,
        producer_id=_BROKER,
        epoch=0,
        first_sequence=first_sequence,
    )
    return seal(made.pack(), view[HEADER_BYTES : header.hashes_end], column, view[header.payload_position :])


def _or_none(number: int | None) -> int:
    return NO_HALF if number is None else number


def _checked(number: int) -> int | None:
    if number == NO_HALF:
        return None
    if number > MAX_HALF:
        raise CorruptBatchError(f"A half batch names the half batch {number}: numbers are 0 to {MAX_HALF}.")
    return number


def read_in(data: Buffer, header: BatchHeader) -> int:
    """Return the id of the topic in which consumers read the messages of a producer's batch. The messages may wait in
    `%TIMED` or `%HALF` first."""
    half, target = half_target_of(data), target_of(data)
    if half is not None:
        return half.target[0]
    return header.topic_id if target is None else target[0]
