"""A Spark pipeline: it counts the lines of a web server's log by minute and status, and writes the counts to a topic
and to Parquet.

    topic of lines ──> parsed ──> count by minute and status, with a watermark ──┬──> topic of counts
                                                                                 └──> Parquet

Some log lines arrive 20 s late, so the lines are not in the order of their times. The watermark is 2 minutes: Spark
writes the counts of a minute after it has received a line whose time is at least 2 minutes after the end of that
minute. One Spark query writes to the topic, and a second query writes to Parquet. A query can be killed at any moment;
its next run continues from the query's checkpoint. In this example each query reads the messages that exist when the
query starts, and then ends. The script needs `pip install 'ledgermq[spark]'` and Java 17.
"""

import os
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from ledgermq import Admin, Producer
from ledgermq.spark import spark_session

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
RUN = int(time.time())
LINES, COUNTS = f"web-logs-{RUN}", f"requests-per-minute-{RUN}"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTES = 10
COMBINED = r'^\S+ \S+ \S+ \[([^\]]+)\] "[^"]*" (\d{3}) '


def line(moment: datetime, status: int) -> bytes:
    """Return a log line in the format of Apache and nginx."""
    return f'203.0.113.7 - - [{moment:%d/%b/%Y:%H:%M:%S %z}] "GET /shop HTTP/1.1" {status} 5120 "-" "-"'.encode()


def send_lines() -> Counter[tuple[str, str]]:
    """Send one log line for each second to the topic; every third line arrives 20 s late. Return the number of
    lines for each minute and status."""
    expected: Counter[tuple[str, str]] = Counter()
    lines = []
    for second in range(60 * MINUTES):
        moment = NOON + timedelta(seconds=second - (20 if second % 3 == 0 and second >= 20 else 0))
        status = 500 if second % 50 == 0 else 404 if second % 7 == 0 else 200
        lines.append(line(moment, status))
        expected[f"{moment:%H:%M}", str(status)] += 1
    with Admin(BOOTSTRAP) as admin, Producer(BOOTSTRAP) as producer:
        admin.create_topic(LINES, queues=2)
        admin.create_topic(COUNTS, queues=2)
        producer.send_many(LINES, [*lines, b"this is no log line"])
    return expected


def counted(spark: SparkSession) -> DataFrame:
    """Return a streaming DataFrame with the number of log lines for each minute and status."""
    messages = (
        spark.readStream.format("ledgermq")
        .option("bootstrap.servers", BOOTSTRAP)
        .option("subscribe", LINES)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 400)
        .load()
    )
    text = f.col("value").cast("string")
    requests = messages.select(
        f.try_to_timestamp(f.regexp_extract(text, COMBINED, 1), f.lit("dd/MMM/yyyy:HH:mm:ss Z")).alias("moment"),
        f.regexp_extract(text, COMBINED, 2).alias("status"),
    ).where("moment IS NOT NULL")
    minute = f.window("moment", "1 minute").alias("minute")
    return requests.withWatermark("moment", "2 minutes").groupBy(minute, "status").count()


def write(counts: DataFrame, path: Path) -> None:
    """Write the counts first to the topic, and then to Parquet."""
    columns: list[Column | str] = [f.date_format("minute.start", "HH:mm").alias("minute"), "status", "count"]
    messages = counts.select(
        f.to_json(f.struct(columns)).alias("value"),
        f.date_format("minute.start", "HH:mm").alias("key"),
        f.col("status").alias("tag"),
    )
    to_topic = messages.writeStream.format("ledgermq").option("bootstrap.servers", BOOTSTRAP).option("topic", COUNTS)
    to_files = counts.select(columns).writeStream.format("parquet").option("path", str(path / "counts"))
    for name, writer in (("topic", to_topic), ("files", to_files)):
        checkpoint = str(path / f"checkpoint-{name}")
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    expected = send_lines()
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
    with spark_session("web logs", master="local[2]", conf=conf) as spark, tempfile.TemporaryDirectory() as folder:
        write(counted(spark), Path(folder))
        files = spark.read.parquet(str(Path(folder, "counts")))
        messages = spark.read.format("ledgermq").option("bootstrap.servers", BOOTSTRAP).option("subscribe", COUNTS)
        parsed = f.from_json(f.col("value").cast("string"), files.schema)
        in_topic = messages.load().select(parsed.alias("it")).select("it.*")
        rows = sorted(tuple(row) for row in in_topic.collect())
        assert rows == sorted(tuple(row) for row in files.collect())
        found = {(minute, status): count for minute, status, count in rows}
        assert len(found) == len(rows)
        over = {minute for minute, _ in found}
        assert len(over) >= MINUTES - 4
        assert found == {place: count for place, count in expected.items() if place[0] in over}
        print(
            f"{sum(found.values())} lines of {len(over)} minutes: {len(rows)} counts in topic {COUNTS}, and in Parquet:"
        )
        files.groupBy("minute").pivot("status").sum("count").orderBy("minute").show()


if __name__ == "__main__":
    main()
