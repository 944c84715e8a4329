"""A driver with executors on other hosts: it reads a topic as a table and as a stream, writes the rows to other topics,
and kills an executor during each write. Run it as a program, so that tasks get its functions by value.

    python -m tests.ledger.spark.hosts_driver SITE        SITE is the directory of `bench.clients.spark_hosts`

The last line of standard output is JSON: see `Seen`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bench.clients.spark_hosts import SparkSite
from ledgermq import Admin, Consumer, Producer
from ledgermq.spark import spark_session
from tests.ledger.spark.executors import executors, until

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

QUEUES = 2
ROWS = 6_000
# The rows that a task hands on at a time, and how long it then waits, so that a write takes about 4 s.
STEP, PAUSE_S = 250, 0.3
IDLE_S = 3
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": f"{IDLE_S}s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout": "1s",
    # The sink gets a step at a time, not all rows at the end.
    "spark.sql.execution.arrow.maxRecordsPerBatch": f"{STEP}",
}


@dataclass(slots=True)
class Seen:
    """What the driver saw. A row is "queue:offset" of the source."""

    # Of the table: the host of each task, and the source of its code.
    hosts: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    rows: int = 0
    # By topic that was written: the process that wrote the first row and was killed, and all rows, each with the
    # process that wrote it.
    killed: dict[str, str] = field(default_factory=dict)
    written: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    # How many executors there were: before the first job, at most, and after a pause.
    executors: tuple[int, int, int] = (0, 0, 0)


def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the host and the code of a task, and how many rows it has. Each task takes a second."""
    import os
    import time

    import pyarrow as pa

    import ledger.errors

    rows = sum(batch.num_rows for batch in batches)
    time.sleep(1)
    columns = {"host": [os.environ["SPARK_LOCAL_IP"]], "code": [ledger.errors.__file__], "rows": [rows]}
    yield pa.RecordBatch.from_pydict(columns)


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows a few at a time. The value names the source's row, and the tag names the process that writes it."""
    import os
    import time

    import pyarrow as pa

    me = f"{os.environ['SPARK_LOCAL_IP']}_{os.getpid()}"
    for batch in batches:
        queues, offsets = batch.column("partition").to_pylist(), batch.column("offset").to_pylist()
        for first in range(0, batch.num_rows, STEP):
            some = range(first, min(first + STEP, batch.num_rows))
            # So large that no buffer between the processes of the task holds the rows of a step back.
            values = [f"{queues[row]}:{offsets[row]}:{'x' * 1000}" for row in some]
            yield pa.RecordBatch.from_pydict({"value": values, "tag": [me] * len(values)})
            time.sleep(PAUSE_S)


class Driver:
    def __init__(self, spark: SparkSession, site: SparkSite, directory: Path) -> None:
        self._spark = spark
        self._site = site
        self._directory = directory
        self._app = spark.sparkContext.applicationId
        self._options = {"bootstrap.servers": site.bootstrap, "subscribe": "source", "startingOffsets": "earliest"}
        self.seen = Seen()

    def run(self) -> None:
        before = len(executors(self._app))
        counts: list[int] = []
        over = threading.Event()
        counter = threading.Thread(target=self._count, args=(counts, over))
        counter.start()
        try:
            self._read()
            self._write("from-table", self._write_table)
            self._write("from-stream", self._write_stream)
        finally:
            over.set()
            counter.join()
        until(lambda: not executors(self._app), "no executor is left after a pause", IDLE_S + 60)
        self.seen.executors = (before, max(counts), len(executors(self._app)))

    def _count(self, counts: list[int], over: threading.Event) -> None:
        while not over.wait(0.5):
            counts.append(len(executors(self._app)))

    def _read(self) -> None:
        table = self._spark.read.format("ledgermq").options(**self._options, minPartitions=4).load()
        found = table.mapInArrow(where, "host string, code string, rows long").collect()
        self.seen.hosts = sorted({row.host for row in found})
        self.seen.code = sorted({row.code for row in found})
        self.seen.rows = sum(row.rows for row in found)

    def _write(self, topic: str, write: Callable[[str], None]) -> None:
        with Consumer(topic, bootstrap_servers=self._site.bootstrap, start="earliest") as consumer:
            killer = threading.Thread(target=self._kill_the_first_writer, args=(topic, consumer), daemon=True)
            killer.start()
            write(topic)
            killer.join(30)
        with Admin(self._site.bootstrap) as admin:
            count = sum(each.end_offset for each in admin.describe_topic(topic).offsets)
        with Consumer(topic, bootstrap_servers=self._site.bootstrap, start="earliest") as consumer:
            messages = islice(consumer, count)
            self.seen.written[topic] = [(_name(message.value), str(message.tag)) for message in messages]

    def _kill_the_first_writer(self, topic: str, consumer: Consumer) -> None:
        """Wait for the first row, and kill the executor of the process that wrote it."""
        writer = str(next(iter(consumer)).tag)
        host = writer.partition("_")[0]
        (pid,) = (each.pid for each in executors(self._app) if each.host == host)
        os.kill(pid, signal.SIGKILL)
        self.seen.killed[topic] = writer

    def _write_table(self, topic: str) -> None:
        table = self._spark.read.format("ledgermq").options(**self._options).load()
        self._slowed(table).write.format("ledgermq").options(**self._sink(topic)).mode("append").save()

    def _write_stream(self, topic: str) -> None:
        stream = self._spark.readStream.format("ledgermq").options(**self._options).load()
        writer = self._slowed(stream).writeStream.format("ledgermq").options(**self._sink(topic))
        # Only the driver has this directory.
        checkpoint = str(self._directory / "driver" / "checkpoint")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(150)

    def _slowed(self, frame: DataFrame) -> DataFrame:
        return frame.select("partition", "offset").mapInArrow(slowly, "value string, tag string")

    def _sink(self, topic: str) -> dict[str, str]:
        return {"bootstrap.servers": self._site.bootstrap, "topic": topic, "rowOrder": "arrival"}


def _name(value: bytes) -> str:
    """Return which row of the source a message was."""
    return value.decode().rpartition(":")[0]


def fill(bootstrap: str) -> None:
    with Admin(bootstrap, request_timeout_ms=60_000) as admin:  # on a busy machine the first handshake takes long
        for topic in ("source", "from-table", "from-stream"):
            admin.create_topic(topic, queues=QUEUES)
    with Producer(bootstrap) as producer:
        sent = [producer.send_nowait("source", b"%d" % row, queue=row % QUEUES) for row in range(ROWS)]
        for each in sent:
            each.result()


def main() -> None:
    directory = Path(sys.argv[1])
    site = SparkSite.load(directory)
    fill(site.bootstrap)
    began = time.monotonic()
    with spark_session("rows", master=site.master, conf=CONF) as spark:
        driver = Driver(spark, site, directory)
        driver.run()
    print(f"took {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(json.dumps(asdict(driver.seen)))


if __name__ == "__main__":
    main()
