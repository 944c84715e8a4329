"""Tests that batches of all kinds become record batches with the same messages, without a Python loop over
messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from ledger.batch import Batch, Codec, cut, encode
from ledger.errors import CorruptBatchError
from ledger.spark.source import arrow_columns
from ledger.spark.source.row_gatherer import MAX_ROWS, Origin, RowGatherer
from ledger.spark.source.schema import source_schema

SCHEMA = to_arrow_schema(source_schema(include_headers=True), timezone="UTC")
ORIGIN = Origin(term=3, replica="2")
PLACE: dict[str, Any] = {"topic_id": 1, "queue": 0, "producer_id": 2, "epoch": 0, "first_sequence": 0}


def batch(values: list[bytes], *, codec: Codec = Codec.NONE, **columns: Any) -> Batch:
    return Batch(encode(values, base_timestamp_ms=1_000, codec=codec, **PLACE, **columns))


def gathered(
    *batches: Batch, start: int = 0, end: int = 1 << 40, tags: frozenset[str] | None = None, schema: pa.Schema = SCHEMA
) -> list[dict[str, Any]]:
    gatherer = RowGatherer(schema, "orders", 0, tags)
    offset, found = 0, []
    for each in batches:
        found += list(gatherer.add(each, offset, start, end, ORIGIN))
        offset += len(each)
    found += list(gatherer.flush())
    assert all(each.schema.equals(schema) for each in found)
    for each in found:
        each.validate(full=True)
    return [row for each in found for row in each.to_pylist()]


FULL: dict[str, Any] = {
    "keys": [b"k1", None, b"\xff"],
    "tags": [None, "paid", "\N{GREEK SMALL LETTER LAMDA}"],
    "headers": [[("a", b"1"), ("b", b"")], [], [("c", b"2")]],
    "look_up_keys": [[b"o1", b"ann"], [], [b"o3"]],
    "timestamps_ms": [1_000, 999, 2_500],
}


@pytest.mark.parametrize("codec", list(Codec))
def test_every_column_is_what_was_sent(codec: Codec) -> None:
    first, second, third = gathered(batch([b"one", b"", b"three"], codec=codec, **FULL))
    assert [first["value"], second["value"], third["value"]] == [b"one", b"", b"three"]
    assert [first["key"], second["key"], third["key"]] == [b"k1", None, b"\xff"]
    assert [first["tag"], second["tag"], third["tag"]] == FULL["tags"]
    assert first["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": b""}]
    assert second["headers"] is None
    assert (first["look_up_keys"], second["look_up_keys"]) == ([b"o1", b"ann"], None)
    assert [each["timestamp"].timestamp() for each in (first, second, third)] == [1.0, 0.999, 2.5]
    assert [first["keys"], second["keys"], third["keys"]] == [["k1"], None, None]  # \xff is no text
    assert {(each["topic"], each["partition"], each["term"], each["replica"]) for each in (first, second, third)} == {
        ("orders", 0, 3, "2")
    }
    assert [each["offset"] for each in (first, second, third)] == [0, 1, 2]


def test_a_timestamp_of_no_date_becomes_the_nearest_that_has_one() -> None:
    (alone,) = gathered(batch([b"a"], timestamps_ms=[1 << 62]))
    same = gathered(Batch(encode([b"a", b"b"], base_timestamp_ms=1 << 62, **PLACE)))
    among = gathered(batch([b"a", b"b"], timestamps_ms=[5, -(1 << 62)]))
    assert [row["timestamp"].year for row in (alone, *same, *among)] == [9999, 9999, 9999, 1970, 1]


def test_batches_with_and_without_columns_come_out_together() -> None:
    rows = gathered(batch([b"a", b"b"]), batch([b"c", b"d", b"e"], **FULL), batch([b"f"]))
    assert [row["value"] for row in rows] == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert [row["key"] for row in rows] == [None, None, b"k1", None, b"\xff", None]
    assert [row["keys"] for row in rows] == [None, None, ["k1"], None, None, None]
    assert [row["offset"] for row in rows] == list(range(6))


def test_only_what_lies_in_the_range_comes_out() -> None:
    rows = gathered(batch([b"a", b"b"]), batch([b"c", b"d", b"e"], **FULL), start=1, end=4)
    assert [(row["offset"], row["value"], row["key"]) for row in rows] == [
        (1, b"b", None),
        (2, b"c", b"k1"),
        (3, b"d", None),
    ]


def test_a_tag_leaves_its_messages_alone() -> None:
    rows = gathered(batch([b"a"]), batch([b"c", b"d", b"e"], **FULL), tags=frozenset({"paid"}))
    assert [row["value"] for row in rows] == [b"d"]


def test_columns_that_were_not_asked_for_are_not_made() -> None:
    schema = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    assert gathered(batch([b"a"], keys=[b"k"]), schema=schema) == [{"offset": 0, "value": b"a"}]


def test_small_batches_come_together_and_never_more_than_there_is_room_for() -> None:
    gatherer = RowGatherer(pa.schema([("value", pa.binary())]), "orders", 0)
    sizes = []
    for at in range(200):
        sizes += [each.num_rows for each in gatherer.add(batch([b"x"] * 1000), 1000 * at, 0, 1 << 40, ORIGIN)]
    sizes += [each.num_rows for each in gatherer.flush()]
    assert sum(sizes) == 200_000
    assert len(sizes) == 4
    assert max(sizes) < MAX_ROWS + 1000


def test_values_are_views_of_the_batch() -> None:
    whole = batch([b"abc", b"", b"defgh"])
    array = arrow_columns.values(whole)
    data = np.frombuffer(array.buffers()[2], np.uint8)
    assert np.shares_memory(data, whole.bodies)


def test_a_tag_that_is_no_text_is_told() -> None:
    data = bytearray(
        encode([b"a"], tags=["tag"], topic_id=1, queue=0, producer_id=2, epoch=0, first_sequence=0, base_timestamp_ms=0)
    )
    data[data.rindex(b"tag")] = 0xFF
    with pytest.raises(CorruptBatchError, match="UTF-8"):
        arrow_columns.tags(Batch(bytes(data), check_crc=False))


def test_rows_of_a_cut_batch_have_the_offsets_of_the_stored_batch() -> None:
    part = Batch(cut(batch([b"%d" % number for number in range(10)], tags=["a"] * 10), [1, 4, 6, 9]))
    rows = gathered(part, start=4, end=9, tags=frozenset("a"))
    assert [(row["offset"], row["value"]) for row in rows] == [(4, b"4"), (6, b"6")]
