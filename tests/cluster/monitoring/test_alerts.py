"""Each alert of deploy/prometheus fires when its fault is really made.

A real Prometheus evaluates the rules against real node processes. All durations of the rules are 60 times shorter
(prometheus.py). The faults of peers and certificates are in test_peer_alerts.py.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from ledger.errors import LedgerError
from ledgermq import AsyncAdmin, AsyncGroupConsumer, AsyncProducer, AsyncSharedConsumer
from tests.cluster.fleet import sample_batch
from tests.cluster.monitoring.node_processes import NodeProcesses
from tests.cluster.monitoring.prometheus import Prometheus, needs_prometheus
from tests.cluster.mounts import NO_MOUNTS, Namespace, may_mount, tmpfs
from tests.cluster.spoiler import flip, headers

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

FIRED = {
    "nodes": (
        "ClockOffset", "EventLoopLag", "FollowerLagging", "InsufficientMembers", "ManyLeaderChanges", "MemberSilent",
        "NodeDown", "NodeNotReady", "ShardWithoutLeader", "WritesGivenUp",
    ),
    "consumers": (
        "ClockLeapt", "DeadLetters", "GroupFarBehind", "GroupLagGrows", "OldHalfMessage", "SharedWindowFull",
    ),
    "disks": (
        "DiskFailed", "DiskFillsUp", "DiskNearlyFull", "LateDeliveries", "RefusesWrites", "SendsRefused", "SlowCommits",
        "SlowFlushes",
    ),
    "logs": (
        "CheckpointIgnored", "Diverged", "LogDamaged", "LogRepaired", "LossAccepted", "StoppedApplying", "Suspect",
    ),
}  # fmt: skip
"""The alerts, by the test that makes them fire."""

WINDOW = 20_000
"""The messages of a queue that a shared group can have in hand."""


FULL = """[ "$(df --output=pcent "$0" | tail -n 1 | tr -d ' %')" -ge 93 ]"""
"""A shell command that succeeds if the disk with the directory $0 is used to 93%."""


@pytest.fixture(autouse=True)
def _prometheus() -> None:
    needs_prometheus()


@asynccontextmanager
async def repeated(work: Callable[[], Awaitable[object]], every_s: float) -> AsyncIterator[None]:
    """Do this again and again during the block. Errors of the cluster change nothing."""

    async def run() -> None:
        while True:
            with suppress(LedgerError):
                await work()
            await asyncio.sleep(every_s)

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_nodes_that_fail(tmp_path: Path) -> None:
    """A wrong clock, a silent follower, a slow event loop, transfers of leadership, a lost majority."""
    async with NodeProcesses(tmp_path / "nodes", spread_leaders=False) as nodes:
        nodes.start(1, 2)
        nodes.start(3, fault="clock")
        await nodes.ready()
        topic = await nodes.fleet.create_topic("topic", queues=64)
        async with Prometheus(tmp_path / "prometheus", {"ledgermq": nodes.http}) as prometheus:
            await prometheus.is_quiet()
            await fail(nodes, prometheus, topic)


async def fail(nodes: NodeProcesses, prometheus: Prometheus, topic: int) -> None:
    leader = await nodes.leader()
    silent, other = (node for node in nodes.fleet.nodes if node != leader)
    nodes.pause(silent)
    async with AsyncProducer(nodes.bootstrap, linger_ms=0) as producer:
        for _ in range(100):  # each round makes an entry of the log for each queue
            await asyncio.gather(*(producer.send("topic", b"x", queue=queue) for queue in range(64)))
        await prometheus.fires("LedgermqFollowerLagging", peer=str(silent))
        await prometheus.fires("LedgermqMemberSilent", peer=str(silent))
        await prometheus.fires("LedgermqNodeDown", instance=nodes.fleet.http(silent))
        nodes.resume(silent)
        nodes.begin_fault(3, "30000")
        await nodes.ready()
        await prometheus.fires("LedgermqClockOffset", peer="3")

        async def hiccup() -> None:
            nodes.pause(silent)
            try:
                await asyncio.sleep(0.4)
            finally:
                nodes.resume(silent)

        async def transfer() -> None:
            await admin.transfer_leadership(leader if await nodes.leader(leader, other) == other else other)

        async with AsyncAdmin(nodes.bootstrap) as admin, repeated(hiccup, 0.4), repeated(transfer, 1.0):
            await prometheus.fires("LedgermqManyLeaderChanges")
            await prometheus.fires("LedgermqEventLoopLag", instance=nodes.fleet.http(silent))

        leader = await nodes.leader()
        followers = [node for node in nodes.fleet.nodes if node != leader]
        nodes.pause(*followers)
        batches = [sample_batch(topic, queue=queue, producer_id=50 + queue) for queue in range(20)]
        waiting = [asyncio.create_task(nodes.fleet.produce(leader, batch)) for batch in batches]
        await prometheus.fires("LedgermqInsufficientMembers")
        await prometheus.fires("LedgermqShardWithoutLeader", shard="0")
        await prometheus.fires("LedgermqNodeNotReady", instance=nodes.fleet.http(leader))
        await prometheus.fires("LedgermqWritesGivenUp", instance=nodes.fleet.http(leader))
        nodes.resume(*followers)
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_consumers_that_fail(tmp_path: Path) -> None:
    """Groups that fall behind, give up messages and keep messages, a transaction that nobody ends, and a clock that
    leaps."""
    async with NodeProcesses(tmp_path / "node", 1) as nodes:
        nodes.start(1, fault="clock")
        await nodes.ready()
        async with AsyncAdmin(nodes.bootstrap) as admin:
            for name in ("orders", "work", "payments"):
                await admin.create_topic(name, 1)
            await admin.create_consumer_group("workers")
        async with (
            Prometheus(tmp_path / "prometheus", {"ledgermq": nodes.http}) as prometheus,
            AsyncProducer(nodes.bootstrap) as producer,
            AsyncGroupConsumer("orders", group="billing", bootstrap_servers=nodes.bootstrap) as consumer,
            AsyncSharedConsumer("work", group="workers", bootstrap_servers=nodes.bootstrap, lease_ms=600_000) as worker,
        ):
            transaction = producer.transaction("payments", group="checkout")
            await transaction.__aenter__()
            await transaction.send(b"half")
            for _ in range(WINDOW // 1_000 + 1):
                await producer.send_many("work", [b"work"] * 1_000)

            async def work() -> None:
                await worker.receive(1_000, max_wait_ms=1_000)

            async def order() -> None:
                await producer.send_many("orders", [b"order"] * 100)

            await producer.send_many("orders", [b"order"] * 2_000)
            first, *_ = await consumer.getmany()
            await consumer.give_up(first)
            async with repeated(work, 0), repeated(order, 0.2):
                await prometheus.fires("LedgermqDeadLetters", consumer_group="billing")
                await prometheus.fires("LedgermqGroupLagGrows", consumer_group="billing")
                await prometheus.fires("LedgermqSharedWindowFull", consumer_group="workers")
            await prometheus.fires("LedgermqOldHalfMessage", deadline_s=90)
            nodes.begin_fault(1, "3600000")
            await prometheus.fires("LedgermqClockLeapt")
            await prometheus.fires("LedgermqGroupFarBehind", consumer_group="billing")
            await transaction.rollback()


async def test_disks_that_fail(tmp_path: Path) -> None:
    """A slow disk, a disk whose writes fail, and a disk that fills up, each under a node of its own."""
    if not may_mount():
        pytest.skip(NO_MOUNTS)
    small = tmp_path / "full" / "node-1"
    async with (
        NodeProcesses(tmp_path / "slow", 1, flush="sync") as slow,
        NodeProcesses(tmp_path / "failed", 1) as failed,
        NodeProcesses(tmp_path / "full", 1, disk_refuse_ratio=0.9) as full,
    ):
        jobs = {"ledgermq-slow": slow.http, "ledgermq-failed": failed.http, "ledgermq-full": full.http}
        small.mkdir()
        with Namespace(small, tmpfs(64 << 20)) as disk:
            slow.start(fault="slow disk")
            failed.start(fault="failed disk")
            full.start(before=disk.inside)
            for each in (slow, failed, full):
                await each.ready()
            topics = {each: await each.fleet.create_topic() for each in (slow, failed, full)}
            slow.begin_fault(1, "0.8")
            failed.begin_fault(1)
            sent = 0

            async def send(each: NodeProcesses) -> None:
                nonlocal sent
                sent += 1
                batch = sample_batch(topics[each], producer_id=100 + sent)
                async with asyncio.timeout(20):
                    await each.fleet.produce(1, batch)

            async def fill() -> None:
                disk.run(f'{FULL} || head -c 1M /dev/zero >> "$0/filler"')

            async def remind() -> None:
                await producer.send("topic", b"late", delay=timedelta(seconds=5))  # the last ones cannot be delivered

            async with (
                Prometheus(tmp_path / "prometheus", jobs) as prometheus,
                AsyncProducer(full.bootstrap, delivery_timeout_ms=2_000) as producer,
                repeated(remind, 0.5),
                repeated(fill, 0.2),
                repeated(lambda: send(slow), 0.1),
                repeated(lambda: send(failed), 1.0),
                repeated(lambda: send(full), 0.2),
            ):
                await prometheus.fires("LedgermqDiskFailed", job="ledgermq-failed")
                await prometheus.fires("LedgermqSlowFlushes", job="ledgermq-slow")
                await prometheus.fires("LedgermqSlowCommits", job="ledgermq-slow")
                await prometheus.fires("LedgermqRefusesWrites", job="ledgermq-full")
                await prometheus.fires("LedgermqDiskNearlyFull", job="ledgermq-full")
                await prometheus.fires("LedgermqDiskFillsUp", job="ledgermq-full")
                await prometheus.fires("LedgermqSendsRefused", job="ledgermq-full")
                await prometheus.fires("LedgermqLateDeliveries", job="ledgermq-full")
            slow.end_fault(1)
            await full.kill()


async def test_logs_that_fail(tmp_path: Path) -> None:
    """Damaged files, power cuts, a program with a fault, and two nodes that are put back to an old copy."""
    async with NodeProcesses(tmp_path / "nodes", spread_leaders=False) as nodes:
        await write_history(nodes)
        async with Prometheus(tmp_path / "prometheus", {"ledgermq": nodes.http}) as prometheus:
            await damage(nodes, prometheus)
            await cut_power_of_all(nodes, prometheus)
            await break_the_program(nodes, prometheus)
            await put_back(nodes, prometheus)


async def write_history(nodes: NodeProcesses) -> None:
    nodes.start()
    await nodes.ready()
    await nodes.fleet.create_topic()
    await send(nodes, 50, producer_id=7)
    await nodes.stop()


async def damage(nodes: NodeProcesses, prometheus: Prometheus) -> None:
    """Node 3 has a damaged log, and nobody to ask. Node 2 has a damaged checkpoint."""
    found = headers(nodes.fleet, 3)
    flip(nodes.fleet, 3, found[len(found) // 2], "body")
    (nodes.fleet.data(3) / "shard-0" / "clean").unlink()
    for path in (nodes.fleet.data(3) / "shard-0").glob("checkpoint*"):
        path.unlink()
    spoil_checkpoint(nodes.fleet.data(2) / "shard-0")
    nodes.start(3)
    await prometheus.fires("LedgermqLogDamaged", instance=nodes.fleet.http(3))
    nodes.start(1, 2)
    await nodes.ready()
    await prometheus.fires("LedgermqLogRepaired", instance=nodes.fleet.http(3))
    await prometheus.fires("LedgermqCheckpointIgnored", instance=nodes.fleet.http(2))


def spoil_checkpoint(directory: Path) -> None:
    (checkpoint,) = (path for path in directory.rglob("checkpoint*") if path.is_file())
    data = bytearray(checkpoint.read_bytes())
    data[len(data) // 2] ^= 1
    checkpoint.write_bytes(data)


async def cut_power_of_all(nodes: NodeProcesses, prometheus: Prometheus) -> None:
    """The power of all nodes is cut, so all are suspects. One of them alone stays one."""
    await nodes.kill()
    nodes.boot(*nodes.fleet.nodes)
    nodes.start(1)
    await prometheus.fires("LedgermqSuspect", instance=nodes.fleet.http(1))
    nodes.start(2, 3)
    await nodes.ready()
    await prometheus.fires("LedgermqLossAccepted")


async def break_the_program(nodes: NodeProcesses, prometheus: Prometheus) -> None:
    await nodes.kill(2)
    nodes.start(2, fault="program")
    await nodes.ready()
    nodes.begin_fault(2)
    async with AsyncAdmin(nodes.bootstrap) as admin:
        await admin.create_topic("another")
    await prometheus.fires("LedgermqStoppedApplying", instance=nodes.fleet.http(2))


async def put_back(nodes: NodeProcesses, prometheus: Prometheus) -> None:
    """Nodes 1 and 2 get an old copy of their directories, and write another history than node 3 has."""
    await nodes.stop()
    for node in (1, 2):
        shutil.copytree(nodes.fleet.data(node), nodes.fleet.directory / f"copy-{node}")
    nodes.start()
    await nodes.ready()
    await send(nodes, 20, producer_id=8)
    await nodes.stop()
    for node in (1, 2):
        shutil.rmtree(nodes.fleet.data(node))
        shutil.move(nodes.fleet.directory / f"copy-{node}", nodes.fleet.data(node))
    nodes.start(1, 2)
    await nodes.ready(1, 2)
    await send(nodes, 30, producer_id=9)
    nodes.start(3)
    await prometheus.fires("LedgermqDiverged", instance=nodes.fleet.http(3))


async def send(nodes: NodeProcesses, count: int, *, producer_id: int) -> None:
    """Send batches one by one."""
    async with AsyncAdmin(nodes.bootstrap) as admin:
        topic = (await admin.describe_topic("topic")).topic_id
    leader = await nodes.leader()
    for number in range(count):
        batch = sample_batch(topic, [bytes([producer_id]) * 100], producer_id=producer_id, first_sequence=number)
        assert not (await nodes.fleet.produce(leader, batch)).HasField("error")
