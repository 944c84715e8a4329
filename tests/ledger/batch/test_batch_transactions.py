"""The columns of batches of transactions, and the batches that the broker makes of half batches."""

from __future__ import annotations

import struct
from dataclasses import replace

import google_crc32c
import pytest

from ledger.batch import (
    Batch,
    BatchHeader,
    Codec,
    DecidedColumn,
    HalfColumn,
    check,
    copied_half,
    decided_batch,
    decided_column,
    encode,
    half_column,
    half_target_of,
    indexed_hashes,
)
from ledger.batch.header import HALF, HEADER_BYTES, TIMED, seal
from ledger.errors import CorruptBatchError, InvalidGroupNameError

COLUMN = HalfColumn(9, 3, 2, "checkout")
VALUES = [b"x" * 400, b"", b"paid"]


def half(column: HalfColumn = COLUMN, codec: Codec = Codec.NONE) -> bytes:
    return encode(
        VALUES,
        topic_id=1,
        queue=2,
        producer_id=7,
        epoch=1,
        first_sequence=40,
        base_timestamp_ms=1_700_000_000_000,
        keys=[b"a", None, b"b"],
        tags=[None, "new", "new"],
        headers=[(), (("trace", b"1"),), ()],
        timestamps_ms=[1_700_000_000_000, 1_700_000_000_001, 5],
        look_up_keys=[[b"order-1", b"ann"], [], [b"order-2"]],
        half=column,
        codec=codec,
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("column", [COLUMN, replace(COLUMN, transaction=0, group="g" * 63)])
def test_a_half_batch_keeps_its_column_and_messages(column: HalfColumn, codec: Codec) -> None:
    data = half(column, codec)
    check(data, 1 << 20)
    assert half_column(data) == column
    assert half_target_of(data) == ((9, 3), column.group)
    assert decided_column(data) is None
    assert Batch(data).values() == VALUES


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_decided_batch_has_the_messages_of_the_half_batch(codec: Codec) -> None:
    before = Batch(half(codec=codec))
    column = DecidedColumn(40, 38, 2, decides=True)
    data = decided_batch(before.data, column, topic_id=9, queue=3, first_sequence=77)
    check(data, 1 << 20)
    after = Batch(data)
    assert decided_column(data) == column
    assert half_column(data) is None
    assert half_target_of(data) is None
    for read in (Batch.values, Batch.keys, Batch.tags, Batch.headers, Batch.timestamps_ms, Batch.look_up_keys):
        assert read(after) == read(before)
    assert indexed_hashes(after.data) is not None
    assert indexed_hashes(after.data).tolist() == indexed_hashes(before.data).tolist()  # type: ignore[union-attr]
    header = after.header
    assert (header.topic_id, header.queue, header.producer_id, header.epoch, header.first_sequence) == (9, 3, 0, 0, 77)


def test_a_copy_names_the_half_batch() -> None:
    data = copied_half(half(), 40, 99)
    check(data, 1 << 20)
    assert half_column(data) == replace(COLUMN, copy_of=40)
    header = BatchHeader.parse(data)
    assert (header.topic_id, header.queue, header.producer_id, header.first_sequence) == (1, 2, 0, 99)
    assert half_column(copied_half(data, 40, 120)) == replace(COLUMN, copy_of=40)


def test_a_group_name_is_checked() -> None:
    with pytest.raises(InvalidGroupNameError):
        half(replace(COLUMN, group="a b"))


def patched(data: bytes, at: int, layout: str, value: int) -> bytes:
    body = bytearray(data)
    struct.pack_into(layout, body, at, value)
    struct.pack_into("<I", body, 4, google_crc32c.value(bytes(body[8:])))
    return bytes(body)


@pytest.mark.parametrize(
    ("at", "layout", "value"),
    [(12, "<I", 65), (12, "<I", 7), (16, "<Q", 1 << 63), (24, "<Q", 1 << 63), (32, "<B", 32), (32, "<B", 0xFF)],
)
def test_a_half_batch_with_an_impossible_field_is_refused(at: int, layout: str, value: int) -> None:
    data = half()
    with pytest.raises(CorruptBatchError):
        check(patched(data, BatchHeader.parse(data).hashes_end + at, layout, value), 1 << 20)


@pytest.mark.parametrize(("at", "layout", "value"), [(0, "<Q", 1 << 63), (8, "<Q", 1 << 63), (20, "<I", 4)])
def test_a_decided_batch_with_an_impossible_field_is_refused(at: int, layout: str, value: int) -> None:
    data = decided_batch(half(), DecidedColumn(1, 1, 0), topic_id=9, queue=3, first_sequence=0)
    with pytest.raises(CorruptBatchError):
        check(patched(data, BatchHeader.parse(data).hashes_end + at, layout, value), 1 << 20)


def test_the_columns_exclude_others() -> None:
    data = half()
    header = replace(BatchHeader.parse(data), columns=HALF | TIMED)
    with pytest.raises(CorruptBatchError, match="exclude each other"):
        check(seal(header.pack(), data[HEADER_BYTES:]), 1 << 20)


def test_short_bytes_have_no_target() -> None:
    data = half()
    assert half_target_of(data[:40]) is None
    assert half_target_of(data[: BatchHeader.parse(data).hashes_end + 4]) is None
