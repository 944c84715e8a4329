"""The pytest plugin, as the test suite of a user runs it: each test writes test files and starts pytest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.testing.running import runs
from tests.cluster.waiter import blocking_eventually

pytestmark = pytest.mark.real

_PYTEST = (sys.executable, "-m", "pytest", "-p", "pytest_ledgermq", "-p", "no:cacheprovider", "-p", "no:randomly")


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_PYTEST, *options], cwd=folder, capture_output=True, text=True, timeout=110, check=False)


SHARED = """
import pytest
from ledgermq import Consumer, Producer
from ledgermq.testing import Cluster

seen = []


@pytest.fixture(scope="session")
def service(ledgermq_cluster: Cluster):
    yield ledgermq_cluster.leader()
    assert ledgermq_cluster.is_whole()


def test_one(ledgermq_cluster: Cluster, ledgermq_topic: str, service: int) -> None:
    seen.append((ledgermq_cluster, ledgermq_topic))
    with Producer(ledgermq_cluster.bootstrap) as producer:
        producer.send(ledgermq_topic, b"1")
        ledgermq_cluster.kill_leader()
        ledgermq_cluster.pause(next(node for node in (1, 2, 3) if ledgermq_cluster._processes[node].runs))


@pytest.mark.ledgermq_topic(queues=3)
def test_two(ledgermq_cluster: Cluster, ledgermq_topic: str) -> None:
    assert ledgermq_cluster.is_whole()
    assert ledgermq_cluster is seen[0][0]
    assert ledgermq_topic != seen[0][1]
    assert ledgermq_topic.startswith("test_two-")
    with Producer(ledgermq_cluster.bootstrap) as producer:
        assert producer.send(ledgermq_topic, b"2", queue=2).queue == 2
    assert "tick_ms = 30" in (ledgermq_cluster.directory / "node-1" / "node.toml").read_text()
"""

INI = """
[pytest]
ledgermq_nodes = 3
ledgermq_settings =
    tick_ms = 30
    retry_delays_s = [0.1, 0.5]
"""


def test_tests_share_a_cluster_that_each_finds_whole(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_shared.py").write_text(SHARED)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


FACTORY = """
from ledgermq.testing import cluster_fixture

ledgermq_cluster = cluster_fixture(scope="function", settings={"tick_ms": 20})
other = cluster_fixture(scope="module")
found = []


def test_one(ledgermq_cluster, ledgermq_topic, other):
    found.extend([ledgermq_cluster.directory, other.directory])


def test_two(ledgermq_cluster, other):
    assert ledgermq_cluster.directory != found[0]
    assert not found[0].exists()
    assert other.directory == found[1]
    ledgermq_cluster.kill(1)
"""


def test_fixtures_of_the_user_replace_the_one_of_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_factory.py").write_text(FACTORY)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout


SCOPE = """
found = []


def test_one(ledgermq_cluster):
    found.append(ledgermq_cluster.directory)


def test_two(ledgermq_cluster):
    assert not found[0].exists()
"""


def test_the_scope_is_an_option_of_the_ini_file(tmp_path: Path) -> None:
    (tmp_path / "test_scope.py").write_text(SCOPE)
    assert run_pytest(tmp_path, "-o", "ledgermq_scope=function").returncode == 0
    done = run_pytest(tmp_path, "-o", "ledgermq_scope=file")
    assert done.returncode != 0
    assert "ledgermq_scope is 'file': write one of session, package, module" in done.stdout + done.stderr
    done = run_pytest(tmp_path, "-o", "ledgermq_settings=tick_ms: 7")
    assert "write NAME = VALUE" in done.stdout + done.stderr


FAILING = """
import os
import pathlib


def test_fails(ledgermq_cluster):
    pids = [ledgermq_cluster._processes[1].pid, os.getpid()]
    pathlib.Path("pids").write_text(" ".join(map(str, pids)))
    INPUT
"""


def test_a_failed_test_shows_the_logs_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING.replace("INPUT", "assert 1 == 2"))
    done = run_pytest(tmp_path)
    assert done.returncode == 1
    assert "ledgermq node 1 at 127.0.0.1:" in done.stdout
    assert "shard 0: leader in term 2" in done.stdout
    node = int((tmp_path / "pids").read_text().split()[0])
    blocking_eventually(lambda: not runs(node), "the node has ended")


STOPPING = """
def test_stops_the_cluster(ledgermq_cluster):
    ledgermq_cluster.stop()
    assert 1 == 2


def test_next(ledgermq_cluster, ledgermq_topic):
    assert ledgermq_cluster.is_whole()
"""


def test_a_failed_test_may_stop_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "test_stopping.py").write_text(STOPPING)
    done = run_pytest(tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "assert 1 == 2" in done.stdout
    assert "The logs cannot be shown: this cluster does not run" in done.stdout


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING.replace("INPUT", "import sys; sys.stdin.read()"))
    pids = tmp_path / "pids"
    with subprocess.Popen(
        [*_PYTEST, "-s"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as test:
        text = blocking_eventually(lambda: pids.read_text() if pids.exists() else "", "the test runs", deadline_s=60)
        node = int(text.split()[0])
        assert runs(node)
        os.killpg(test.pid, signal.SIGINT)  # as a terminal does
        output, _ = test.communicate(timeout=30)
    assert test.returncode == 2, output
    assert not runs(node)


def test_the_plugin_imports_nothing_until_it_is_used(tmp_path: Path) -> None:
    """An installed plugin must cost nothing in the suites of others."""
    (tmp_path / "test_other.py").write_text(
        "import sys\n\ndef test_light():\n    assert not {'ledgermq', 'ledger', 'cluster', 'grpc'} & set(sys.modules)\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
