"""Measures a log with many waiting messages on a cluster of three nodes: how fast messages are cancelled, whether
cancels leave a trace in snapshots, and how fast `ledgermq validate` judges the logs, with one process and with Spark.

    .venv/bin/python -m bench.judging.waiting_log [--waiting 1000000] [--engine plain "local[2]"] [--directory PATH]

All messages have 100 bytes and are spread over 16 target queues. The first `--waiting` messages are due in an hour, and
all of them are cancelled, by one producer with `cancel_many`. `snapshot_kb` is the size of the largest checkpoint of
the shard, which contains its snapshot, and `timed_mb` the size of the files of the timed index on one node. Then
`--waiting` messages more are sent, a fifth of them is due soon, and the cluster stops when these are delivered. The
three logs are judged in `judge_s`, without the start of a Spark session.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.local_cluster import fresh_cluster
from bench.node.timed import NODES, QUEUES, VALUE, create
from bench.tables import options, show
from cluster.local.processes import DevCluster
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.report.report import ValidationReport
from ledger.validation.validate import validate
from ledgermq import Admin, AsyncProducer, OutgoingMessage

CALL_MESSAGES = 10_000
# Two checkpoints are written in this time.
CHECKPOINTS_S = 25
# The share of the last messages that are delivered.
DELIVERED = 0.2


@dataclass(frozen=True, slots=True)
class CancelFigures:
    messages: int
    sent_per_s: int
    cancelled_per_s: int
    snapshot_kb_before: float
    snapshot_kb_waiting: float
    snapshot_kb_after: float
    timed_mb_waiting: float
    timed_mb_after: float


@dataclass(frozen=True, slots=True)
class JudgeFigures:
    engine: str
    entries: int
    # The waiting messages of each log, in both parts.
    messages: int
    log_mb: float
    judge_s: float
    # The processor time of this process. With Spark, other processes do most of the work.
    cpu_s: float
    peak_mb: float
    violations: int


async def send(bootstrap: str, times: Sequence[datetime]) -> list[str]:
    """Send one message for each delivery time, and return the handles."""
    handles: list[str] = []
    async with AsyncProducer(bootstrap) as producer:
        for first in range(0, len(times), CALL_MESSAGES):
            some = times[first : first + CALL_MESSAGES]
            messages = [OutgoingMessage(VALUE, queue=number % QUEUES, deliver_at=at) for number, at in enumerate(some)]
            for one in await producer.send_many("timed", messages):
                handles += one.handles
    return handles


async def cancel(bootstrap: str, handles: Sequence[str]) -> float:
    """Cancel all messages, and return the seconds that this took."""
    began = time.perf_counter()
    async with AsyncProducer(bootstrap) as producer:
        for first in range(0, len(handles), CALL_MESSAGES):
            assert all(await producer.cancel_many(handles[first : first + CALL_MESSAGES]))
    return time.perf_counter() - began


def wait_until_none_is_due(bootstrap: str) -> None:
    with Admin(bootstrap) as admin:
        while admin.waiting_messages(end=datetime.now(UTC), limit=1):
            time.sleep(0.5)


def snapshot_kb(directory: Path) -> float:
    return max(path.stat().st_size for path in directory.rglob("checkpoint") if path.is_file()) / 1000


def size_mb(directory: Path, name: str) -> float:
    """Return the size of the files in directories with this name on the first node, in MB."""
    files = [path for folder in (directory / "node-1").rglob(name) for path in folder.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files) / 1e6


def cancels(cluster: DevCluster, directory: Path, count: int) -> CancelFigures:
    bootstrap, hour = cluster.bootstrap, datetime.now(UTC) + timedelta(hours=1)
    asyncio.run(create(bootstrap))
    asyncio.run(send(bootstrap, [hour]))
    time.sleep(CHECKPOINTS_S)
    before, began = snapshot_kb(directory), time.perf_counter()
    handles = asyncio.run(send(bootstrap, [hour + timedelta(seconds=3600 * at / count) for at in range(count)]))
    seconds = time.perf_counter() - began
    time.sleep(CHECKPOINTS_S)
    waiting, timed = snapshot_kb(directory), size_mb(directory, "timed")
    cancelled_s = asyncio.run(cancel(bootstrap, handles))
    time.sleep(CHECKPOINTS_S)
    return CancelFigures(
        count,
        round(count / seconds),
        round(count / cancelled_s),
        before,
        waiting,
        snapshot_kb(directory),
        timed,
        size_mb(directory, "timed"),
    )


def fill_and_stop(cluster: DevCluster, count: int) -> None:
    """Send the messages of the second part, and stop the cluster when those that are due are delivered."""
    soon, later = datetime.now(UTC) + timedelta(seconds=20), datetime.now(UTC) + timedelta(hours=2)
    due = int(count * DELIVERED)
    asyncio.run(send(cluster.bootstrap, [soon + timedelta(seconds=20 * at / due) for at in range(due)]))
    asyncio.run(send(cluster.bootstrap, [later] * (count - due)))
    time.sleep(max(0.0, (soon - datetime.now(UTC)).total_seconds() + 21))
    wait_until_none_is_due(cluster.bootstrap)
    cluster.stop()


def judged_by(engine: str, sources: Sequence[str]) -> tuple[ValidationReport, float]:
    """Return the report and the seconds that it took."""
    if engine == "plain":
        began = time.perf_counter()
        return validate(list(sources), PlainEngine()), time.perf_counter() - began
    from ledger.spark.session import spark_context
    from ledger.spark.validation.spark_engine import SparkEngine

    with spark_context("bench", master=engine) as sc:
        sc.parallelize(range(8), 8).map(lambda number: number).count()  # starts the session
        began = time.perf_counter()
        return validate(list(sources), SparkEngine(sc)), time.perf_counter() - began


def judge(name: str, sources: Sequence[str], messages: int, log_mb: float) -> JudgeFigures:
    cpu = time.process_time()
    report, seconds = judged_by(name, sources)
    cpu = time.process_time() - cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    entries = max(replica.entries for shard in report.shards for replica in shard.replicas)
    return JudgeFigures(name, entries, messages, log_mb, seconds, cpu, peak_mb, len(report.violations))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--waiting", type=int, default=1_000_000, help="messages of each part (default: 1,000,000)")
    parser.add_argument(
        "--engine", nargs="*", default=["plain", "local[2]"], help='"plain", or the address of a master'
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as name:
        directory = Path(name) / "cluster"
        with fresh_cluster(directory, len(NODES)) as cluster:
            cancelled = cancels(cluster, directory, given.waiting)
            fill_and_stop(cluster, given.waiting)
            sources = [str(path.parent) for path in sorted(directory.rglob("identity.json"))]
            log_mb = size_mb(directory, "log")
            judged = [judge(engine, sources, 2 * given.waiting + 1, log_mb) for engine in given.engine]
    show({"Cancels": [cancelled], "Judging": judged}, as_json=given.json)


if __name__ == "__main__":
    main()
