"""The library that makes disks slow, and what a slow disk means for a send to a cluster with `flush = sync`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.local_cluster import fresh_cluster
from bench.suite.slow_disk import NoSlowDiskError, SlowDisks
from cluster.local.processes import DevCluster
from ledgermq import AsyncAdmin, AsyncProducer

pytestmark = pytest.mark.real

# Long, so that the test also passes on a busy machine.
DELAY_MS = 100.0
SENDS = 10
# A program that syncs a file with each of the two calls after each line of its input, and prints how long each took.
SYNCS = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for _ in sys.stdin:
    for call in (os.fsync, os.fdatasync):
        os.pwrite(file, os.urandom(8), 0)
        began = time.perf_counter()
        call(file)
        print(1e3 * (time.perf_counter() - began), flush=True)
"""


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> SlowDisks:
    try:
        return SlowDisks(tmp_path_factory.mktemp("slow"))
    except NoSlowDiskError as reason:
        pytest.skip(str(reason))


def test_both_calls_are_delayed_and_counted(disks: SlowDisks, tmp_path: Path) -> None:
    with disks.preloaded():
        process = subprocess.Popen(
            [sys.executable, "-c", SYNCS, str(tmp_path / "file")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def took_ms() -> list[float]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("once\n")
        process.stdin.flush()
        return [float(process.stdout.readline()) for _ in range(2)]

    with process:
        assert min(took_ms()) > 0
        disks.delay(process.pid, 200)
        assert min(took_ms()) >= 200
        disks.delay(process.pid, 0)
        assert min(min(took_ms()) for _ in range(20)) < 200
        assert disks.syncs(process.pid) == 2 * (1 + 1 + 20)
        assert process.stdin is not None
        process.stdin.close()


def test_a_process_without_the_library_cannot_be_slow(disks: SlowDisks) -> None:
    with pytest.raises(NoSlowDiskError, match="process 1 has not preloaded"):
        disks.delay(1, DELAY_MS)


def test_a_missing_compiler_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoSlowDiskError, match="no C compiler"):
        SlowDisks(tmp_path)


@pytest.fixture(scope="module")
def cluster(disks: SlowDisks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with ExitStack() as stack:
        with disks.preloaded():
            running = stack.enter_context(fresh_cluster(tmp_path_factory.mktemp("cluster"), 3, flush="sync"))
        yield running


@pytest.mark.parametrize("slow", ["all", "leader", "follower"])
def test_a_send_waits_for_one_fsync_of_a_majority(cluster: DevCluster, disks: SlowDisks, slow: str) -> None:
    pids = {state.pid: state.role for state in cluster.status() if state.pid is not None}
    chosen = [pid for pid, role in pids.items() if slow in ("all", role)]
    for pid in pids:
        disks.delay(pid, DELAY_MS if pid in (chosen if slow != "follower" else chosen[:1]) else 0)
    fastest_ms = min(asyncio.run(_send_one_by_one(cluster.bootstrap, slow)))
    if slow == "all":
        assert DELAY_MS < fastest_ms < 3 * DELAY_MS
    else:
        assert fastest_ms < DELAY_MS, "the two other nodes are a majority"


async def _send_one_by_one(bootstrap: str, topic: str) -> list[float]:
    """Return how long each send took, in ms."""
    times_ms = []
    async with AsyncAdmin(bootstrap) as admin, AsyncProducer(bootstrap) as producer:
        await admin.create_topic(topic, queues=1)
        for _ in range(SENDS):
            began = time.perf_counter()
            await producer.send(topic, b"value")
            times_ms.append(1e3 * (time.perf_counter() - began))
    return times_ms
