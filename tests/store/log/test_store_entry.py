"""The bytes of an entry: they are read back as they were written, and every flipped bit is noticed."""

from __future__ import annotations

import struct

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import EntryDraft, EntryKind, Header
from store.log.entry import HEADER_SIZE, EntryFlawError, chained, encode, is_blank, padded, parse, verified

U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)

FIELDS = {
    "magic": (0, 4), "version": (4, 1), "kind": (5, 1), "flags": (6, 2), "size": (8, 4), "count": (12, 4),
    "index": (16, 8), "term": (24, 8), "position": (32, 8), "commit": (40, 8), "append_time_ms": (48, 8),
    "base_offset": (56, 8), "topic_id": (64, 4), "queue": (68, 4), "crc": (72, 4),
}  # fmt: skip


def made(body: bytes = b"body of 13 by") -> tuple[Header, bytes]:
    draft = EntryDraft(EntryKind.COMMAND, body, topic_id=7, queue=3, base_offset=99, count=5)
    header, pieces = encode(draft, index=4, term=2, position=640, commit=3, append_time_ms=1234, previous_chain=11)
    return header, b"".join(pieces)


def checked(data: bytes, at: int = 0) -> Header:
    return verified(data, np.frombuffer(data, np.uint8), at)


@given(
    kind=st.sampled_from(EntryKind), body=st.binary(max_size=100), index=U64, term=U64, position=U64, commit=U64,
    time=st.integers(-(2**63), 2**63 - 1), offset=st.integers(-(2**63), 2**63 - 1), topic=U32, queue=U32, count=U32,
    previous=U32,
)  # fmt: skip
def test_every_value_survives_the_round_trip(
    kind: EntryKind, body: bytes, index: int, term: int, position: int, commit: int, time: int, offset: int, topic: int,
    queue: int, count: int, previous: int,
) -> None:  # fmt: skip
    draft = EntryDraft(kind, body, topic, queue, offset, count)
    header, pieces = encode(
        draft, index=index, term=term, position=position, commit=commit, append_time_ms=time, previous_chain=previous
    )
    data = b"".join(pieces)
    assert len(data) == padded(header.size) == header.end - position
    assert checked(b"ahead..." + data, 8) == header
    assert data[HEADER_SIZE : header.size] == body
    assert header.body_bytes == len(body)
    assert (header.kind, header.index, header.term, header.position, header.commit) == (
        kind, index, term, position, commit,
    )  # fmt: skip
    assert (header.append_time_ms, header.base_offset, header.topic_id, header.queue, header.count) == (
        time, offset, topic, queue, count,
    )  # fmt: skip
    assert not is_blank(data, 0)


def test_the_layout_is_the_one_that_is_drawn() -> None:
    _, data = made()
    fixed = struct.pack("<4sBBHIIQQQQqqII", b"LMQE", 1, 2, 0, 93, 5, 4, 2, 640, 3, 1234, 99, 7, 3)
    crc = google_crc32c.value(fixed + b"body of 13 by")
    chain = google_crc32c.value(struct.pack("<II", 11, crc))
    assert data == fixed + struct.pack("<II", crc, chain) + b"body of 13 by" + bytes(3)


@pytest.mark.parametrize("field", FIELDS)
def test_a_flipped_bit_in_any_header_field_is_found(field: str) -> None:
    _, data = made()
    offset, length = FIELDS[field]
    for bit in range(length * 8):
        flipped = bytearray(data)
        flipped[offset + bit // 8] ^= 1 << bit % 8
        with pytest.raises(EntryFlawError):
            checked(bytes(flipped))


def test_a_flipped_bit_in_the_chain_breaks_the_chain() -> None:
    header, data = made()
    for bit in range(32):
        flipped = bytearray(data)
        flipped[76 + bit // 8] ^= 1 << bit % 8
        found = checked(bytes(flipped))
        assert found.chain != chained(11, found.crc) == header.chain


def test_a_flipped_bit_in_body_or_padding_is_found() -> None:
    _, data = made()
    for bit in range(HEADER_SIZE * 8, len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(EntryFlawError):
            checked(bytes(flipped))


def test_every_cut_of_an_entry_is_found() -> None:
    _, data = made()
    for length in range(8, len(data)):
        with pytest.raises(EntryFlawError):
            checked(data[:length])


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0, 0x00, "magic number"),
        (4, 2, "version 2 is not known"),
        (5, 9, "kind 9 is not known"),
        (6, 1, "flags 0x0001 are not known"),
        (8, 79, "smaller than a header"),
        (10, 0xFF, "reaches beyond the end"),
        (80, 0x00, "CRC of header and body"),
        (93, 0x01, "padding"),
    ],
)
def test_the_flaw_is_named(offset: int, value: int, message: str) -> None:
    data = bytearray(made()[1])
    data[offset] = value
    with pytest.raises(EntryFlawError, match=message):
        checked(bytes(data))


def test_blank_is_a_zero_word() -> None:
    assert is_blank(bytes(8) + b"garbage", 0)
    assert not is_blank(bytes(7) + b"\x01", 0)


def test_an_empty_body_is_legal() -> None:
    header, data = made(b"")
    assert len(data) == HEADER_SIZE
    assert parse(data, 0) == checked(data) == header
