"""The copy of a batch has the messages of the original, and new numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ledger.batch import Batch, check
from ledger.batch.encode import encode
from ledger.batch.firing import Waiting, firing_batch
from ledger.batch.header import ALL_COLUMNS, DECIDED, EXCLUSIVE_COLUMNS, FIRED, MESSAGE_IDS, message_ids
from ledger.batch.timed import TimedColumn
from ledger.batch.transactions import DecidedColumn, HalfColumn, decided_batch
from ledger.codec import Codec
from ledger.hashing import message_id_hash
from ledger.mirror.copied_batch import copied_batch, end_of_copy, has_message_ids
from ledger.mirror.numbering import CopyNumber

NUMBER = CopyNumber(0xABCDEF, 77, 1234)
PLACE: dict[str, Any] = {"topic_id": 9, "queue": 2}
NUMBERS: dict[str, Any] = {"producer_id": 1, "epoch": 2, "first_sequence": 3, "base_timestamp_ms": 1_700_000_000_000}
COLUMNS: dict[str, Any] = {
    "keys": [b"a", None, b"c"],
    "tags": ["t", None, None],
    "headers": [[("h", b"1")], [], []],
    "timestamps_ms": [1, 2, 3],
    "look_up_keys": [[b"x", b"y"], [], [b"z"]],
}
VALUES = [b"one", b"two" * 400, b""]


def content(data: bytes) -> list[Any]:
    batch = Batch(data)
    return [
        *(batch.values(), batch.keys(), batch.tags(), batch.headers()),
        *(batch.timestamps_ms(), [tuple(keys) for keys in batch.look_up_keys()]),
    ]


def source(codec: Codec = Codec.NONE, **more: Any) -> bytes:
    return encode(VALUES, topic_id=4, queue=5, codec=codec, **NUMBERS, **COLUMNS, **more)


@pytest.mark.parametrize("codec", list(Codec))
def test_messages_stay_and_numbers_change(codec: Codec) -> None:
    original = source(codec)
    copy = copied_batch(original, NUMBER, **PLACE)
    header = check(copy, 1 << 20)
    assert (header.topic_id, header.queue) == (9, 2)
    assert (header.producer_id, header.epoch, header.first_sequence) == NUMBER
    assert header.codec == Batch(original).header.codec
    assert content(copy) == content(original)


def test_message_ids_stay_unless_they_are_refused() -> None:
    ids = [message_id_hash(b"%d" % n) for n in range(3)]
    original = source(ids=ids)
    copy = copied_batch(original, NUMBER, **PLACE)
    assert message_ids(copy, check(copy, 1 << 20)) == ids
    without = copied_batch(original, NUMBER, **PLACE, with_ids=False)
    assert not check(without, 1 << 20).columns & MESSAGE_IDS
    assert content(without) == content(copy) == content(original)
    assert has_message_ids(original)
    assert has_message_ids(copy)
    assert not has_message_ids(without)


def test_delivered_messages_become_plain_ones() -> None:
    timed = source(timed=TimedColumn(4, 5, np.array([10, 20, 30])))
    nothing = np.zeros(3, np.int64)
    fired = firing_batch(
        Waiting([Batch(timed)], nothing, np.arange(3), np.arange(3, dtype=np.uint64), np.array([10, 20, 30])),
        topic_id=4,
        queue=5,
        first_sequence=0,
    )
    half = source(half=HalfColumn(4, 5, 0, "group"))
    decided = decided_batch(half, DecidedColumn(7, 8, 0), topic_id=4, queue=5, first_sequence=0)
    for original, column in ((fired, FIRED), (decided, DECIDED)):
        assert Batch(original).header.columns & column
        copy = copied_batch(original, NUMBER, **PLACE)
        assert not check(copy, 1 << 20).columns & EXCLUSIVE_COLUMNS
        assert content(copy) == content(original)


def test_the_end_of_a_copy_has_the_messages_that_are_missing() -> None:
    ids = [message_id_hash(b"%d" % n) for n in range(3)]
    copy = end_of_copy(copied_batch(source(ids=ids), NUMBER, **PLACE), 1)
    header = check(copy, 1 << 20)
    assert (header.count, header.first_sequence, header.topic_id) == (2, 1234, 9)
    assert content(copy) == [column[1:] for column in content(source())]
    assert message_ids(copy, header) == ids[1:]


def test_every_column_is_known_here() -> None:
    """Decide whether a copy keeps a new column."""
    assert ALL_COLUMNS == (1 << 12) - 1
