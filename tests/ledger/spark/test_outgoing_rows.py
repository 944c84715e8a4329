"""Tests outgoing rows: the same rows make the same batches, in any order of the rows."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from ledger.client.connection.route_table import RoutedTopic
from ledger.errors import InvalidArgumentError, MessageTooLargeError
from ledger.hashing import queue_of
from ledger.spark.sink.outgoing_rows import BATCH_BYTES, Slice, check_sizes, slices, tables

TOPIC = RoutedTopic("orders", 1, (0, 1, 0), created_ms=0)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows(count: int) -> list[dict[str, Any]]:
    """Generate rows with and without keys, tags and headers. Some rows are equal."""
    return [
        {
            "value": b"%d" % (number // 2),
            "key": b"k%d" % (number % 5) if number % 3 else None,
            "tag": "odd" if number % 2 else None,
            "headers": [{"key": "n", "value": b"%d" % number}] if number % 4 == 0 else None,
            "look_up_keys": [b"o%d" % number, b"ann"] if number % 6 == 0 else None,
        }
        for number in range(count)
    ]


def batches_of(records: list[dict[str, Any]], each: int) -> list[pa.RecordBatch]:
    kinds = {"value": pa.binary(), "key": pa.binary(), "tag": pa.string(), "headers": HEADERS}
    kinds["look_up_keys"] = pa.list_(pa.binary())
    schema = pa.schema(list(kinds.items()))
    return [
        pa.RecordBatch.from_pylist(records[start : start + each], schema=schema)
        for start in range(0, len(records), each)
    ]


def sent(batches: list[pa.RecordBatch], order: str = "key") -> list[Slice]:
    return [
        each
        for table in tables(batches, "orders", order, 1 << 20)
        for each in slices(table, lambda _: TOPIC, first_queue=1)
    ]


@pytest.mark.parametrize("order", ["key", "content"])
def test_rows_without_a_key_are_sent_in_one_order_however_they_come(order: str) -> None:
    records = [row for row in rows(200) if row["key"] is None]
    expected = [(each.queue, each.content()) for each in sent(batches_of(records, 40), order)]
    for seed in range(5):
        shuffled = records.copy()
        random.Random(seed).shuffle(shuffled)
        assert [(each.queue, each.content()) for each in sent(batches_of(shuffled, 17), order)] == expected


def test_rows_of_one_key_stay_as_they_came_and_keys_are_sorted() -> None:
    records = [row for row in rows(200) if row["key"] is not None]
    given = sent(batches_of(records, 40))
    for key in {row["key"] for row in records}:
        came = [row["value"] for row in records if row["key"] == key]
        contents = [each.content() for each in given if each.queue == queue_of(key, 3)]
        assert [
            value for each in contents for value, its in zip(each.values, each.keys or (), strict=True) if its == key
        ] == came
    by_key = sorted(records, key=lambda row: row["key"])  # as if keys had come one after the other
    assert [each.content() for each in sent(batches_of(by_key, 7))] == [each.content() for each in given]


def test_by_content_rows_of_one_key_are_sorted_too() -> None:
    records = rows(200)
    backwards = records[::-1]
    assert [each.content() for each in sent(batches_of(records, 40), "content")] == [
        each.content() for each in sent(batches_of(backwards, 40), "content")
    ]


def test_in_order_of_arrival_nothing_waits_for_what_comes_later() -> None:
    def endless() -> Any:
        yield from batches_of([{"value": b"b"}, {"value": b"a"}], 2)
        raise AssertionError("asked for more than was needed")

    table = next(tables(endless(), "orders", "arrival", 1))
    assert table["value"].to_pylist() == [b"b", b"a"]


def test_every_row_is_sent_once_with_all_that_it_has() -> None:
    records = rows(500)
    found = []
    for each in sent(batches_of(records, 100)):
        content = each.content()
        nothing = [None] * len(content.values)
        columns: tuple[list[Any], ...] = (content.values, content.keys or nothing, content.tags or nothing)
        columns += (content.headers or nothing, content.look_up_keys or nothing)
        found += list(zip(*columns, strict=True))
    wanted = [
        (
            row["value"],
            row["key"],
            row["tag"],
            tuple((pair["key"], pair["value"]) for pair in row["headers"] or ()),
            tuple(row["look_up_keys"] or ()),
        )
        for row in records
    ]
    assert sorted((v, k, t, h or (), m or ()) for v, k, t, h, m in found if k) == sorted(
        each for each in wanted if each[1]
    )
    assert len(found) == len(wanted)


def test_rows_without_a_key_go_round_the_queues_a_batch_to_each() -> None:
    records = [{"value": b"%06d" % number + bytes(1000)} for number in range(1000)]
    given = sent(batches_of(records, 1000), "arrival")
    assert [each.queue for each in given] == [1, 2, 0, 1]
    assert all(sum(map(len, each.content().values)) <= BATCH_BYTES for each in given)


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ({"value": None}, "value"),
        ({"value": b"", "headers": [{"key": None, "value": b""}]}, "headers"),
        ({"value": b"", "tag": ""}, "tag"),
        ({"value": b"", "look_up_keys": [None]}, "look-up key"),
    ],
)
def test_what_no_message_may_have_is_refused(record: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        [each.content() for each in sent(batches_of([record], 1))]


def test_what_must_be_sorted_has_a_bound() -> None:
    with pytest.raises(InvalidArgumentError, match="maxPartitionBytes"):
        list(tables(batches_of(rows(200), 10), "orders", "key", 1000))
    assert list(tables(batches_of(rows(200), 10), "orders", "arrival", 1000))


def test_a_row_that_is_too_large_is_refused_before_anything_is_sent() -> None:
    (table,) = tables(batches_of([{"value": bytes(100)}], 1), "orders", "key", 1 << 20)
    check_sizes(table, 100)
    with pytest.raises(MessageTooLargeError, match="100 bytes"):
        check_sizes(table, 99)
