"""The column of message ids: where it is, which batches can have it, and how a batch loses some messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ledger.batch import (
    Batch,
    BatchHeader,
    HalfColumn,
    TimedColumn,
    check,
    cut,
    decided_batch,
    half_column,
    message_ids,
    rest_of,
    timed_column,
)
from ledger.batch.header import CUT, FIRED, HEADER_BYTES, MESSAGE_IDS, seal
from ledger.batch.transactions import DecidedColumn, copied_half
from ledger.codec import Codec
from ledger.errors import CorruptBatchError, InvalidArgumentError
from ledger.hashing import message_id_hash
from tests.cluster.fleet import sample_batch

IDS = [message_id_hash(name) for name in (b"a", b"b", b"c")]
VALUES = [b"one", b"two", b"three" * 50]
COLUMNS: dict[str, Any] = {
    "keys": [b"k", None, b"l"],
    "tags": ["t", None, "u"],
    "headers": [[("h", b"1")], [], [("h", b"3")]],
    "timestamps_ms": [1_700_000_000_001, 1_700_000_000_002, 1_700_000_000_003],
    "look_up_keys": [[b"x"], [], [b"y", b"z"]],
}
TIMED = TimedColumn(5, 2, np.array([11, 22, 33], np.int64))
HALF = HalfColumn(5, 2, 0, "checkout", None, None)
KINDS: dict[str, dict[str, Any]] = {"plain": {}, "timed": {"timed": TIMED}, "half": {"half": HALF}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_ids_come_back_and_the_rest_of_a_batch_keeps_its_columns(kind: str, codec: Codec) -> None:
    data = sample_batch(1, VALUES, ids=IDS, codec=codec, **COLUMNS, **KINDS[kind])
    check(data, 1 << 16)
    header = BatchHeader.parse(data)
    assert message_ids(data, header) == IDS
    assert Batch(data).values() == VALUES
    rest = rest_of(data, [0, 2])
    check(rest, 1 << 16)
    left = Batch(rest)
    assert message_ids(rest, left.header) == [IDS[0], IDS[2]]
    assert left.values() == [VALUES[0], VALUES[2]]
    assert left.keys() == [b"k", b"l"]
    assert left.tags() == ["t", "u"]
    assert left.timestamps_ms() == [1_700_000_000_001, 1_700_000_000_003]
    assert left.look_up_keys() == [(b"x",), (b"y", b"z")]
    assert [list(each) for each in left.headers()] == [[("h", b"1")], [("h", b"3")]]
    assert left.header.first_sequence == header.first_sequence
    timed, half = timed_column(rest, left.header), half_column(rest, left.header)
    assert (None if timed is None else timed.times_ms.tolist()) == ([11, 33] if kind == "timed" else None)
    assert half == (HALF if kind == "half" else None)


def test_batches_of_a_broker_have_no_ids() -> None:
    half = sample_batch(1, VALUES, ids=IDS, **COLUMNS, half=HALF)
    decided = decided_batch(half, DecidedColumn(0, 0, 0, True, False), topic_id=5, queue=2, first_sequence=0)
    for made in (decided, copied_half(half, 7, 0)):
        check(made, 1 << 16)
        assert not BatchHeader.parse(made).columns & MESSAGE_IDS
        assert Batch(made).values() == VALUES
    plain = sample_batch(1, VALUES, ids=IDS, **COLUMNS)
    assert not BatchHeader.parse(cut(Batch(plain), [1])).columns & MESSAGE_IDS
    for bit in (CUT, FIRED):
        header = BatchHeader.parse(plain)
        wrong = seal(replace(header, columns=header.columns | bit).pack(), plain[HEADER_BYTES:])
        with pytest.raises(CorruptBatchError, match="A batch of a broker has message ids"):
            Batch(wrong)


def test_ids_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        sample_batch(1, VALUES, ids=IDS[:2])
    data = sample_batch(1, VALUES, ids=IDS)
    header = BatchHeader.parse(data)
    without = seal(replace(header, columns=header.columns & ~MESSAGE_IDS).pack(), data[HEADER_BYTES:])
    with pytest.raises(CorruptBatchError):
        check(without, 1 << 16)
