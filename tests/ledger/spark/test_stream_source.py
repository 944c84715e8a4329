"""Tests topics as streams: each message comes once, also if the query dies and is started again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from ledgermq import Admin, Producer
from tests.ledger.spark.fixtures import MakeTopic
from tests.ledger.spark.reading import copy, eventually, run_to_the_end, stream, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_trigger_takes_about_as_much_as_it_may_and_available_now_ends_with_what_was_there(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    for number in range(40):
        producer.send(topic, b"%02d" % number, queue=0 if number < 30 else 1)
    query = copy(stream(spark, bootstrap, subscribe=topic, maxOffsetsPerTrigger=10), tmp_path)
    sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert sum(sizes) == 40
    assert len(sizes) >= 4
    assert max(sizes) <= 12
    assert values(spark.read.parquet(str(tmp_path / "out"))) == [f"{number:02}" for number in range(40)]
    assert query.lastProgress is not None
    (source,) = query.lastProgress.sources
    assert json.loads(source.endOffset) == {topic: {"0": 30, "1": 10}}  # as Kafka's source has it


def test_a_query_that_is_started_again_goes_on_where_it_was(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(1)
    for part in (range(5), range(5, 12)):
        producer.send_many(topic, [b"%02d" % number for number in part])
        copy(stream(spark, bootstrap, subscribe=topic), tmp_path)
    assert values(spark.read.parquet(str(tmp_path / "out"))) == [f"{number:02}" for number in range(12)]


def test_a_micro_batch_that_failed_has_the_same_messages_again(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Messages that arrived after the failure are in a later micro-batch."""
    topic = make_topic(1)
    producer.send_many(topic, [b"a", b"b"])
    seen: list[tuple[int, list[str]]] = []

    def note(frame: DataFrame, number: int) -> None:
        seen.append((number, values(frame)))
        if len(seen) == 1:
            producer.send(topic, b"c")
            raise RuntimeError("dies here")

    def run() -> None:
        run_to_the_end(stream(spark, bootstrap, subscribe=topic).writeStream.foreachBatch(note), tmp_path)

    with pytest.raises(StreamingQueryException, match="dies here"):
        run()
    run()
    assert seen == [(0, ["a", "b"]), (0, ["a", "b"]), (1, ["c"])]


def test_a_running_stream_sees_new_messages_new_queues_and_new_topics(
    spark: SparkSession, bootstrap: str, admin: Admin, producer: Producer, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    source = stream(spark, bootstrap, subscribePattern=f"{topic}(-more)?", startingOffsets="latest")
    query = source.writeStream.format("memory").queryName("seen").outputMode("append").start()
    try:
        eventually(lambda: query.lastProgress is not None, "the query has looked once")
        producer.send(topic, b"new message")
        admin.alter_topic(topic, 2)
        producer.send(topic, b"new queue", queue=1)
        admin.create_topic(f"{topic}-more", 1)
        producer.send(f"{topic}-more", b"new topic")
        eventually(lambda: spark.table("seen").count() >= 3, "all three have come")
        assert values(spark.table("seen")) == ["new message", "new queue", "new topic"]
    finally:
        query.stop()


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_is_made_anew_is_a_loss_that_is_told(
    spark: SparkSession,
    bootstrap: str,
    admin: Admin,
    producer: Producer,
    make_topic: MakeTopic,
    tmp_path: Path,
    fails: bool,
) -> None:
    topic = make_topic(1)
    producer.send_many(topic, [b"1", b"2", b"3"])
    source = stream(spark, bootstrap, subscribe=topic, failOnDataLoss=str(fails))
    copy(source, tmp_path)
    admin.delete_topic(topic)
    admin.create_topic(topic, 1)
    with Producer(bootstrap) as another:
        another.send(topic, b"anew")
    if fails:
        with pytest.raises(StreamingQueryException, match=r"(?s)offsets 3 to 1.*created again.*failOnDataLoss"):
            copy(source, tmp_path)
        return
    copy(source, tmp_path)
    with Producer(bootstrap) as another:
        another.send(topic, b"later")
    copy(source, tmp_path)
    assert values(spark.read.parquet(str(tmp_path / "out"))) == ["1", "2", "3", "later"]
