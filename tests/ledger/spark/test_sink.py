"""Tests that Spark writes each row as one message, also if tasks are killed and queries are started again."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.functions import col, concat, lit, rand

from ledgermq import Producer
from tests.ledger.spark.fixtures import MakeTopic
from tests.ledger.spark.reading import run_to_the_end, stream, table, values, wait_for_messages

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def write(frame: DataFrame, bootstrap: str, **options: str) -> None:
    frame.write.format("ledgermq").option("bootstrap.servers", bootstrap).options(**options).mode("append").save()


def write_stream(frame: DataFrame, bootstrap: str, path: Path, **options: str) -> None:
    """Write the present rows of the stream to the cluster."""
    writer = frame.writeStream.format("ledgermq").option("bootstrap.servers", bootstrap).options(**options)
    run_to_the_end(writer, path)


def test_all_columns_arrive_and_a_key_finds_its_queue(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    first, second = make_topic(4), make_topic(1)
    rows = [
        (first, b"k1", "one", "paid", [("h", bytearray(b"1"))], ["o1", "ann"]),
        (first, b"k1", "two", None, None, None),
        (second, None, "three", None, [], []),
    ]
    schema = (
        "topic STRING, key BINARY, value STRING, tag STRING, headers ARRAY<STRUCT<key STRING, value BINARY>>, "
        "look_up_keys ARRAY<STRING>"
    )
    write(spark.createDataFrame(rows, schema).coalesce(1), bootstrap)
    one, two = table(spark, bootstrap, subscribe=first, includeHeaders="true").orderBy("offset").collect()
    assert (bytes(one.key), bytes(one.value), one.tag, one.headers[0].key) == (b"k1", b"one", "paid", "h")
    assert (bytes(two.value), two.tag, two.headers, two.partition) == (b"two", None, None, one.partition)
    assert (list(map(bytes, one.look_up_keys)), two.look_up_keys) == ([b"o1", b"ann"], None)
    assert values(table(spark, bootstrap, subscribe=second)) == ["three"]


def test_many_rows_arrive_once_in_compressed_batches(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    frame = spark.range(50_000).selectExpr("CAST(id AS STRING) AS value", "CAST(id % 100 AS STRING) AS key")
    write(frame.repartition(3), bootstrap, topic=topic, compression="lz4")
    found = table(spark, bootstrap, subscribe=topic).selectExpr("count(*) n", "count(DISTINCT value) d").first()
    assert found is not None
    assert tuple(found) == (50_000, 50_000)


def killed_in_the_middle(marker: str, bootstrap: str, topic: str) -> object:
    """Return a function that passes rows on, one batch after another. The first process that runs it kills itself
    when some rows are in the topic."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 5 and not os.path.exists(marker):
                wait_for_messages(bootstrap, topic, 1)
                os.close(os.open(marker, os.O_CREAT))
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    return pass_on


