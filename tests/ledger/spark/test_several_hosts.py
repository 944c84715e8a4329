"""Spark on a standalone cluster whose workers are on other hosts: the nodes are secured, executors come and go, and one
executor is killed in the middle of each job.

The hosts are network namespaces with their own view of the files (bench/clients/spark_hosts.py). Executors there have
neither the code of ledgermq, nor the data of the nodes, nor the files of the drivers.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from bench.clients.spark_hosts import HUB, SparkSite
from chaos.live.hosts.namespace import Namespace
from tests.ledger.spark.executors import executors, until
from tests.ledger.spark.hosts_driver import QUEUES, ROWS
from tests.ledger.spark.live_copy import copy_live

PROGRAMS = ("ip", "nsenter", "unshare", "mount")
RIGHTS = ("all topic:*", "read-log cluster", "administer cluster", "describe cluster")
HISTORY_ROWS = 600
VALUE = 64 << 10
IN_CI = os.environ.get("CI") == "true"
missing = [program for program in PROGRAMS if shutil.which(program) is None]


has_spark = find_spec("pyspark") is not None and bool(os.environ.get("JAVA_HOME") or shutil.which("java"))

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(bool(missing) and not IN_CI, reason=f"not installed: {', '.join(missing)}"),
    pytest.mark.skipif(not has_spark and not IN_CI, reason="not installed: pyspark, or Java"),
    pytest.mark.timeout(900),
]


class Hub:
    """The host of the drivers, which reaches the nodes and the executors."""

    def __init__(self, directory: Path, site: SparkSite) -> None:
        self.directory = directory
        self.site = site
        self._prefix = Namespace(Path(f"/proc/{site.pid}/ns/net")).prefix
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LEDGERMQ_", "SPARK_"))}
        self._variables = {
            **kept,
            "LEDGERMQ_PROFILE_FILE": os.devnull,
            "LEDGERMQ_BOOTSTRAP": site.bootstrap,
            "SPARK_LOCAL_IP": HUB,
        }
        rights = [word for right in RIGHTS for word in ("--right", *right.split())]
        self.token = self._run(["-m", "ledgermq", "user", "token", *rights], site.administrator, 60).stdout.strip()

    def python(self, *words: str, within_s: float = 600) -> subprocess.CompletedProcess[str]:
        """Run a Python program that has the token."""
        return self._run(words, {"LEDGERMQ_CA": self.site.ca, "LEDGERMQ_TOKEN": self.token}, within_s)

    def validate(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Return the exit status and the report of `ledgermq validate`."""
        done = self.python("-m", "ledgermq", "validate", "--format", "json", *words)
        assert done.returncode in (0, 1), done.stderr
        return done.returncode, json.loads(done.stdout)

    def _run(self, words: Any, variables: Any, within_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._prefix, sys.executable, *words],
            env={**self._variables, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=within_s,
        )


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    directory = tmp_path_factory.mktemp("hosts")
    with (directory / "hosts.log").open("wb") as log:
        command = [sys.executable, "-m", "bench.clients.spark_hosts", str(directory)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        up = directory / "site.json"
        until(lambda: up.exists() or process.poll() is not None, "the hosts are up", 100)
        assert up.exists(), (directory / "hosts.log").read_text()
        yield Hub(directory, SparkSite.load(directory))
    finally:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0, (directory / "hosts.log").read_text()


@pytest.fixture(scope="module")
def seen(hub: Hub) -> dict[str, Any]:
    """What the driver of hosts_driver.py saw."""
    done = hub.python("-m", "tests.ledger.spark.hosts_driver", str(hub.directory))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_table_is_read_by_executors_on_other_hosts_with_the_code_of_the_driver(
    hub: Hub, seen: dict[str, Any]
) -> None:
    assert seen["hosts"] == sorted(hub.site.workers)
    assert all(code.endswith("ledgermq.zip/ledger/errors.py") for code in seen["code"]), seen["code"]
    assert seen["rows"] == ROWS


@pytest.mark.parametrize("topic", ["from-table", "from-stream"])
def test_a_killed_executor_neither_loses_nor_repeats_a_row_of_the_sink(seen: dict[str, Any], topic: str) -> None:
    rows = [row for row, _ in seen["written"][topic]]
    assert len(rows) == ROWS
    assert set(rows) == {f"{queue}:{offset}" for queue in range(QUEUES) for offset in range(ROWS // QUEUES)}
    killed = seen["killed"][topic]
    by_killed = {row for row, writer in seen["written"][topic] if writer == killed}
    queues = {row.partition(":")[0] for row in by_killed}
    by_others = {row for row in rows if row not in by_killed and row.partition(":")[0] in queues}
    assert by_killed, "the killed executor wrote rows, which its successor sends again"
    assert by_others, "another executor finished the task"


def test_executors_come_for_a_job_and_go_after_it(seen: dict[str, Any]) -> None:
    before, most, after = seen["executors"]
    assert (before, most, after) == (0, 2, 0)


# -- validation

SPARK = (
    "--spark-conf=spark.executor.memory=512m",
    "--spark-conf=spark.dynamicAllocation.enabled=true",
    "--spark-conf=spark.dynamicAllocation.shuffleTracking.enabled=true",
    "--spark-conf=spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1",
)

LOAD = f"""
import sys
from ledgermq import Admin, Producer
with Admin(sys.argv[1]) as admin:
    admin.create_topic("validated", queues=4)
with Producer(sys.argv[1], history=sys.argv[2]) as producer:
    sent = [producer.send_nowait("validated", b"%d " % row + bytes({VALUE})) for row in range({HISTORY_ROWS})]
    for each in sent:
        each.result()
"""


@pytest.fixture(scope="module")
def history(hub: Hub) -> Path:
    """The history of a load, which only the drivers can read."""
    path = hub.directory / "driver" / "history.jsonl"
    done = hub.python("-c", LOAD, hub.site.bootstrap, str(path))
    assert done.returncode == 0, done.stderr
    return path


def judged(report: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a report that do not depend on the engine, nor on entries that nodes append meanwhile."""
    kept = ("status", "violations", "counts", "acknowledged", "not_judged", "sources")
    assert all(name in report for name in kept), sorted(report)
    return {name: report[name] for name in kept}


def damaged_copy(hub: Hub, node: int, to: Path) -> Path:
    """Return a copy of a node's data in which a byte of an entry of shard 1 is wrong."""
    copy = copy_live(hub.directory / "nodes" / f"node-{node}" / "disk" / "data", to)
    with min((copy / "shard-1" / "log").iterdir()).open("r+b") as file:
        file.seek(VALUE)
        byte = file.read(1)
        file.seek(VALUE)
        file.write(bytes([byte[0] ^ 1]))
    return copy


def test_validation_survives_the_kill_of_an_executor_and_says_what_one_process_says(
    hub: Hub, history: Path, tmp_path: Path
) -> None:
    """Two sources are running nodes. The third is a damaged copy in a directory that all hosts share. The driver's host
    alone has the history and the directory of the verdict."""
    shared, out = damaged_copy(hub, 3, tmp_path / "node-3"), hub.directory / "driver" / "verdict"
    words = ("--acked", str(history), "--out", str(out), *hub.site.http[:2], str(shared))
    killed: list[int] = []
    over = threading.Event()

    def kill_one_that_works() -> None:
        while not killed and not over.wait(0.01):
            for each in executors():
                if each.has_workers and each.host in hub.site.workers and not killed:
                    os.kill(each.pid, signal.SIGKILL)
                    killed.append(each.pid)

    killer = threading.Thread(target=kill_one_that_works)
    killer.start()
    try:
        status, report = hub.validate(*words, "--master", hub.site.master, *SPARK)
    finally:
        over.set()
        killer.join()
    assert len(killed) == 1
    logs = "".join(path.read_text() for path in (hub.directory / "spark").glob("worker-*.log"))
    assert "exitStatus 137" in logs
    assert (out / "violations.parquet").is_file()
    plain_status, plain = hub.validate(*words)
    assert judged(report) == judged(plain)
    assert status == plain_status == 1
    assert {violation["source"] for violation in report["violations"]} == {str(shared)}
    assert report["engine"].startswith("Spark")
    assert report["acknowledged"]["acknowledged"] == HISTORY_ROWS
