"""The limit of open files of a node includes the files of its queues."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import grpc.aio
import pytest

from cluster.node.process.file_limit import connections_open_at_once, queues_open_at_once
from ledger.v1 import broker_pb2
from ledgermq import AsyncProducer
from tests.cluster.fleet import MakeFleet
from tests.cluster.node_process import NodeProcess
from tests.cluster.waiter import eventually

SOFT = 400
QUEUES = 500


@pytest.fixture
def low_limit() -> Iterator[int]:
    """Set a soft limit for the processes that this process starts, and return the hard limit."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


@pytest.mark.real
async def test_a_node_opens_more_files_than_a_process_begins_with(make_fleet: MakeFleet, low_limit: int) -> None:
    """The file of each queue that is written to stays open."""
    fleet = make_fleet(1)
    with NodeProcess(fleet.write_toml(1)) as process:

        async def leads() -> bool:
            try:
                status = await fleet.broker(1).GetStatus(broker_pb2.GetStatusRequest(), timeout=5)
            except grpc.aio.AioRpcError:
                return False
            return any(shard.leader == 1 for shard in status.shards)

        await eventually(leads, "it leads")
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (low_limit, low_limit)
        await fleet.create_topic("t", QUEUES)
        async with AsyncProducer(fleet.bootstrap) as producer:
            for queue in range(QUEUES):
                await producer.send("t", b"x", queue=queue)
        open_files = sum("/queues/" in path for path in files_of(process.pid))
        assert open_files == min(QUEUES, queues_open_at_once(low_limit, 1))


def files_of(pid: int) -> Iterator[str]:
    for number in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            yield os.readlink(f"/proc/{pid}/fd/{number}")


@pytest.mark.parametrize("files", [8_192, 16_384, 1 << 20, 1 << 30])
def test_all_shards_together_leave_files_for_the_rest(files: int) -> None:
    one_by_one = [queues_open_at_once(files, shards) for shards in range(1, 65)]
    assert one_by_one[0] >= 256
    assert 2 * sum(one_by_one) < files * 2 / 3
    assert 2 * 64 * queues_open_at_once(files, 64) < files * 2 / 3


def test_connections_leave_files_for_the_rest() -> None:
    assert connections_open_at_once(4_000, 1 << 20) == 4_000
    assert 2 * connections_open_at_once(4_000, 1_024) == 512
    assert connections_open_at_once(4_000, 64) == 64, "otherwise hardly anybody could connect"


def test_where_hardly_any_file_may_be_opened_some_queues_are() -> None:
    assert queues_open_at_once(256, 64) > 1


@pytest.mark.real
@pytest.mark.parametrize("limit", [16, 255])
def test_a_node_that_may_open_few_files_says_so_and_does_not_start(make_fleet: MakeFleet, limit: int) -> None:
    command = [sys.executable, "-m", "ledgermq", "server", "run", "--config", str(make_fleet(1).write_toml(1))]
    limited = ["sh", "-c", f'ulimit -n {limit}; exec "$0" "$@"', *command]
    ended = subprocess.run(limited, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert f"may open {limit} files, and a node needs at least 256" in ended.stdout + ended.stderr
