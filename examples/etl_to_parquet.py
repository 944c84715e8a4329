"""An ETL job: it reads JSON events of a topic in batches, makes a table with pyarrow, and writes Parquet files, which
pandas then reads.

    topic of events ──> batches of one queue ──> Arrow table ──> queue=Q/OFFSET.parquet ──> pandas

The name of a file is the queue and the first offset, and the job finishes a batch only after its file is complete. If
the job is killed in between, its next run reads the batch again. So each event is in a file at least once, and the
columns `queue` and `offset` identify an event that is in two files. Run it from cron, or in a loop. The script needs
`pip install pandas pyarrow`.
"""

import json
import os
import tempfile
import time
from itertools import groupby
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ledgermq import Admin, GroupConsumer, Message, Producer

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
RUN = int(time.time())
EVENTS, GROUP = f"events-{RUN}", f"etl-{RUN}"
BATCH = 500
IDLE_MS = 2_000
SCHEMA = pa.schema(
    [
        ("queue", pa.int32()),
        ("offset", pa.int64()),
        ("time", pa.timestamp("ms", tz="UTC")),
        ("user", pa.string()),
        ("page", pa.string()),
        ("ms", pa.int32()),
    ]
)


def send_events(count: int) -> None:
    with Admin(BOOTSTRAP) as admin, Producer(BOOTSTRAP) as producer:
        admin.create_topic(EVENTS, queues=3)
        for number in range(count):
            user = f"user {number % 7}"
            event = {"user": user, "page": f"/shop/{number % 20}", "ms": number % 300}
            producer.send_nowait(EVENTS, json.dumps(event).encode(), key=user)
        producer.flush()


def table(messages: list[Message]) -> pa.Table:
    """Return the messages of one queue as a table."""
    rows = [
        {"queue": each.queue, "offset": each.offset, "time": each.timestamp_ms, **json.loads(each.value)}
        for each in messages
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def write(messages: list[Message], folder: Path) -> None:
    """Write the messages of one queue to a file. The file appears when it is complete."""
    first = messages[0]
    path = folder / f"queue={first.queue}" / f"{first.offset:020}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    pq.write_table(table(messages), partial)
    partial.rename(path)


def run(folder: Path) -> int:
    """Write all events that are there and not finished. Return how many there were."""
    done = 0
    with GroupConsumer(EVENTS, group=GROUP, auto_acknowledge=False, bootstrap_servers=BOOTSTRAP) as consumer:
        while (messages := consumer.getmany(BATCH, timeout_ms=IDLE_MS)) or not consumer.assignment:
            for _, of_queue in groupby(sorted(messages, key=place), key=lambda message: message.queue):
                write(list(of_queue), folder)
            for message in messages:
                consumer.finish(message)
            done += len(messages)
    return done


def place(message: Message) -> tuple[int, int]:
    return message.queue, message.offset


def main() -> None:
    send_events(2_000)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        print(f"first run: {run(folder)} events")
        print(f"second run: {run(folder)} events")
        files = sorted(folder.rglob("*.parquet"))
        events = pd.concat(map(pd.read_parquet, files)).drop_duplicates(["queue", "offset"])
    slowest = events.groupby("page")["ms"].mean().nlargest(3)
    print(f"{len(events)} events in {len(files)} files; the slowest pages:\n{slowest.to_string()}")
    assert len(events) == 2_000
    assert events["user"].nunique() == 7


if __name__ == "__main__":
    main()
