"""Tests of the batches that a broker makes of messages that waited."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.batch import (
    Batch,
    BatchHeader,
    Codec,
    TimedColumn,
    Waiting,
    check,
    copied_identities,
    copying_batch,
    encode,
    fired_column,
    firing_batch,
    key_hashes,
    tag_hashes,
    timed_column,
)
from ledger.batch.header import look_up_hashes, seal
from ledger.errors import CorruptBatchError, InvalidArgumentError
from ledger.timed import DELIVER_AT
from tests.ledger.batch.test_batch_round_trip import messages

LIMIT = 4 << 20
WHERE: dict[str, Any] = {"topic_id": 7, "queue": 3, "first_sequence": 50}


def timed_batch(given_messages: dict[str, Any], codec: Codec = Codec.NONE) -> Batch:
    count = len(given_messages["values"])
    column = TimedColumn(7, 3, np.arange(count, dtype=np.int64))
    return Batch(
        encode(
            **given_messages, timed=column, codec=codec, topic_id=1, queue=0, producer_id=9, epoch=1, first_sequence=4,
            base_timestamp_ms=1_700_000_000_000,
        )
    )  # fmt: skip


def waiting(batches: list[Batch], chosen: list[tuple[int, int]]) -> Waiting:
    sources, places = (np.array(column, np.int64) for column in zip(*chosen, strict=True))
    count = len(chosen)
    return Waiting(
        batches, sources, places, np.arange(100, 100 + count, dtype=np.uint64), np.arange(count, dtype=np.int64) * 10
    )


@st.composite
def choices(draw: st.DrawFn) -> tuple[list[Batch], list[tuple[int, int]]]:
    """Generate timed batches, and messages of them in any order."""
    given_batches = draw(st.lists(st.tuples(messages(), st.sampled_from(Codec)), min_size=1, max_size=4))
    batches = [timed_batch(each, codec) for each, codec in given_batches]
    every = [(source, place) for source, batch in enumerate(batches) for place in range(len(batch))]
    return batches, draw(st.lists(st.sampled_from(every), min_size=1, max_size=60))


def rows(batch: Batch) -> list[tuple[Any, ...]]:
    columns = (
        batch.values(), batch.keys(), batch.tags(), batch.headers(), batch.timestamps_ms(), batch.look_up_keys()
    )  # fmt: skip
    return list(zip(*columns, strict=True))


@given(choices(), st.sampled_from(Codec))
def test_a_firing_batch_has_the_picked_messages_in_their_order(
    chosen: tuple[list[Batch], list[tuple[int, int]]], codec: Codec
) -> None:
    batches, places = chosen
    data = firing_batch(waiting(batches, places), **WHERE, codec=codec)
    header = check(data, LIMIT)
    assert (header.topic_id, header.queue, header.producer_id, header.first_sequence) == (7, 3, 0, 50)
    assert timed_column(data) is None
    assert copied_identities(data) is None
    fired = fired_column(data)
    assert fired is not None
    assert fired.identities.tolist() == list(range(100, 100 + len(places)))
    assert fired.times_ms.tolist() == [10 * number for number in range(len(places))]
    wanted = [rows(batches[source])[place] for source, place in places]
    assert rows(Batch(data)) == [
        (*row[:3], (*row[3], (DELIVER_AT, b"%d" % (10 * number))), *row[4:]) for number, row in enumerate(wanted)
    ]
    again = encode([b"" for _ in wanted], keys=[row[1] for row in wanted], tags=[row[2] for row in wanted],
                   look_up_keys=[row[5] for row in wanted], topic_id=7, queue=3, producer_id=0,
                   epoch=0, first_sequence=0, base_timestamp_ms=0)  # fmt: skip
    for hashes in (key_hashes, tag_hashes, look_up_hashes):
        found, expected = hashes(data), hashes(again)
        assert (found is None and expected is None) or np.array_equal(found, expected)  # type: ignore[arg-type]


@given(choices())
def test_a_copying_batch_has_the_messages_as_they_wait(chosen: tuple[list[Batch], list[tuple[int, int]]]) -> None:
    batches, places = chosen
    data = copying_batch(
        waiting(batches, places), topic_id=1, queue=2, first_sequence=5, target_topic_id=7, target_queue=3
    )
    header = check(data, LIMIT)
    assert (header.topic_id, header.queue, header.producer_id) == (1, 2, 0)
    column, identities = timed_column(data), copied_identities(data)
    assert column is not None
    assert identities is not None
    assert (column.topic_id, column.queue, column.times_ms.tolist()) == (7, 3, [10 * n for n in range(len(places))])
    assert identities.tolist() == list(range(100, 100 + len(places)))
    assert rows(Batch(data)) == [rows(batches[source])[place] for source, place in places]


def test_a_header_of_this_name_from_the_producer_is_replaced() -> None:
    source = timed_batch({"values": [b"x"], "headers": [[(DELIVER_AT, b"1"), ("a", b"b"), (DELIVER_AT, b"2")]]})
    fired = Batch(firing_batch(waiting([source], [(0, 0)]), **WHERE))
    assert fired.headers() == [(("a", b"b"), (DELIVER_AT, b"0"))]


def test_bytes_that_are_not_utf8_pass_through_as_they_would_without_a_delivery_time() -> None:
    data = encode([b"x"], tags=["tag"], headers=[[("name", b"v")]], timed=TimedColumn(7, 3, np.zeros(1, np.int64)),
                  topic_id=1, queue=0, producer_id=9, epoch=1, first_sequence=4, base_timestamp_ms=0)  # fmt: skip
    header = BatchHeader.parse(data)
    spoilt = data[header.payload_position :].replace(b"tag", b"\xff\xfe\xfd").replace(b"name", b"\xffame")
    source = Batch(seal(header.pack(), data[64 : header.payload_position], spoilt))
    fired = firing_batch(waiting([source], [(0, 0)]), **WHERE)
    assert b"\xff\xfe\xfd" in fired
    assert b"\xffame" in fired
    assert Batch(fired).values() == [b"x"]


@pytest.mark.parametrize(
    ("place", "kind", "sentence"),
    [
        ((0, 1), CorruptBatchError, "A batch of 1 messages has no message 1"),
        ((0, -1), CorruptBatchError, "has no message -1"),
        ((1, 0), InvalidArgumentError, "There is no batch 1"),
        ((-1, 0), InvalidArgumentError, "There is no batch -1"),
    ],
)
def test_places_that_do_not_exist_are_refused(place: tuple[int, int], kind: type[Exception], sentence: str) -> None:
    source = timed_batch({"values": [b"x"]})
    with pytest.raises(kind, match=sentence):
        firing_batch(waiting([source], [place]), **WHERE)


def test_columns_of_different_lengths_are_refused() -> None:
    source = timed_batch({"values": [b"x"]})
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    for columns in ((two, one, one), (one, two, one), (one, one, two)):
        sources, identities, times = columns
        with pytest.raises(InvalidArgumentError, match="was given 2"):
            firing_batch(Waiting([source], sources, one, identities.astype(np.uint64), times), **WHERE)
    with pytest.raises(InvalidArgumentError, match="cannot have 0 messages"):
        firing_batch(Waiting([source], one[:0], one[:0], np.zeros(0, np.uint64), one[:0]), **WHERE)
