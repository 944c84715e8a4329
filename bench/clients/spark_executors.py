"""Measures how many rows per second the Spark source reads with executors on other hosts, compared with `local[2]`.

    .venv/bin/python -m bench.clients.spark_executors [--json] [--directory PATH] [--rows 2000000] [--rounds 3]

The hosts are network namespaces of this machine (`bench.clients.spark_hosts`): three secured nodes, and two Spark
workers with one core each. Spark reads a topic of 128-byte messages and counts the rows. Both sides share the
machine's cores, so the difference is what the cluster costs: TCP instead of Unix sockets, and two more JVMs. The first
round of each side is a warm-up and is not counted. The program needs root.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.clients.spark_hosts import HUB, SparkSite, spark_hosts
from bench.local_cluster import QUEUES, TOPIC, fill
from bench.tables import options, show
from ledgermq import Admin
from ledgermq.spark import spark_session

MESSAGE_BYTES = 128
LOCAL = "local[2]"


@dataclass(frozen=True, slots=True)
class ExecutorFigures:
    master: str
    columns: str
    rows: int
    seconds: float
    rows_per_s: float


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", help="count the rows with this master: for the program's own processes")
    parser.add_argument("--bootstrap", help="the nodes, with --master")
    given = parser.parse_args()
    if given.master:
        print(json.dumps(counted(given.master, given.bootstrap, given.rounds)))
        return
    with tempfile.TemporaryDirectory(dir=given.directory) as directory, spark_hosts(Path(directory)) as site:
        fill(site.bootstrap, given.rows * MESSAGE_BYTES, MESSAGE_BYTES)
        rows = [each for master in (LOCAL, site.master) for each in _in_a_process(master, site, given.rounds)]
    show({"Rows into count()": rows}, as_json=given.json)


def _in_a_process(master: str, site: SparkSite, rounds: int) -> list[ExecutorFigures]:
    """Run `counted` in a process of its own, because a process has one Spark context."""
    rights = [("subscribe", f"topic:{TOPIC}"), ("describe", f"topic:{TOPIC}")]
    with Admin(site.bootstrap) as admin:
        token = admin.delegate_token(rights, 3_600_000).token
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LEDGERMQ_", "SPARK_"))}
    proof = {"LEDGERMQ_CA": site.ca, "LEDGERMQ_TOKEN": token, "LEDGERMQ_PROFILE_FILE": os.devnull}
    command = [sys.executable, "-m", "bench.clients.spark_executors", "--master", master]
    command += ["--bootstrap", site.bootstrap, "--rounds", str(rounds)]
    done = subprocess.run(
        command, env={**kept, **proof, "SPARK_LOCAL_IP": HUB}, stdout=subprocess.PIPE, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return [
        ExecutorFigures(master, columns, found["rows"], seconds, found["rows"] / seconds)
        for columns, seconds in found["seconds"].items()
    ]


def counted(master: str, bootstrap: str, rounds: int) -> dict[str, object]:
    """Return the number of rows, and by columns the median of the seconds of a count."""
    conf = {"spark.driver.memory": "1g", "spark.executor.memory": "768m"}
    seconds: dict[str, float] = {}
    with spark_session("bench", master=master, conf=conf) as spark:
        reader = spark.read.format("ledgermq").options(servers=bootstrap, subscribe=TOPIC, minPartitions=QUEUES)
        rows = 0
        for columns, frame in {"all": reader.load(), "value": reader.schema("value BINARY").load()}.items():
            times = []
            for _ in range(rounds + 1):
                began = time.perf_counter()
                rows = frame.count()
                times.append(time.perf_counter() - began)
            seconds[columns] = statistics.median(times[1:])
    return {"rows": rows, "seconds": seconds}


if __name__ == "__main__":
    main()
