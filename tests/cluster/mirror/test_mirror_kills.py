"""A mirror between two clusters of three node processes, while the mirror, leaders and whole clusters are killed.

Producers send all the time, and a consumer group reads at the source. At the end every message is in the target once
and in order. At every look, the group's offsets at the target are behind nothing that it has not consumed or that is
not copied.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledgermq import AsyncAdmin, AsyncGroupConsumer, AsyncProducer, LedgerError
from ledgermq.errors import UnknownGroupError
from tests.cluster.cli.command import start
from tests.cluster.fleet import Fleet
from tests.cluster.mirror.pair import mirrored, values
from tests.cluster.node_process import NodeProcess
from tests.cluster.scrape import is_ready
from tests.cluster.waiter import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

QUEUES = 3
NODES = (1, 2, 3)
READY_S = 60.0
ROUNDS = ("mirror", "source leader", "target leader", "mirror", "all of the target", "mirror", "all of the source")


class Processes:
    """A cluster of node processes."""

    def __init__(self, directory: Path, name: str) -> None:
        self.fleet = Fleet(directory / name, len(NODES), cluster=name, shards=2, tick_ms=100)
        self._stack = ExitStack()
        self._running: dict[int, NodeProcess] = {}

    async def start(self, *nodes: int) -> None:
        for node in nodes:
            self._running[node] = self._stack.enter_context(NodeProcess(self.fleet.write_toml(node)))
        for node in nodes:
            await eventually(partial(is_ready, self.fleet.http(node)), f"node {node} is ready", deadline_s=READY_S)

    async def kill(self, *nodes: int) -> None:
        """Kill nodes at the same time, and start them again."""
        for node in nodes:
            self._running[node].send_signal(signal.SIGKILL)
        for node in nodes:
            await self._running[node].ended()
        await self.start(*nodes)

    async def leader(self, shard: int) -> int:
        """Return the leader of a shard, or the first node if none is known."""
        with suppress(LedgerError):
            async with AsyncAdmin(self.fleet.bootstrap) as admin:
                for status in await admin.cluster():
                    for each in status.shards:
                        if each.shard == shard and each.role == "leader":
                            return status.node
        return NODES[0]

    async def close(self) -> None:
        self._stack.close()
        await self.fleet.close()


class Service:
    """Runs a command, and starts it again whenever it ends."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self.process: subprocess.Popen[bytes] | None = None
        self.errors: list[bytes] = []
        self._is_stopped = False
        self._task = asyncio.create_task(self._run())

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)

    async def stop(self) -> None:
        self._is_stopped = True
        while not self._task.done():
            self.kill()
            await asyncio.wait([self._task], timeout=0.2)

    async def _run(self) -> None:
        while not self._is_stopped:
            self.process = await asyncio.to_thread(start, *self._arguments)
            _, err = await asyncio.to_thread(self.process.communicate)
            if self.process.returncode != -signal.SIGKILL:
                self.errors.append(err)


async def send_all_the_time(source: Fleet, stop: asyncio.Event, rng: random.Random) -> None:
    """Send numbered messages, some singly and some together, with and without keys."""
    number = 0
    async with AsyncProducer(bootstrap_servers=source.bootstrap, delivery_timeout_ms=300_000) as producer:
        while not stop.is_set():
            count = rng.choice([1, 1, 5, 200])
            await producer.send_many(
                "orders", [(None if n % 3 else b"k%d" % (n % 11), b"%d" % n) for n in range(number, number + count)]
            )
            number += count
            await asyncio.sleep(0.01)


async def consume_all_the_time(source: Fleet) -> None:
    """Read with a group, and handle some messages slowly. A consumer gives up after 30 s without a leader."""
    while True:
        with suppress(LedgerError):
            async with AsyncGroupConsumer("orders", group="billing", bootstrap_servers=source.bootstrap) as consumer:
                async for message in consumer:
                    if message.offset % 500 == 0:
                        await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)


async def offsets(fleet: Fleet) -> dict[int, int]:
    """Return the offsets of the group."""
    async with AsyncAdmin(fleet.bootstrap) as admin:
        try:
            described = await admin.describe_consumer_group("billing")
        except UnknownGroupError:
            return {}
    return {each.queue: each.offset for each in described.queues if each.topic == "orders" and each.offset is not None}


async def check_offsets(pair: list[Processes]) -> bool:
    """Compare offsets at the target with those that the source has a moment later. Return True if the target has
    some. Nothing was skipped, so the offsets of both sides have the same numbers."""
    source, target = pair
    theirs = await offsets(target.fleet)
    ours = await offsets(source.fleet)
    async with AsyncAdmin(target.fleet.bootstrap) as admin:
        ends = {each.queue: each.end_offset for each in (await admin.describe_topic("orders")).offsets}
    for queue, offset in theirs.items():
        assert offset <= ours.get(queue, 0), f"queue {queue}: {theirs} at the target, {ours} at the source"
        assert offset <= ends[queue]
    return bool(theirs)


async def one_round(kind: str, pair: list[Processes], mirror: Service, rng: random.Random) -> None:
    source, target = pair
    shard = rng.randrange(2)
    match kind:
        case "mirror":
            for _ in range(3):
                mirror.kill()
                await asyncio.sleep(rng.uniform(0.5, 2.5))
        case "source leader":
            await source.kill(await source.leader(shard))
        case "target leader":
            await target.kill(await target.leader(shard))
        case "all of the target":
            await target.kill(*NODES)
        case "all of the source":
            await source.kill(*NODES)
    await asyncio.sleep(rng.uniform(1, 3))


async def test_every_message_is_copied_once_under_kills(tmp_path: Path) -> None:
    rng = random.Random(7)
    pair = [Processes(tmp_path, "here"), Processes(tmp_path, "there")]
    stop = asyncio.Event()
    work: list[asyncio.Task[Any]] = []
    mirror: Service | None = None
    try:
        for each in pair:
            each.fleet.directory.mkdir(parents=True, exist_ok=True)
            await each.start(*NODES)
        source, target = (each.fleet for each in pair)
        await source.create_topic("orders", QUEUES)
        work = [
            asyncio.create_task(send_all_the_time(source, stop, random.Random(8))),
            asyncio.create_task(consume_all_the_time(source)),
        ]
        options = ("--topic", "ord*", "--group", "*", "--name", "dr")
        mirror = Service("mirror", "--from", ",".join(source.bootstrap), "--to", ",".join(target.bootstrap), *options)
        looks = 0
        for kind in ROUNDS:
            await one_round(kind, pair, mirror, rng)
            with suppress(LedgerError):  # a cluster may have no leader now
                looks += await check_offsets(pair)
            assert not any(task.done() for task in work), work
        stop.set()
        await work[0]
        await mirror.stop()
        done = await mirrored(source, target, "ord*", groups=("*",), name="dr")
        assert done.tally.lag == 0
        assert looks >= 2, mirror.errors
        await check_offsets(pair)
        sent, copied = await values(source, "orders"), await values(target, "orders")
        assert copied == sent
        assert sum(map(len, sent)) > 1_000
        assert not [err for err in mirror.errors if b"Traceback" in err], mirror.errors
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        if mirror is not None:
            await mirror.stop()
        for each in pair:
            await each.close()
