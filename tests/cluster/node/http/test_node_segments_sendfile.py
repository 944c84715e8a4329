"""The bytes of a segment never pass through the node: a test watches the node's system calls during a download."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from ledgermq import AsyncAdmin, AsyncProducer
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.node_process import NodeProcess
from tests.cluster.scrape import is_ready
from tests.cluster.waiter import eventually, until

pytestmark = [pytest.mark.real, pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")]

CALLS = "sendfile,read,readv,pread64,preadv,recvfrom,recvmsg,write,writev,pwrite64,sendto,sendmsg"
BYTES = 30_000_000
NAME = f"{0:020}"


class Calls:
    """Watch the system calls of a process while the block runs; `moved` has the result afterwards."""

    def __init__(self, pid: int, directory: Path) -> None:
        self._trace, self._errors = directory / "trace", directory / "strace.err"
        command = ["strace", "-f", "-e", f"trace={CALLS}", "-o", str(self._trace), "-p", str(pid)]
        with open(self._errors, "wb") as errors:
            self._process = subprocess.Popen(command, stderr=errors)

    async def __aenter__(self) -> Calls:
        await until(lambda: b"attached" in self._errors.read_bytes(), "strace watches the node")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(10)

    def moved(self) -> Counter[str]:
        """The bytes that each system call moved. If a line of another thread splits a call's line, its second half
        counts."""
        moved: Counter[str] = Counter()
        returned = r"^\d+ +(?:<\.\.\. )?(\w+)[( ].* = (\d+)$"
        for name, count in re.findall(returned, self._trace.read_text(), re.MULTILINE):
            moved[name] += int(count)
        return moved


async def test_segments_go_out_by_sendfile(make_fleet: MakeFleet, tmp_path: Path) -> None:
    fleet = make_fleet(1, segment_bytes=32 << 20)
    with NodeProcess(fleet.write_toml(1)) as node:
        await fill(fleet)
        async with Calls(node.pid, tmp_path) as calls:
            body = await download(fleet)
    assert len(body) >= BYTES
    assert body == (fleet.data(1) / "shard-0" / "log" / NAME).read_bytes()[: len(body)]
    moved = calls.moved()
    assert moved.pop("sendfile") == len(body)
    assert moved.total() < 500_000, f"what else went through the node: {moved}"


async def fill(fleet: Fleet) -> None:
    """The name of a segment with more than BYTES."""
    await eventually(lambda: is_ready(fleet.http(1)), "the node serves")
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("topic")
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.send_many("topic", [bytes([number % 251]) * 60_000 for number in range(BYTES // 60_000)])


async def download(fleet: Fleet) -> bytes:
    url = f"http://{fleet.http(1)}/shards/0/segments/{NAME}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert response.status == 200
        return await response.read()
