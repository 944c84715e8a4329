"""A node in the process of a user's program: what it keeps, who reaches it, and what it leaves alone."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cluster.node.process.sockets import opened, sockets_of_this_process
from ledgermq import Admin, AsyncAdmin, AsyncConsumer, AsyncGroupConsumer, AsyncProducer, Consumer, Producer
from ledgermq.embedded import EmbeddedNode, EmbeddedNodeError
from ledgermq.errors import InvalidArgumentError

pytestmark = pytest.mark.real


async def create_topic(node: EmbeddedNode, queues: int = 1) -> None:
    async with AsyncAdmin(node.bootstrap) as admin:
        await admin.create_topic("orders", queues)


async def values(node: EmbeddedNode, count: int) -> list[bytes]:
    async with AsyncConsumer("orders", bootstrap_servers=node.bootstrap) as consumer:
        return [(await anext(consumer)).value for _ in range(count)]


@pytest.mark.parametrize("data", ["", None, 5])
def test_a_node_needs_a_directory(data: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must be the path of the node's data directory"):
        EmbeddedNode(data)


async def test_it_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    async with EmbeddedNode(tmp_path / "data") as node:
        await create_topic(node)
        async with AsyncProducer(node.bootstrap) as producer:
            await producer.send("orders", b"1")
    async with EmbeddedNode(tmp_path / "data") as node:
        assert await values(node, 1) == [b"1"]
        async with AsyncProducer(node.bootstrap) as producer:
            await producer.send("orders", b"2")
        assert await values(node, 2) == [b"1", b"2"]


async def test_consumer_groups_and_threads_use_it(tmp_path: Path) -> None:
    async with EmbeddedNode(tmp_path, flush="async") as node:
        await create_topic(node, queues=2)

        def send() -> None:
            with Producer(node.bootstrap) as producer:
                producer.send("orders", b"from a thread")

        await asyncio.to_thread(send)
        async with AsyncGroupConsumer("orders", group="billing", bootstrap_servers=node.bootstrap) as consumer:
            assert (await anext(consumer)).value == b"from a thread"


def threads_of_nodes() -> int:
    return sum(thread.name == "ledgermq-embedded-node" for thread in threading.enumerate())


def test_a_program_without_asyncio_uses_it_in_a_with_block(tmp_path: Path) -> None:
    for value in (b"1", b"2"):
        with EmbeddedNode(tmp_path) as node:
            with Admin(node.bootstrap) as admin, Producer(node.bootstrap) as producer:
                admin.create_topic("orders", 1, exist_ok=True)
                producer.send("orders", value)
            with pytest.raises(EmbeddedNodeError, match="runs already"), node:
                pass
            assert node.failure is None
    with EmbeddedNode(tmp_path) as node, Consumer("orders", bootstrap_servers=node.bootstrap) as consumer:
        assert [next(consumer).value for _ in range(2)] == [b"1", b"2"]
    assert threads_of_nodes() == 0


def test_a_with_block_that_cannot_start_leaves_no_thread(tmp_path: Path) -> None:
    with EmbeddedNode(tmp_path):
        with pytest.raises(EmbeddedNodeError, match="another"), EmbeddedNode(tmp_path):
            pass
        assert threads_of_nodes() == 1


async def test_only_the_user_reaches_it(tmp_path: Path) -> None:
    before = sockets_of_this_process()
    async with EmbeddedNode(tmp_path / "data") as node:
        path = node.bootstrap.removeprefix("unix:")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
        new = {inode: number for inode, number in sockets_of_this_process().items() if inode not in before}
        assert new
        for inode, number in new.items():
            with opened(number, inode) as found:
                assert found.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_UNIX


def process() -> dict[str, object]:
    """What belongs to the whole process."""
    root = logging.getLogger()
    umask = os.umask(0)
    os.umask(umask)
    return {
        "signals": {each: signal.getsignal(each) for each in signal.valid_signals()},
        "logging": (root.level, root.handlers[:], logging.getLogger("ledgermq").level),
        "frozen": gc.get_freeze_count(),
        "collection": (gc.isenabled(), gc.get_threshold()),
        "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
        "environment": dict(os.environ),
        "umask": umask,
        "loops": type(asyncio.get_event_loop_policy()),
    }


async def test_it_leaves_the_process_as_it_is(tmp_path: Path) -> None:
    before, threads = process(), asyncio.all_tasks()
    async with EmbeddedNode(tmp_path):
        during = process()
    assert during == before
    assert process() == before
    assert asyncio.all_tasks() == threads


async def test_variables_of_the_environment_have_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERMQ_DATA", str(tmp_path / "other"))
    monkeypatch.setenv("LEDGERMQ_MAX_MESSAGE_BYTES", "1024")
    async with EmbeddedNode(tmp_path / "data", flush="async") as node:
        await create_topic(node)
        async with AsyncProducer(node.bootstrap) as producer:
            await producer.send("orders", bytes(2000))
    assert not (tmp_path / "other").exists()


async def test_one_process_at_a_time_uses_a_directory(tmp_path: Path) -> None:
    async with EmbeddedNode(tmp_path):
        with pytest.raises(EmbeddedNodeError, match="another"):
            await EmbeddedNode(tmp_path).start()


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"tick_mss": 1}, "did you mean `tick_ms`"), ({"listen": "0.0.0.0:1"}, "`listen` is a setting of servers")],
)
async def test_wrong_settings_are_named(tmp_path: Path, settings: dict[str, object], message: str) -> None:
    node = EmbeddedNode(tmp_path, settings=settings)
    with pytest.raises(EmbeddedNodeError, match=message):
        await node.start()
    await node.stop()  # there is nothing to stop


def open_files(directory: Path) -> list[str]:
    """Return the files in `directory` that this process has open."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:  # of the listing itself
            continue
    return [path for path in found if path.startswith(str(directory))]


