"""`ledgermq bench` from the command line: on a cluster of processes, and with wrong input."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster.cli import main
from cluster.local.processes import DevCluster
from ledgermq import Admin

pytestmark = pytest.mark.real

# Runs `ledgermq bench` with these words against the cluster. Returns its standard output and error.
Run = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    cluster = DevCluster(tmp_path_factory.mktemp("bench") / "data")
    try:
        cluster.start(3)
        yield cluster
    finally:
        cluster.purge()


@pytest.fixture
def run(three_nodes: DevCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LEDGERMQ_BOOTSTRAP", three_nodes.bootstrap)

    def run(*words: str, status: int = 0) -> tuple[str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["bench", *words])
        out, err = capsys.readouterr()
        assert ended.value.code == status, err
        return out, err

    return run


def figures(run: Run, *words: str) -> dict[str, Any]:
    found = json.loads(run(*words, "--json")[0])
    assert isinstance(found, dict)
    return found


def test_what_two_processes_produce_is_read_back_and_consumed(three_nodes: DevCluster, run: Run) -> None:
    found = figures(
        run, "produce", "--topic", "whole", "--count", "30001", "--size", "100", "--warm-up", "0.1",
        "--processes", "2", "--producers", "3", "--in-flight", "6", "--batch-bytes", "16K", "--verify",
    )  # fmt: skip
    assert found["records"] == 30_001
    assert found["records_per_s"] == pytest.approx(30_001 / found["seconds"], rel=1e-3)
    assert found["verified"] == {**found["verified"], "wrong": 0, "missing": 0, "twice": 0}
    total = found["verified"]["messages"]
    assert total > 30_001, "the warm-up's are there too"
    with Admin(three_nodes.bootstrap) as admin:
        assert sum(each.end_offset for each in admin.describe_topic("whole").offsets) == total
    arrays = figures(run, "consume", "--topic", "whole", "--as", "arrays", "--verify")
    objects = figures(run, "consume", "--topic", "whole", "--consumers", "2", "--group", "bench")
    assert arrays["records"] == objects["records"] == arrays["verified"]["messages"] == total
    assert arrays["verified"]["missing"] == 0
    assert arrays["mb_per_s"] == pytest.approx(total * 100 / 1e6 / arrays["seconds"], rel=1e-2)


def test_csv_and_the_closing_line(run: Run) -> None:
    common = ("produce", "--topic", "lines", "--by", "send", "--count", "50", "--in-flight", "5", "--warm-up", "0")
    (row,) = csv.DictReader(io.StringIO(run(*common, "--csv")[0]))
    assert row["records"] == "50"
    assert float(row["latency_p99_ms"]) > 0
    line, _ = run(*common)
    assert line.startswith("50 records sent, ")
    assert line.endswith(" ms 99.9th.\n")


def test_from_end_to_end_every_message_arrives(run: Run) -> None:
    found = figures(run, "e2e", "--rate", "2000", "--count", "1000", "--warm-up", "0.1")
    assert found["records"] == 1000
    assert found["latency_p50_ms"] > found["acknowledged_p50_ms"] / 2
    assert found["seconds"] >= 0.49


def test_failover_is_measured_by_a_transfer_and_missed_without(run: Run) -> None:
    common = ("failover", "--rate", "200", "--warm-up", "0")
    found = figures(run, *common, "--seconds", "2.5", "--transfer", "--every", "1")
    assert found["changes"]
    assert all(change["term"] > change["term_before"] for change in found["changes"])
    assert 0 < found["longest_no_write_s"] < 2.5
    assert found["failed"] == 0
    _, said = run(*common, "--seconds", "0.3", status=1)
    assert "the leader did not change" in said


def test_idle_reads_processes_and_metrics_alike(three_nodes: DevCluster, run: Run) -> None:
    nodes = three_nodes.status()
    words = [word for node in nodes for word in ("--pid", str(node.pid), "--metrics", node.http)]
    found = figures(run, "idle", "--seconds", "1", *words)["nodes"]
    assert [each["node"] for each in found] == [f"pid {node.pid}" for node in nodes] + [node.http for node in nodes]
    for process, metrics in zip(found[:3], found[3:], strict=True):
        assert 0 <= metrics["cpu_percent"] < 100
        assert process["memory_mb"] == pytest.approx(metrics["memory_mb"], rel=0.2)
        assert process["memory_mb"] > 10


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("consume", "--topic", "nowhere"), "topic nowhere does not exist: fill it first, `ledgermq bench produce"),
        (("produce", "--topic", "too-large", "--size", "5M"), "5242880"),
        (("produce", "--topic", "no such", "--count", "1"), "no such"),
        (("idle", "--pid", "4194303", "--seconds", "1"), "no process 4194303"),
        (("idle", "--metrics", "127.0.0.1:1", "--seconds", "1"), "http://127.0.0.1:1/metrics"),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    assert sentence in run(*words, status=1)[1]


def test_a_topic_with_other_queues_is_named(three_nodes: DevCluster, run: Run) -> None:
    with Admin(three_nodes.bootstrap) as admin:
        admin.create_topic("two", queues=2)
    assert "has 2 queues, not 5" in run("produce", "--topic", "two", "--queues", "5", status=1)[1]
    assert "give another --topic" in run("failover", "--topic", "two", status=1)[1]
    run("produce", "--topic", "two", "--count", "1", "--warm-up", "0")
    assert "would have no queue" in run("consume", "--topic", "two", "--consumers", "3", status=1)[1]


@pytest.mark.parametrize(
    "words",
    [
        ("produce", "--size", "many"),
        ("produce", "--rate", "0"),
        ("produce", "--by", "pigeon"),
        ("produce", "--verify", "--size", "15"),
        ("produce", "--processes", "2"),
        ("produce", "--producers", "8", "--in-flight", "7"),
        ("consume", "--group", "g", "--as", "arrays"),
        ("consume", "--verify", "--count", "1"),
        ("e2e", "--size", "8"),
        ("failover", "--every", "0"),
        ("idle", "--pid", "0"),
    ],
)
def test_wrong_usage_is_status_2(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    bootstrap = () if words[0] == "idle" else ("--bootstrap", "127.0.0.1:1")
    with pytest.raises(SystemExit) as ended:
        main(["bench", *words, *bootstrap])
    assert ended.value.code == 2
    assert "Error" in capsys.readouterr().err


def test_the_light_install_and_the_extra_are_enough() -> None:
    """The command imports nothing that only a node needs, and uses uvloop only if it is installed."""
    script = "\n".join(
        [
            "import sys",
            "names = 'uvloop aiohttp prometheus_client pydantic pydantic_settings structlog jinja2 matplotlib'",
            "sys.modules.update(dict.fromkeys(names.split()))",
            "from cluster.cli import main",
            "main(['bench', 'produce', '--topic', 't', '--count', '1', '--bootstrap', '127.0.0.1:1'])",
        ]
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith("Error: ")
    assert "127.0.0.1:1" in ran.stderr
