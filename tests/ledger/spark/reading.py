"""Short functions for reading and writing topics in the tests of Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ledgermq import Admin


def table(spark: SparkSession, bootstrap: str, **options: Any) -> DataFrame:
    """Return a table of topics, with these options."""
    return spark.read.format("ledgermq").option("bootstrap.servers", bootstrap).options(**options).load()


def stream(spark: SparkSession, bootstrap: str, **options: Any) -> DataFrame:
    """Return a stream of topics, with these options. By default the stream starts with the first message."""
    reader = spark.readStream.format("ledgermq").option("bootstrap.servers", bootstrap)
    return reader.options(**{"startingOffsets": "earliest", **options}).load()


def values(frame: DataFrame) -> list[str]:
    """Return the values of all rows as texts, sorted."""
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def run_to_the_end(writer: DataStreamWriter, path: Path, attempts: int = 4) -> StreamingQuery:
    """Run a query over the present messages, with its checkpoint below `path`. Spark gives a source's process ten
    seconds to start, which may be too short on a busy machine. In that case run the query again."""
    query = writer.option("checkpointLocation", str(path / "checkpoint")).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(200)
    except StreamingQueryException as error:
        if "failed to connect back" not in str(error) or attempts == 1:
            raise
        return run_to_the_end(writer, path, attempts - 1)
    return query


def copy(frame: DataFrame, path: Path) -> StreamingQuery:
    """Write the present messages of a stream to `path`/out, as Parquet."""
    return run_to_the_end(frame.writeStream.format("parquet").option("path", str(path / "out")), path)


def eventually(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait until `holds()` is true. Fail after `seconds` with a message that names `what`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def wait_for_messages(bootstrap: str, topic: str, count: int) -> None:
    """Wait until the topic has `count` messages."""
    with Admin(bootstrap) as admin:

        def all_there() -> bool:
            return sum(each.end_offset for each in admin.describe_topic(topic).offsets) >= count

        eventually(all_there, f"{topic} has {count} messages")
