"""A cluster is upgraded from the program before the last feature level, downgraded, and upgraded again, under load and
with kills.

The old program comes from the history of this repository (tests/golden/program.py), so this test tells what users of
that version see: no send fails, nothing is lost, nothing comes twice. Producers and consumers are of the present
version.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from ledger.errors import LedgerError
from ledger.state.feature_levels import LATEST_LEVEL
from ledger.v1 import broker_pb2
from ledgermq import AsyncAdmin, AsyncGroupConsumer
from tests.cluster.acknowledged_load import Load, assert_every_replica_holds
from tests.cluster.fleet import Fleet
from tests.cluster.scrape import not_ready
from tests.cluster.waiter import eventually, until
from tests.golden.program import ROOT, NoHistoryError, Program, before_the_last_level, unpack

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

SEED = int(os.environ.get("LEDGERMQ_TEST_SEED", time.time_ns() & 0xFFFF_FFFF))
NODES = (1, 2, 3)
PRESENT = Program(ROOT)
START_S = 40
# Messages that must be acknowledged between two steps.
SOME = 150
WRITERS = 1


class Cluster:
    """Three nodes as processes. Each of them runs the old program or the present one."""

    def __init__(self, directory: Path) -> None:
        self.fleet = Fleet(directory)  # for its ports, and to ask the nodes
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._programs: dict[int, Program] = {}

    def start(self, node: int, program: Program) -> None:
        fleet = self.fleet
        environment = {
            "LEDGERMQ_NODE": str(node),
            "LEDGERMQ_CLUSTER": "upgraded",
            "LEDGERMQ_DATA": str(fleet.data(node)),
            "LEDGERMQ_LISTEN": fleet.address(node),
            "LEDGERMQ_HTTP": fleet.http(node),
            "LEDGERMQ_PEERS": ",".join(f"{each}={fleet.address(each)}" for each in NODES),
            "LEDGERMQ_SEGMENT_BYTES": str(2 << 20),
            "LEDGERMQ_MAX_MESSAGE_BYTES": str(64 << 10),
            "LEDGERMQ_TICK_MS": "50",
            "LEDGERMQ_DISK_REFUSE_RATIO": "0",
        }
        self._programs[node] = program
        with open(self.log(node), "ab") as log:
            self._processes[node] = program.start(["-m", "ledgermq", "server", "run"], environment, log)

    def log(self, node: int) -> Path:
        return self.fleet.directory / f"node-{node}.log"

    async def end(self, node: int, number: int) -> None:
        process = self._processes.pop(node)
        process.send_signal(number)
        await asyncio.to_thread(process.wait, START_S)

    async def replace(self, node: int, program: Program, number: int = signal.SIGTERM) -> None:
        """End the node by this signal, start the program on its data, and wait until it is ready."""
        await self.end(node, number)
        self.start(node, program)
        await self.ready(node)

    async def kill_the_leader(self) -> None:
        """Kill the leader, and start the same program again."""
        leader = await self.leader()
        await self.replace(leader, self._programs[leader], signal.SIGKILL)

    async def ready(self, *nodes: int) -> None:
        for node in nodes:

            async def is_ready(node: int = node) -> bool:
                assert self._processes[node].poll() is None, self.log(node).read_text()[-2000:]
                with suppress(OSError):
                    return not await not_ready(self.fleet.http(node))
                return False

            await eventually(is_ready, f"node {node} is ready", deadline_s=START_S)

    async def refusal(self, node: int) -> str:
        """Wait until the node has ended by itself, and return the last line that it wrote."""
        process = self._processes.pop(node)
        status = await until(lambda: (found,) if (found := process.poll()) is not None else None, "the node ends")
        assert status != (0,)
        return self.log(node).read_text().splitlines()[-1]

    async def leader(self) -> int:
        async def led_by() -> int:
            statuses = [await self._status(node) for node in self._processes]
            return next((status.leader for status in statuses if status.role == "leader"), 0)

        return await eventually(led_by, "there is a leader")

    async def levels(self) -> set[int]:
        return {(await self._status(node)).feature_level for node in self._processes}

    async def _status(self, node: int) -> broker_pb2.ShardStatus:
        response = await self.fleet.broker(node).GetStatus(broker_pb2.GetStatusRequest(), timeout=5)
        status: broker_pb2.ShardStatus = response.shards[0]
        return status

    async def close(self) -> None:
        await self.fleet.close()
        for process in self._processes.values():
            process.kill()
            process.wait()


class Reading:
    """A consumer group with one member, which remembers every message that it was handed."""

    def __init__(self, bootstrap: list[str]) -> None:
        self.handed: list[tuple[tuple[int, int], bytes]] = []
        self._consumer = AsyncGroupConsumer(
            "topic", group="readers", bootstrap_servers=bootstrap, session_timeout_ms=60_000
        )
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Reading:
        await self._consumer.start()
        self._task = asyncio.create_task(self._read())
        return self

    async def _read(self) -> None:
        while True:
            for message in await self._consumer.getmany(timeout_ms=500):
                self.handed.append(((message.queue, message.offset), message.value))

    async def has(self, count: int) -> None:
        """Wait until this number of messages was handed out. Raises what ended the consumer."""
        task = self._task
        assert task is not None
        await until(lambda: len(self.handed) >= count or task.done(), f"{count} messages are consumed", deadline_s=60)
        if task.done():
            task.result()

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._consumer.stop()


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Program:
    try:
        program = unpack(before_the_last_level(), tmp_path_factory.mktemp("old") / "program")
    except NoHistoryError as error:
        pytest.skip(f"the program of the level before is not in this clone: {error}")
    assert program.latest_level == LATEST_LEVEL - 1
    return program


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path)
    try:
        yield cluster
    finally:
        await cluster.close()


async def test_an_upgrade_under_load_a_way_back_and_no_way_back_after_the_level(old: Program, cluster: Cluster) -> None:
    print(f"LEDGERMQ_TEST_SEED={SEED} repeats the draws of this run")
    rng = random.Random(SEED)
    for node in NODES:
        cluster.start(node, old)
    await cluster.ready(*NODES)
    bootstrap = cluster.fleet.bootstrap
    async with AsyncAdmin(bootstrap) as admin:
        await admin.create_topic("topic", 4)
    async with Reading(bootstrap) as reading:
        load = Load(",".join(bootstrap), "topic", rng, WRITERS, delivery_timeout_ms=60_000)
        async with load:
            await _up_and_down(cluster, old, load, rng)
        await reading.has(len(load.acknowledged))
    await assert_every_replica_holds(",".join(bootstrap), "topic", load.acknowledged)
    assert sorted(reading.handed) == sorted(load.acknowledged.items()), "each message is consumed exactly once"


async def _up_and_down(cluster: Cluster, old: Program, load: Load, rng: random.Random) -> None:
    await load.more(SOME)
    first, second, third = rng.sample(NODES, 3)

    # Up, all but one: the level stays.
    for node in (first, second):
        await cluster.replace(node, PRESENT, rng.choice([signal.SIGTERM, signal.SIGKILL]))
        await load.more(SOME)
    await cluster.kill_the_leader()
    assert await cluster.levels() == {LATEST_LEVEL - 1}

    # Back: the old program continues on the data that the present one wrote.
    for node in (first, second):
        await cluster.replace(node, old, rng.choice([signal.SIGTERM, signal.SIGKILL]))
        await load.more(SOME)
    assert await cluster.levels() == {LATEST_LEVEL - 1}

    # Up, all of them: the level rises by itself.
    for node in (third, first, second):
        await cluster.replace(node, PRESENT, rng.choice([signal.SIGTERM, signal.SIGKILL]))
        await load.more(SOME)

    async def risen() -> bool:
        with suppress(LedgerError):
            return await cluster.levels() == {LATEST_LEVEL}
        return False

    await eventually(risen, "the level of every replica rises", deadline_s=START_S)
    await cluster.kill_the_leader()
    await load.more(SOME)

    # Now the old program is too old: it does not start, and says why. The other nodes go on.
    await cluster.end(third, signal.SIGTERM)
    cluster.start(third, old)
    refused = await cluster.refusal(third)
    assert re.search(r"A snapshot of the state has .* this program knows .*: (install|use) ", refused), refused
    await load.more(SOME)
    cluster.start(third, PRESENT)
    await cluster.ready(third)
