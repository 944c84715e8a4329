"""Short ways to say what is read, for the tests here."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter


def table(spark: SparkSession, bootstrap: str, **options: Any) -> DataFrame:
    """What is in topics."""
    return spark.read.format("ledgermq").option("bootstrap.servers", bootstrap).options(**options).load()


def stream(spark: SparkSession, bootstrap: str, **options: Any) -> DataFrame:
    """The same as a stream, from the first message on unless the options say otherwise."""
    reader = spark.readStream.format("ledgermq").option("bootstrap.servers", bootstrap)
    return reader.options(**{"startingOffsets": "earliest", **options}).load()


def values(frame: DataFrame) -> list[str]:
    """The values as texts, sorted."""
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def run_to_the_end(writer: DataStreamWriter, path: Path, attempts: int = 4) -> StreamingQuery:
    """Write what there is now, with the checkpoint below `path`. Spark gives a source's process ten seconds to start,
    which is not enough where the machine has much else to do: then once more."""
    query = writer.option("checkpointLocation", str(path / "checkpoint")).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(200)
    except StreamingQueryException as error:
        if "failed to connect back" not in str(error) or attempts == 1:
            raise
        return run_to_the_end(writer, path, attempts - 1)
    return query


def copy(frame: DataFrame, path: Path) -> StreamingQuery:
    """Write what there is now of a stream to `path`/out, as Parquet."""
    return run_to_the_end(frame.writeStream.format("parquet").option("path", str(path / "out")), path)


def eventually(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait until it does."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)
