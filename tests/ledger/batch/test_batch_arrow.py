"""Tests that the payload of a batch has Arrow's memory layout. The tests read the buffers with numpy alone, at the
places that Arrow's specification gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledger.batch import Batch, BatchHeader, encode

PLACE: dict[str, Any] = {
    "topic_id": 1,
    "queue": 0,
    "producer_id": 2,
    "epoch": 0,
    "first_sequence": 0,
    "base_timestamp_ms": 1000,
}


class Buffers:
    """Reads the buffers of a batch one after another. Each buffer begins at a multiple of 8."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = BatchHeader.parse(data).payload_position

    def take(self, dtype: str, count: int) -> NDArray[Any]:
        assert self.position % 8 == 0
        taken = np.frombuffer(self.data, dtype, count, self.position)
        end = self.position + taken.nbytes
        self.position = end + -end % 8
        assert not any(self.data[end : self.position]), "padding must be zero"
        return taken


def test_every_buffer_lies_where_arrow_expects_it() -> None:
    data = encode(
        [b"abc", b"", b"defgh"],
        keys=[b"k1", None, b""],
        tags=[None, "\N{GREEK SMALL LETTER LAMDA}", None],
        headers=[[("a", b"1"), ("bb", b"")], [], [("c", b"22")]],
        timestamps_ms=[1000, 999, 2000],
        **PLACE,
    )
    buffers = Buffers(data)
    assert buffers.take("<i4", 4).tolist() == [0, 3, 3, 8]
    assert bytes(buffers.take("u1", 8)) == b"abcdefgh"
    # keys: validity bits beginning with the lowest bit, offsets, bytes
    assert buffers.take("u1", 1).tolist() == [0b101]
    assert buffers.take("<i4", 4).tolist() == [0, 2, 2, 2]
    assert bytes(buffers.take("u1", 2)) == b"k1"
    # tags
    assert buffers.take("u1", 1).tolist() == [0b010]
    assert buffers.take("<i4", 4).tolist() == [0, 0, 2, 2]
    assert bytes(buffers.take("u1", 2)).decode() == "\N{GREEK SMALL LETTER LAMDA}"
    # headers: the offsets of the lists, then the names and the values
    assert buffers.take("<i4", 4).tolist() == [0, 2, 2, 3]
    assert buffers.take("<i4", 4).tolist() == [0, 1, 3, 4]
    assert bytes(buffers.take("u1", 4)) == b"abbc"
    assert buffers.take("<i4", 4).tolist() == [0, 1, 1, 3]
    assert bytes(buffers.take("u1", 3)) == b"122"
    # timestamps: differences from the base timestamp
    assert buffers.take("<i8", 3).tolist() == [0, -1, 1000]
    assert buffers.position == len(data)


def test_arrays_are_views_of_the_batch() -> None:
    data = encode([b"abc", b"", b"defgh"], **PLACE)
    batch = Batch(data)
    whole = np.frombuffer(data, np.uint8)
    assert np.shares_memory(batch.bodies, whole)
    assert np.shares_memory(batch.offsets, whole)
    assert [batch.offsets.dtype.str, batch.bodies.dtype.str] == ["<i4", "|u1"]
    assert [
        bytes(batch.bodies[a:b]) for a, b in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)
    ] == batch.values()
