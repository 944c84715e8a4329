"""Measures how many rows per second the Spark source reads on each core, compared with a source that yields one row at
a time.

    .venv/bin/python -m bench.clients.spark_source [--json] [--directory PATH] [--rows 4000000] [--rounds 3]

Spark with `local[1]` reads a topic of 128-byte messages from three local nodes and counts the rows. Three sources read
the topic: the format "ledgermq", the same format with `.schema("value BINARY")`, and a source written as in Spark's
documentation. The last source iterates over a consumer and yields a tuple for each message. The source that yields
tuples reads only a tenth of the rows, because it is slow. The first round of each source is a warm-up and is not
counted. `seconds` is wall-clock time. `cpu_seconds` is the processor time of the JVM and its Python workers. On a
machine that also runs the nodes, `cpu_seconds` is more reliable than `seconds`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from bench.local_cluster import QUEUES, TOPIC, fill, fresh_cluster
from bench.tables import options, show
from cluster.process_use import cpu_s
from ledger.spark.session import spark_session
from ledgermq import Admin, Consumer

MESSAGE_BYTES = 128
COLUMNS = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"


@dataclass(frozen=True, slots=True)
class SourceFigures:
    source: str
    rows: int
    seconds: float
    cpu_seconds: float
    rows_per_s: float
    rows_per_cpu_s: float
    mib_per_s: float
    of_row_at_a_time: float


class RowAtATime(DataSource):
    """A Spark source as a user would write it: it iterates over a consumer and yields a tuple for each message."""

    @classmethod
    def name(cls) -> str:
        return "row-at-a-time"

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: object) -> DataSourceReader:
        return _RowReader(dict(self.options))


class _RowReader(DataSourceReader):
    def __init__(self, given: dict[str, str]) -> None:
        self._given = given

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(queue) for queue in range(QUEUES)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        from datetime import UTC, datetime

        left = int(self._given["rows"]) // QUEUES
        servers, topic = self._given["servers"], self._given["subscribe"]
        with Consumer(topic, bootstrap_servers=servers, start="earliest") as consumer:
            consumer.pause(*((topic, queue) for queue in range(QUEUES) if queue != partition.value))
            for message in consumer:
                moment = datetime.fromtimestamp(message.timestamp_ms / 1000, UTC)
                yield message.key, message.value, message.topic, message.queue, message.offset, moment
                left -= 1
                if left == 0:
                    return


def measured(name: str, frame: DataFrame, rows: int, rounds: int, clock: ProcessorClock) -> SourceFigures:
    """Run the query several times and return the medians of its figures."""
    clocks, processors = [], []
    for number in range(rounds + 1):
        cpu, start = clock.seconds(), time.perf_counter()
        counted = frame.count()
        assert counted == rows, f"{counted} rows of {rows}"
        if number:
            clocks.append(time.perf_counter() - start)
            processors.append(clock.seconds() - cpu)
    seconds, processor = statistics.median(clocks), statistics.median(processors)
    mib = rows * MESSAGE_BYTES / seconds / (1 << 20)
    return SourceFigures(name, rows, seconds, processor, rows / seconds, rows / processor, mib, 0.0)


class ProcessorClock:
    """Measures the processor time of the JVM and its Python workers, which are all processes that this process
    started, except the nodes. The clock reads the processor times often, because the times of a process can no longer
    be read after the process has ended.
    """

    def __init__(self) -> None:
        self._of: dict[int, float] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._look, daemon=True).start()

    def seconds(self) -> float:
        self._update()
        with self._lock:
            return sum(self._of.values())

    def _look(self) -> None:
        while True:
            self._update()
            time.sleep(0.2)

    def _update(self) -> None:
        for process in descendants(os.getpid()):
            try:
                seconds = cpu_s(process)
            except OSError:
                continue
            with self._lock:
                self._of[process] = seconds


def descendants(process: int) -> Iterator[int]:
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        command = Path(f"/proc/{child}/cmdline")
        if command.exists() and b"cluster" not in command.read_bytes().split(b"\0")[2:3]:
            yield child
            yield from descendants(child)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=given.directory) as directory,
        fresh_cluster(Path(directory, "cluster"), 3) as cluster,
    ):
        fill(cluster.bootstrap, given.rows * MESSAGE_BYTES, MESSAGE_BYTES)
        conf = {"spark.driver.memory": "2g"}
        with spark_session("bench", master="local[1]", conf=conf) as spark:
            show({"Rows into count(), local[1]": reads(spark, cluster.bootstrap, given.rounds)}, as_json=given.json)


def reads(spark: SparkSession, bootstrap: str, rounds: int) -> list[SourceFigures]:
    with Admin(bootstrap) as admin:
        ends = [offsets.end_offset for offsets in admin.describe_topic(TOPIC).offsets]
    rows, few = sum(ends), sum(ends) // 10 // QUEUES * QUEUES
    spark.dataSource.register(RowAtATime)
    where = {"servers": bootstrap, "subscribe": TOPIC}
    ours = spark.read.format("ledgermq").options(**where)
    by_row = spark.read.format("row-at-a-time").options(**where, rows=few)
    clock = ProcessorClock()
    slow = measured("a row at a time", by_row.load(), few, rounds, clock)
    found = [
        slow,
        measured("ledgermq", ours.load(), rows, rounds, clock),
        measured("ledgermq, value alone", ours.schema("value BINARY").load(), rows, rounds, clock),
    ]
    return [_against(each, slow) for each in found]


def _against(read: SourceFigures, slow: SourceFigures) -> SourceFigures:
    return replace(read, of_row_at_a_time=read.rows_per_cpu_s / slow.rows_per_cpu_s)


if __name__ == "__main__":
    main()