def test_a_task_that_is_killed_in_the_middle_doubles_nothing(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, marker = make_topic(2), tmp_path / "killed"
    frame = spark.range(0, 1_000, 1, 1).selectExpr("rpad(CAST(id AS STRING), 3000, ' ') AS value")  # more than buffers
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        dying = frame.mapInArrow(killed_in_the_middle(str(marker), bootstrap, topic), "value STRING")  # type: ignore[arg-type]
        write(dying, bootstrap, topic=topic, rowOrder="arrival")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert marker.exists()
    found = [int(value) for value in values(table(spark, bootstrap, subscribe=topic))]
    assert sorted(found) == list(range(1_000))


def fails_at(value: str, marker: str, bootstrap: str, topic: str, written: int) -> object:
    """Return a function that passes rows on. Until the file `marker` exists, it fails at the row with `value`, after
    other tasks have written `written` messages to `topic`. Spark ends the other tasks of a query that fails."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if value.encode() in batch.column(0).to_pylist() and not os.path.exists(marker):
                wait_for_messages(bootstrap, topic, written)
                raise RuntimeError("dies here")
            yield batch

    return pass_on


def test_a_query_that_dies_between_its_tasks_and_is_started_again_doubles_nothing(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """One task has written its rows, and another task fails in every attempt. Then the query is started again, and
    runs the whole micro-batch again."""
    source, topic, marker = make_topic(2), make_topic(2), tmp_path / "goes on"
    for queue in (0, 1):
        producer.send_many(source, [b"%d-%d" % (queue, number) for number in range(300)], queue=queue)
    rows = stream(spark, bootstrap, subscribe=source).select("value")
    fails = fails_at("1-0", str(marker), bootstrap, topic, written=300)
    passed = rows.mapInArrow(fails, "value BINARY")  # type: ignore[arg-type]
    with pytest.raises(StreamingQueryException, match="dies here"):
        write_stream(passed, bootstrap, tmp_path, topic=topic)
    written = table(spark, bootstrap, subscribe=topic).count()
    assert written == 300  # of the task that did not fail
    marker.touch()
    write_stream(passed, bootstrap, tmp_path, topic=topic)
    expected = sorted(f"{queue}-{number}" for queue in (0, 1) for number in range(300))
    assert values(table(spark, bootstrap, subscribe=topic)) == expected


def test_a_stream_goes_from_topic_to_topic_micro_batch_by_micro_batch(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(2), make_topic(2)
    for part in range(3):
        producer.send_many(source, [b"%d" % number for number in range(100 * part, 100 * part + 100)], key=b"k")
        rows = stream(spark, bootstrap, subscribe=source, maxOffsetsPerTrigger="30")
        marked = rows.select("key", concat(col("value"), lit("!")).alias("value"))
        write_stream(marked, bootstrap, tmp_path, topic=topic)
    kept = table(spark, bootstrap, subscribe=topic).orderBy("offset").collect()
    assert [bytes(row.value).decode() for row in kept] == [f"{number}!" for number in range(300)]  # a key keeps order


def test_a_batch_with_a_name_is_written_once_however_often(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    """Writes the same batch several times, as foreachBatch may do. The rows come in another order each time, as
    after a shuffle."""
    topic = make_topic(2)
    for epoch, seed in ((0, 1), (0, 2), (1, 3)):
        rows = spark.createDataFrame([(str(number),) for number in range(100)], "value STRING").orderBy(rand(seed))
        write(rows.coalesce(1), bootstrap, topic=topic, producer=topic, epoch=str(epoch))
    twice = sorted([str(number) for number in range(100)] * 2)  # of epoch 0 once, and of epoch 1
    assert values(table(spark, bootstrap, subscribe=topic)) == twice


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ("'x' AS body", {"topic": "T"}, 'column "value" is missing'),
        ("1 AS value", {"topic": "T"}, '"value" has type int and must be binary or string'),
        ("'x' AS value, 'y' AS tags", {"topic": "T"}, '"tags" cannot be written'),
        ("'x' AS value", {}, 'set the option "topic", or add a column "topic"'),
        ("'x' AS value", {"topic": "nowhere"}, 'option "topic" is "nowhere"'),
        ("CAST(NULL AS STRING) AS value", {"topic": "T"}, '"value" is null in 1 rows'),
        ("'x' AS value, 'nowhere' AS topic", {}, 'no topic "nowhere"'),
        ("'x' AS value", {"topic": "T", "servers": "127.0.0.1:1"}, "bootstrap.servers.*127.0.0.1:1"),
        ("space(5000000) AS value", {"topic": "T"}, "5000000 bytes.*over the cluster's limit"),
    ],
)
def test_what_cannot_be_written_is_told(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, columns: str, options: dict[str, str], told: str
) -> None:
    topic = make_topic(1)
    given = {name: topic if value == "T" else value for name, value in options.items()}
    frame = spark.range(0, 1, 1, 1).selectExpr(*columns.split(", "))
    writer = frame.write.format("ledgermq").options(**{"servers": bootstrap, **given}).mode("append")
    with pytest.raises(PySparkException, match=rf"(?s){told}"):
        writer.save()
    assert table(spark, bootstrap, subscribe=topic).count() == 0


def test_a_log_is_not_overwritten(spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(1)
    frame = spark.range(1).selectExpr("'x' AS value")
    options = {"servers": bootstrap, "topic": topic}
    with pytest.raises(PySparkException, match='mode "overwrite"'):
        frame.write.format("ledgermq").options(**options).mode("overwrite").save()
    counts = stream(spark, bootstrap, subscribe=topic).groupBy("key").count().selectExpr("CAST(count AS STRING) value")
    with pytest.raises(PySparkException, match='outputMode "complete"'):
        run_to_the_end(counts.writeStream.format("ledgermq").options(**options).outputMode("complete"), tmp_path)


def test_a_micro_batch_that_has_more_rows_than_before_is_refused_and_not_taken_for_written(
    spark: SparkSession, bootstrap: str, producer: Producer, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """An older copy of a checkpoint plans a micro-batch again, with rows that came later."""
    source, topic = make_topic(1), make_topic(1)
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "copy"
    for number in range(2):
        producer.send(source, b"%d" % number)
        write_stream(stream(spark, bootstrap, subscribe=source), bootstrap, tmp_path, topic=topic)
        if number == 0:
            shutil.copytree(checkpoint, copy)
    producer.send(source, b"2")
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    with pytest.raises(StreamingQueryException, match="older copy of its checkpoint"):
        write_stream(stream(spark, bootstrap, subscribe=source), bootstrap, tmp_path, topic=topic)
    assert values(table(spark, bootstrap, subscribe=topic)) == ["0", "1"]
