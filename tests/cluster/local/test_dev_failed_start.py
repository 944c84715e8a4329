"""A new local cluster that cannot start says what is missing, and leaves no file and no process behind."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import signal
import socket
import time
from collections import namedtuple
from pathlib import Path

import pytest

from cluster.local.plan import DevError
from cluster.local.processes import DevCluster
from cluster.local.requirements import room_needed
from tests.cluster.cli.command import TIMEOUT_S, run, start

_Usage = namedtuple("_Usage", "total used free")


@pytest.fixture
def cluster(tmp_path: Path) -> DevCluster:
    return DevCluster(tmp_path / "above" / "data")


def assert_nothing_is_left(tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == []


def processes_of(directory: Path) -> list[bytes]:
    """Return the command lines of the processes that name the directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if os.fsencode(directory) in line and b"server" in line:
            found.append(line)
    return found


def test_missing_packages_are_named(cluster: DevCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "cluster.local.requirements.find_spec", lambda name: None if name in ("aiohttp", "uvloop") else found(name)
    )
    with pytest.raises(DevError, match=r"packages aiohttp, uvloop: pip install .ledgermq\[server\]"):
        cluster.start(3)
    assert_nothing_is_left(tmp_path)


def test_missing_room_is_named(cluster: DevCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = room_needed(3, 2, 32 << 20) - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(1 << 40, 0, free))
    with pytest.raises(DevError, match=r"MiB free, and 3 nodes need 432 MiB"):
        cluster.start(3, shards=2)
    assert_nothing_is_left(tmp_path)


@pytest.mark.real
@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written(cluster: DevCluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DevError, match="cannot be written to"):
        cluster.start(1)
    tmp_path.chmod(0o700)
    assert_nothing_is_left(tmp_path)


@pytest.mark.real
def test_a_port_in_use_leaves_nothing_behind(cluster: DevCluster, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(DevError, match="in use"):
            cluster.start(1, base_port=taken.getsockname()[1])
    assert_nothing_is_left(tmp_path)


@pytest.mark.real
def test_a_node_that_ends_takes_the_new_cluster_with_it(
    cluster: DevCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGERMQ_LOG_LEVEL", "nonsense")
    with pytest.raises(DevError, match=r"(?s)ended while starting.*log_level.*The new cluster was removed again"):
        cluster.start(3)
    assert_nothing_is_left(tmp_path)


@pytest.mark.real
def test_a_cluster_without_a_leader_is_removed(cluster: DevCluster, tmp_path: Path) -> None:
    with pytest.raises(DevError, match=r"(?s)did not agree on a leader.*removed again"):
        cluster.start(3, timeout_s=0.001)
    assert_nothing_is_left(tmp_path)


@pytest.mark.real
def test_files_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "node-2").mkdir()
    with pytest.raises(DevError):
        DevCluster(tmp_path).start(1, timeout_s=0.001)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "node-2"]


@pytest.mark.real
@pytest.mark.parametrize(("stop", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_first_start_leaves_nothing_behind(tmp_path: Path, stop: signal.Signals, status: int) -> None:
    port = str(random.randrange(20_000, 32_000, 10))
    starting = start("dev", "start", "-n", "3", "--base-port", port, cwd=tmp_path)
    deadline = time.monotonic() + TIMEOUT_S
    while not (tmp_path / "ledgermq-data" / "node-3" / "pid").exists():
        assert starting.poll() is None
        assert time.monotonic() < deadline
    starting.send_signal(stop)
    _, err = starting.communicate(timeout=TIMEOUT_S)
    assert starting.returncode == status, err.decode()
    assert b"Traceback" not in err
    assert_nothing_is_left(tmp_path)


@pytest.mark.real
def test_progress_is_shown_step_by_step(tmp_path: Path) -> None:
    cluster = DevCluster(tmp_path / "data")
    steps: list[str] = []
    try:
        cluster.start(1, base_port=random.randrange(20_000, 32_000, 10), tell=steps.append)
        assert steps[:2] == ["writing settings", "starting 1 node(s)"]
        assert any(step.startswith("waiting for") for step in steps)
        cluster.stop()
        cluster.kill(1)
        with pytest.raises(DevError):
            cluster.start(timeout_s=0.001)
        assert cluster.exists, "a cluster that exists is never removed"
    finally:
        cluster.purge()


@pytest.mark.real
def test_the_command_names_what_is_missing(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = run("dev", "start", "-n", "1", "--base-port", port, cwd=tmp_path, status=1)
    assert b"is in use: choose another --base-port" in refused.stderr
    assert_nothing_is_left(tmp_path)