@pytest.mark.parametrize(
    ("settings", "hidden", "message"),
    [
        ({"secrets_key_file": "missing"}, "", "missing"),
        ({"otel_endpoint": "http://127.0.0.1:4317"}, "cluster.node.node_spans", "packages of OpenTelemetry"),
    ],
)
async def test_a_failed_start_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], hidden: str, message: str
) -> None:
    async with EmbeddedNode(tmp_path) as node:
        await create_topic(node)
    if hidden:
        monkeypatch.setitem(sys.modules, hidden, None)
    for _ in range(2):
        with pytest.raises(EmbeddedNodeError, match=message):
            await EmbeddedNode(tmp_path, settings=settings).start()
        assert open_files(tmp_path) == []
    async with EmbeddedNode(tmp_path) as node, AsyncProducer(node.bootstrap) as producer:
        await producer.send("orders", b"1")


async def test_a_node_that_may_have_forgotten_its_vote_does_not_start(tmp_path: Path) -> None:
    async with EmbeddedNode(tmp_path) as node:
        await create_topic(node)
    (tmp_path / "shard-0" / "vote").unlink()
    for _ in range(2):
        with pytest.raises(EmbeddedNodeError, match="the vote file is missing"):
            await EmbeddedNode(tmp_path).start()


async def test_a_damaged_shard_leaves_no_file_of_another_shard_open(tmp_path: Path) -> None:
    async with EmbeddedNode(tmp_path, settings={"shards": 2}) as node:
        await create_topic(node, queues=2)
    vote = tmp_path / "shard-1" / "vote"
    before = vote.read_bytes()
    vote.write_bytes(b"?" * len(before))
    with pytest.raises(EmbeddedNodeError, match="no vote file"):
        await EmbeddedNode(tmp_path, settings={"shards": 2}).start()
    assert open_files(tmp_path) == []
    vote.write_bytes(before)
    async with EmbeddedNode(tmp_path, settings={"shards": 2}):
        pass


BREAKING = """
import asyncio, sys
from ledgermq import AsyncAdmin, AsyncProducer
from ledgermq.embedded import EmbeddedNode, EmbeddedNodeError


from ledgermq.errors import LedgerError

def broken():
    raise ZeroDivisionError

async def main():
    node = EmbeddedNode(sys.argv[1])
    async with node, AsyncProducer(node.bootstrap, delivery_timeout_ms=2000) as producer:
        async with AsyncAdmin(node.bootstrap) as admin:
            await admin.create_topic("orders", 1)
        await producer.send("orders", b"before")
        node._vital.event(broken)()
        print(repr(await node.wait_failed()))
        try:
            await producer.send("orders", b"after")
        except LedgerError:
            print("refused")
    try:
        await EmbeddedNode(sys.argv[1]).start()
    except EmbeddedNodeError:
        print("still locked")

asyncio.run(main())
print("the process goes on")
"""


async def test_a_broken_invariant_ends_the_node_and_not_the_process(tmp_path: Path) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", BREAKING, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    expected = ["ZeroDivisionError()", "refused", "still locked", "the process goes on"]
    assert done.stdout.splitlines() == expected, done.stderr
    async with EmbeddedNode(tmp_path) as node:
        assert await values(node, 1) == [b"before"]
