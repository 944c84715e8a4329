"""Tests of the columns of delivery times and identities: where they lie, who reads them, and which are refused."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.batch import (
    Batch,
    BatchHeader,
    Codec,
    TimedColumn,
    check,
    copied_identities,
    encode,
    fired_column,
    key_hashes,
    readdress,
    tag_hashes,
    target_of,
    timed_column,
)
from ledger.batch.check import check_header
from ledger.batch.header import COPIED, FIRED, HEADER_BYTES, TIMED, seal
from ledger.errors import CorruptBatchError, InvalidArgumentError, LedgerError
from ledger.hashing import key_hash, tag_hash
from ledger.timed import MAX_DELIVERY_MS, MAX_IDENTITY
from tests.ledger.batch.test_batch_check import LIMIT, PLACE, SMALL, refused

TIMES = [1_000, 0, MAX_DELIVERY_MS]
COLUMN = TimedColumn(77, 5, np.array(TIMES, np.int64))
OPTIONS: dict[str, Any] = {
    "keys": [b"k1", None, b""],
    "tags": ["t", None, "u"],
    "headers": [[("a", b"1")], [], []],
    "timestamps_ms": [1, 2, 3],
}


def timed(codec: Codec = Codec.NONE, **options: Any) -> bytes:
    return encode([b"abc", b"", b"defgh" * 40], timed=COLUMN, codec=codec, **options, **PLACE)


def with_columns(columns: int, front: bytes, data: bytes = SMALL) -> bytes:
    """Return a batch with these columns of delivery times in front of its payload."""
    header = BatchHeader.parse(data)
    parts = data[HEADER_BYTES : header.hashes_end], front, data[header.payload_position :]
    kept = header.columns & ~(TIMED | FIRED | COPIED)
    return seal(replace(header, columns=kept | columns, size=HEADER_BYTES + sum(map(len, parts))).pack(), *parts)


def identities(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def fired(numbers: tuple[int, ...], times_ms: tuple[int, ...]) -> bytes:
    return identities(*numbers) + struct.pack(f"<{len(times_ms)}q", *times_ms)


def target(*times_ms: int) -> bytes:
    return struct.pack(f"<II{len(times_ms)}q", 77, 5, *times_ms)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("options", [{}, {"keys": OPTIONS["keys"]}, {"tags": OPTIONS["tags"]}, OPTIONS])
def test_a_timed_batch_has_its_target_and_times_in_front_of_the_payload(codec: Codec, options: dict[str, Any]) -> None:
    data, plain = timed(codec, **options), encode([b"abc", b"", b"defgh" * 40], codec=codec, **options, **PLACE)
    header = check(data, LIMIT)
    assert header.columns == BatchHeader.parse(plain).columns | TIMED
    position = BatchHeader.parse(plain).payload_position
    assert header.payload_position == position + 8 + 8 * 3
    assert data[position : header.payload_position] == target(*TIMES)
    assert data[HEADER_BYTES:position] == plain[HEADER_BYTES:position]
    assert data[header.payload_position :] == plain[position:]
    found = timed_column(data)
    assert found is not None
    assert (found.topic_id, found.queue, found.times_ms.tolist()) == (77, 5, TIMES)
    assert target_of(data) == (77, 5)
    assert fired_column(data) is None
    assert copied_identities(data) is None


def test_the_other_columns_are_read_as_before() -> None:
    data = timed(Codec.LZ4, **OPTIONS)
    batch = Batch(data)
    assert batch.values() == [b"abc", b"", b"defgh" * 40]
    assert (batch.keys(), batch.tags()) == (OPTIONS["keys"], OPTIONS["tags"])
    assert batch.timestamps_ms() == OPTIONS["timestamps_ms"]
    keys, tags = key_hashes(data), tag_hashes(data)
    assert keys is not None
    assert tags is not None
    assert keys.tolist() == [key_hash(b"k1"), 0, key_hash(b"")]
    assert tags.tolist() == [tag_hash("t"), 0, tag_hash("u")]


def test_times_and_identities_are_views_of_the_batch() -> None:
    data = with_columns(TIMED | COPIED, target(1, 2, 3) + identities(9, 8, 7))
    found, copied = timed_column(data), copied_identities(data)
    assert found is not None
    assert copied is not None
    whole = np.frombuffer(data, np.uint8)
    assert np.shares_memory(found.times_ms, whole)
    assert np.shares_memory(copied, whole)
    assert copied.tolist() == [9, 8, 7]


def test_a_plain_batch_has_no_target() -> None:
    assert timed_column(SMALL) is None
    assert target_of(SMALL) is None
    assert fired_column(SMALL) is None
    assert copied_identities(SMALL) is None


def test_a_timed_batch_with_another_number_keeps_its_column() -> None:
    again = readdress(timed(**OPTIONS), queue=9, epoch=2, first_sequence=30)
    assert again == encode(
        [b"abc", b"", b"defgh" * 40],
        timed=COLUMN, **OPTIONS, **{**PLACE, "queue": 9, "epoch": 2, "first_sequence": 30}
    )  # fmt: skip


def test_identities_of_a_firing_batch_are_read_with_their_times() -> None:
    data = with_columns(FIRED, fired((4, 5, MAX_IDENTITY), (7, 0, MAX_DELIVERY_MS)))
    check(data, LIMIT)
    found = fired_column(data)
    assert found is not None
    assert (found.identities.tolist(), found.times_ms.tolist()) == ([4, 5, MAX_IDENTITY], [7, 0, MAX_DELIVERY_MS])
    assert np.shares_memory(found.times_ms, np.frombuffer(data, np.uint8))


def test_identities_of_a_copying_batch_are_read() -> None:
    data = with_columns(TIMED | COPIED, target(1, 2, 3) + identities(4, 5, MAX_IDENTITY))
    check(data, LIMIT)
    found = copied_identities(data)
    assert found is not None
    assert found.tolist() == [4, 5, MAX_IDENTITY]


@pytest.mark.parametrize("columns", [COPIED, TIMED | FIRED, FIRED | COPIED, TIMED | FIRED | COPIED])
def test_columns_that_exclude_each_other_are_refused(columns: int) -> None:
    front = target(1, 2, 3) * bool(columns & TIMED) + fired((1, 2, 3), (1, 2, 3)) * bool(columns & FIRED)
    front += identities(1, 2, 3) * bool(columns & COPIED)
    refused(with_columns(columns, front), CorruptBatchError, "that exclude each other")


@pytest.mark.parametrize(
    ("columns", "front", "sentence"),
    [
        (TIMED, target(1, -1, 3), "delivery time in a batch is not from 0"),
        (TIMED, target(1, 2, MAX_DELIVERY_MS + 1), "delivery time in a batch is not from 0"),
        (FIRED, fired((1, 2, 1 << 63), (1, 2, 3)), "identity in a batch is not from 0"),
        (FIRED, fired((1, 2, 3), (1, -2, 3)), "delivery time in a batch is not from 0"),
        (FIRED, fired((1, 2, 3), (1, 2, MAX_DELIVERY_MS + 1)), "delivery time in a batch is not from 0"),
        (TIMED | COPIED, target(1, 2, 3) + identities((1 << 64) - 1, 1, 2), "identity in a batch is not from 0"),
        (TIMED | COPIED, target(1, 2, -(1 << 63)) + identities(1, 2, 3), "delivery time in a batch is not from 0"),
    ],
)
def test_times_and_identities_out_of_range_are_refused(columns: int, front: bytes, sentence: str) -> None:
    data = with_columns(columns, front)
    with pytest.raises(CorruptBatchError, match=sentence):
        check(data, LIMIT)
    with pytest.raises(CorruptBatchError, match=sentence):
        [read(data) for read in (timed_column, fired_column, copied_identities)]


@pytest.mark.parametrize("columns", [TIMED, FIRED, TIMED | COPIED])
@pytest.mark.parametrize("codec", Codec)
def test_a_column_that_is_claimed_but_not_there_is_refused(columns: int, codec: Codec) -> None:
    plain = encode([b"abc", b"", b"defgh" * 40], codec=codec, **OPTIONS, **PLACE)
    with pytest.raises(CorruptBatchError):
        check(with_columns(columns, b"", plain), LIMIT)


@pytest.mark.parametrize("times_ms", [[1, -1], [1, MAX_DELIVERY_MS + 1], [1], [1, 2, 3]])
def test_what_cannot_be_encoded_is_refused(times_ms: list[int]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"delivery time is out of range|was given . delivery_times"):
        encode([b"a", b"b"], timed=TimedColumn(1, 2, np.array(times_ms, np.int64)), **PLACE)


# --- hostile bytes ---------------------------------------------------------------------------------------------------

BATCHES = [
    *(timed(codec, **OPTIONS) for codec in Codec),
    with_columns(FIRED, fired((4, 5, 6), (1, 2, 3))),
    with_columns(TIMED | COPIED, target(1, 2, 3) + identities(4, 5, 6)),
]


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """Return a batch with some changed bytes behind its magic number, perhaps cut, and perhaps with the right CRC."""
    data = bytearray(draw(st.sampled_from(BATCHES)))
    for _ in range(draw(st.integers(1, 3))):
        data[draw(st.integers(8, len(data) - 1))] = draw(st.integers(0, 255))
    cut = bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])
    with suppress(LedgerError):
        header = BatchHeader.parse(cut)
        return seal(replace(header, size=len(cut)).pack(), cut[HEADER_BYTES:])
    return cut


@settings(max_examples=500)
@given(changed())
def test_hostile_columns_are_refused_or_read(data: bytes) -> None:
    assert target_of(data) is None or len(data) > HEADER_BYTES
    with suppress(LedgerError):
        header = BatchHeader.parse(data)
        check_header(header, len(data))
        column = timed_column(data, header)
        assert column is None or len(column.times_ms) == header.count
        fires = fired_column(data, header)
        assert fires is None or len(fires.identities) == len(fires.times_ms) == header.count
        copied = copied_identities(data, header)
        assert copied is None or len(copied) == header.count
    with suppress(LedgerError):
        check(data, LIMIT)
        assert len(Batch(data).values()) == len(Batch(data))


def test_a_count_beyond_the_bytes_finds_no_target() -> None:
    data = bytearray(timed(**OPTIONS))
    data[12:16] = b"\xff" * 4
    assert target_of(bytes(data)) is None
