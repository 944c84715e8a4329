"""Tests topics as tables, against real nodes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from ledgermq import Producer
from tests.ledger.spark.fixtures import MakeTopic
from tests.ledger.spark.reading import table, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKAS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
OURS = ["tag", "keys", "term", "replica", "look_up_keys"]


def test_the_columns_are_kafkas_then_ours_and_hold_what_was_sent(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    producer.send(
        topic,
        b"one",
        key=b"k",
        tag="paid",
        headers=[("h", b"1")],
        timestamp_ms=1_700_000_000_123,
        look_up_keys=["o1", "ann"],
    )
    producer.send(topic, b"two")
    frame = table(spark, bootstrap, subscribe=topic)
    assert frame.columns == [*KAFKAS, *OURS]
    with_headers = table(spark, bootstrap, subscribe=topic, includeHeaders="true")
    assert with_headers.columns == [*KAFKAS, "headers", *OURS]
    one, two = with_headers.orderBy("offset").collect()
    assert (bytes(one.key), bytes(one.value), one.topic, one.partition, one.offset) == (b"k", b"one", topic, 0, 0)
    assert (one.timestamp.timestamp(), one.timestampType, one.tag, one["keys"]) == (1_700_000_000.123, 0, "paid", ["k"])
    assert [(header.key, bytes(header.value)) for header in one.headers] == [("h", b"1")]
    assert one.replica in ("1", "2", "3")
    assert (list(map(bytes, one.look_up_keys)), two.look_up_keys) == ([b"o1", b"ann"], None)
    assert one.term >= 1
    assert (two.key, two.tag, two["keys"], two.headers) == (None, None, None, None)


def test_a_part_is_read_by_offsets_by_times_and_by_tag_in_any_number_of_tasks(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    for number in range(20):
        producer.send(topic, b"%02d" % number, queue=number % 2, tag="low" if number < 10 else "high")
    time.sleep(0.002)  # append times are in whole milliseconds
    later = time.time_ns() // 1_000_000
    time.sleep(0.002)
    producer.send(topic, b"later", queue=0)

    def read(**options: Any) -> list[str]:
        return values(table(spark, bootstrap, subscribe=topic, **options))

    everything = [f"{number:02}" for number in range(20)] + ["later"]
    assert read() == everything
    offsets = {"startingOffsets": {"0": 8, "1": -2}, "endingOffsets": {"0": -1, "1": 3}}
    given = {name: json.dumps({topic: queues}) for name, queues in offsets.items()}
    assert read(**given) == ["01", "03", "05", "16", "18", "later"]
    assert read(startingTimestamp=later, startingOffsetsByTimestampStrategy="latest") == ["later"]
    assert read(endingTimestamp=later) == everything[:-1]
    assert read(tag="high") == everything[10:20]
    assert values(table(spark, bootstrap, assign=json.dumps({topic: [1]}))) == everything[1:20:2]
    split = table(spark, bootstrap, subscribe=topic, minPartitions=7)
    assert split.rdd.getNumPartitions() >= 7
    assert values(split) == everything


def test_replicas_can_be_chosen_and_all_of_them_compared(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    producer.send_many(topic, [b"%d" % number for number in range(500)])
    rows = (
        table(spark, bootstrap, subscribe=topic, replica="all")
        .groupBy("partition", "offset")
        .agg({"replica": "count", "value": "approx_count_distinct"})
    )
    assert {tuple(row)[2:] for row in rows.collect()} == {(3, 1)}
    assert {row.replica for row in table(spark, bootstrap, subscribe=topic, replica="2").collect()} == {"2"}
    assert len(values(table(spark, bootstrap, subscribe=topic, replica="any"))) == 500


def test_several_topics_and_patterns_and_a_schema_of_ones_own(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic
) -> None:
    first, second, other = make_topic(1), make_topic(2), make_topic(1)
    for topic in (first, second, other):
        producer.send(topic, topic.encode())
    assert values(table(spark, bootstrap, subscribe=f"{first}, {second}")) == sorted([first, second])
    pattern = f"({first}|{second})"
    reader = spark.read.format("ledgermq").option("servers", bootstrap).option("subscribePattern", pattern)
    frame = reader.schema("offset LONG, value BINARY").load()
    assert frame.columns == ["offset", "value"]
    assert values(frame) == sorted([first, second])
    with pytest.raises(PySparkException, match=r'"value" has type binary, not string'):
        reader.schema("value STRING").load().count()


def test_an_empty_topic_is_an_empty_table(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    assert table(spark, bootstrap, subscribe=make_topic(3)).count() == 0


def test_a_large_topic_comes_whole_and_once(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic
) -> None:
    """The topic needs many fetch answers, and its batches are larger than the ranges of the tasks."""
    topic = make_topic(1)
    producer.send_many(topic, [b"%d" % number + bytes(300) for number in range(40_000)])
    frame = table(spark, bootstrap, subscribe=topic, minPartitions=3)
    found = frame.selectExpr("count(*) n", "count(DISTINCT offset) d", "min(offset) a", "max(offset) z").first()
    assert found is not None
    assert tuple(found) == (40_000, 40_000, 0, 39_999)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribe": "nowhere"}, r'option "subscribe" is "nowhere".*no topic'),
        ({"subscribe": "T", "startingOffsets": '{"T": {"0": 99}}'}, r"startingOffsets.*99.*0 to 1.*failOnDataLoss"),
        ({"subscribe": "T", "startingOffsets": '{"T": {"1": 0}}'}, r"startingOffsets.*queue 0"),
        ({"subscribe": "T", "replica": "9"}, r'option "replica" is "9".*1, 2, 3'),
        ({"assign": '{"T": [5]}'}, r'option "assign" names queue 5'),
        ({"subscribe": "T", "servers": "127.0.0.1:1"}, r'bootstrap.servers" is "127.0.0.1:1".*cluster runs'),
        ({"subscribe": "T", "startingTimestamp": "4000000000000"}, r"appended at the starting time.*latest"),
    ],
)
def test_what_cannot_be_read_is_told_by_option_and_value(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic, options: dict[str, str], told: str
) -> None:
    topic = make_topic(1)
    producer.send(topic, b"one")
    given = {name: value.replace('"T"', f'"{topic}"') if value != "T" else topic for name, value in options.items()}
    with pytest.raises(PySparkException, match=rf"(?s){told}"):
        spark.read.format("ledgermq").options(**{"servers": bootstrap, **given}).load().count()


def test_offsets_that_are_gone_are_passed_over_where_that_is_wanted(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    producer.send(topic, b"one")
    beyond = json.dumps({topic: {"0": 99}})
    assert table(spark, bootstrap, subscribe=topic, startingOffsets=beyond, failOnDataLoss="false").count() == 0
