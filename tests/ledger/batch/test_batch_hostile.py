"""Batches that are damaged and have a correct CRC, as a hostile producer or leader could send them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.batch import Batch, BatchHeader, Codec, TimedColumn, check, cut, encode, key_hashes, tag_hashes
from ledger.batch.check import check_header
from ledger.batch.header import HEADER_BYTES, look_up_hashes, seal
from ledger.batch.timed import target_of, timed_column
from ledger.errors import CorruptBatchError, LedgerError
from tests.ledger.batch.test_batch_check import LIMIT, PLACE

BATCHES = [
    encode(
        [b"abc", b"", b"defgh" * 9],
        keys=[b"k1", None, b""],
        tags=["t", None, "u"],
        headers=[[("a", b"1"), ("bb", b"")], [], [("c", b"22")]],
        timestamps_ms=[1, 2, 3],
        look_up_keys=[[b"order", b""], [], [b"customer"]],
        **PLACE,
        codec=codec,
    )
    for codec in Codec
]
BATCHES += [encode([b"x"], look_up_keys=[[b"order"]], timed=TimedColumn(7, 3, np.zeros(1, np.int64)), **PLACE)]
BATCHES += [cut(Batch(BATCHES[0]), [0, 2])]


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """Return a batch with some changed bytes behind its magic number, and with the right CRC."""
    data = bytearray(draw(st.sampled_from(BATCHES)))
    for _ in range(draw(st.integers(1, 3))):
        data[draw(st.integers(12, len(data) - 1))] = draw(st.integers(0, 255))
    with suppress(CorruptBatchError):
        header = BatchHeader.parse(bytes(data))
        sealed = seal(replace(header, size=len(data)).pack(), bytes(data[HEADER_BYTES:]), b"")
        return sealed if draw(st.booleans()) else bytes(data)
    return bytes(data)


@settings(max_examples=500)
@given(changed())
def test_a_broker_and_a_consumer_refuse_or_read_the_batch(data: bytes) -> None:
    with suppress(LedgerError):
        check(data, LIMIT)
        assert len(Batch(data).values()) == len(Batch(data))
    with suppress(LedgerError):
        batch = Batch(data, check_crc=False)
        offsets = batch.offsets_from(0).tolist()
        for column in (batch.values(), batch.keys(), batch.tags(), batch.headers(), batch.look_up_keys(), offsets):
            assert len(column) == len(batch)
        assert offsets == sorted(set(offsets))


@settings(max_examples=500)
@given(changed())
def test_a_replica_refuses_the_header_or_can_index_the_batch(data: bytes) -> None:
    with suppress(LedgerError):
        header = BatchHeader.parse(bytes(data))
        check_header(header, len(data))
        for hashes in (key_hashes(data, header), tag_hashes(data, header)):
            assert hashes is None or len(hashes) == header.count
        more = look_up_hashes(data, header)
        assert more is None or 1 <= len(more) <= 16 * header.count
        assert target_of(data) == (
            None if (timed := timed_column(data, header)) is None else (timed.topic_id, timed.queue)
        )
