"""Three nodes whose disks run out of room: leadership goes to a node with room, and clients notice little."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc.aio
import pytest

from cluster.health import health_of, rows_of
from ledger.errors import DeliveryTimeoutError, DiskFullError, LedgerError, TransferRefusedError
from ledgermq import AsyncAdmin, AsyncProducer
from store import DiskUsage, PosixDisk
from tests.cluster.failing_disk import FailingDisk
from tests.cluster.fleet import SEGMENT_BYTES, Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.mounts import NO_MOUNTS, may_mount, seen_by, small_disk
from tests.cluster.node_process import NodeProcess
from tests.cluster.scrape import get, not_ready, scrape
from tests.cluster.waiter import eventually, until

NODES = (1, 2, 3)
DISK_BYTES = 40 << 20
# A node that refuses writes looks for room four times a second, and other watches every ten seconds.
SOON_S = 5.0


class ToldDisk(PosixDisk):
    """A disk whose use the test sets, in percent."""

    percent = 9

    def usage(self, path: object) -> DiskUsage:
        return DiskUsage(100 << 30, (100 - self.percent) << 30)


@pytest.fixture
def disks() -> dict[int, ToldDisk]:
    return {node: ToldDisk() for node in NODES}


@pytest.fixture
def fleet(make_fleet: MakeFleet, disks: dict[int, ToldDisk]) -> Fleet:
    # The disk is looked at as often as with the default settings.
    return make_fleet(3, disks=disks, disk_refuse_ratio=0.9, retention_check_ms=10_000)


def other_leads(fleet: Fleet, node: int) -> Callable[[], Awaitable[int]]:
    async def leads() -> int:
        leader = (await fleet.status(node)).leader
        return leader if leader not in (0, node) else 0

    return leads


def refusing(fleet: Fleet, leader: int) -> set[int]:
    """Return the followers that take no writes, as the leader knows it."""
    replica = fleet.running[leader]._shards.first.replica
    assert replica is not None
    return {node for node, progress in replica.driver.raft.progress.items() if progress.refuses_writes}


async def readiness(fleet: Fleet, node: int, path: str = "/readyz") -> tuple[int, dict[str, object]]:
    status, body = await get(fleet.http(node), path)
    return status, json.loads(body)


async def test_a_leader_whose_disk_is_nearly_full_hands_over(fleet: Fleet, disks: dict[int, ToldDisk]) -> None:
    await fleet.start()
    leader = await fleet.leader()
    topic = await fleet.create_topic()
    await fleet.level()
    async with AsyncProducer(fleet.bootstrap) as producer, AsyncAdmin(fleet.bootstrap) as admin:
        await producer.send("topic", b"one")
        disks[leader].percent = 93
        other = await eventually(other_leads(fleet, leader), "another node leads", deadline_s=5)
        async with asyncio.timeout(5):
            await producer.send("topic", b"two")

        assert await readiness(fleet, other) == (200, {"status": "ready", "reads": True, "writes": True})
        assert (await readiness(fleet, other, "/readyz/writes"))[0] == 200
        status, body = await readiness(fleet, leader)
        reason = str(body.pop("reason"))
        assert (status, body) == (200, {"status": "ready", "reads": True, "writes": False})
        assert f"the disk of node {leader} is 93% full" in reason
        assert (await readiness(fleet, leader, "/readyz/writes"))[0] == 503
        metrics = [(await scrape(fleet.http(node)))["ledgermq_raft_refuses_writes"] for node in (leader, other)]
        assert metrics == [1, 0]
        scrapes = [await scrape(fleet.http(node)) for node in (leader, other)]
        assert [(each["ledgermq_node_ready"], each["ledgermq_node_takes_writes"]) for each in scrapes] == [
            (1, 0),
            (1, 1),
        ]
        rows = rows_of(list(await admin.cluster()))
        assert {row.node for row in rows if row.no_writes} == {leader}
        assert health_of(rows).status == "degraded"
        assert error_of(await fleet.fetch(leader, topic, 0)) is None

        with pytest.raises(TransferRefusedError, match=f"node {leader} takes no writes") as refused:
            await admin.transfer_leadership(leader)
        assert not refused.value.retriable
        disks[leader].percent = 9

        async def transferred() -> bool:
            try:
                return await admin.transfer_leadership(leader) == leader
            except TransferRefusedError:
                return False

        await eventually(transferred, "the node has room again, and leads")


async def test_a_leader_that_stops_hands_over_to_a_voter_with_room(fleet: Fleet, disks: dict[int, ToldDisk]) -> None:
    await fleet.start()
    leader = await fleet.leader()
    full, free = (node for node in NODES if node != leader)
    disks[full].percent = 95
    await until(lambda: full in refusing(fleet, leader), "the leader knows it")
    await fleet.level()
    await fleet.stop(leader)
    assert await fleet.leader() == free


async def test_while_no_node_has_room_the_cluster_can_be_read_and_then_takes_writes_at_once(
    fleet: Fleet, disks: dict[int, ToldDisk]
) -> None:
    await fleet.start()
    leader = await fleet.leader()
    topic = await fleet.create_topic()
    async with AsyncProducer(fleet.bootstrap, retry_backoff_ms=20) as producer:
        await producer.send("topic", b"one")
        others = {node for node in NODES if node != leader}
        for node in others:
            disks[node].percent = 93
        await until(lambda: refusing(fleet, leader) == others, "the leader knows it")
        disks[leader].percent = 93

        async def refused() -> bool:
            return type(error_of(await fleet.produce(leader, sample_batch(topic)))) is DiskFullError

        await eventually(refused, "the leader refuses")
        waits = asyncio.create_task(producer.send("topic", b"two"))
        async with AsyncAdmin(fleet.bootstrap) as admin:  # what an operator needs to make room is not refused
            await admin.hold_log("reader")
            await admin.release_log("reader")
        assert error_of(await fleet.fetch(leader, topic, 0)) is None
        assert await fleet.leader() == leader
        assert not await not_ready(fleet.http(leader))
        assert not waits.done()
        disks[leader].percent = 9

        async def taken() -> bool:
            return error_of(await fleet.produce(leader, sample_batch(topic, producer_id=9))) is None

        await eventually(taken, "writes are taken again", deadline_s=SOON_S)
        await waits


async def test_a_producer_says_that_disks_are_full(
    fleet: Fleet, disks: dict[int, ToldDisk], caplog: pytest.LogCaptureFixture
) -> None:
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    async with AsyncProducer(fleet.bootstrap, delivery_timeout_ms=7_000) as producer:
        await producer.send("topic", b"one")
        for disk in disks.values():
            disk.percent = 93
        running = fleet.running.values()
        await until(lambda: all(node._shards.no_writes() for node in running), "the nodes know that they are full")
        with pytest.raises(DeliveryTimeoutError, match=r"the disk of node [123] is 93% full"):
            await producer.send("topic", b"two")
    (said,) = [record.getMessage() for record in caplog.records if record.name == "ledgermq.client.producer"]
    assert said.startswith("Messages for shard 0 have waited 5 s")
    assert "is 93% full" in said


async def test_a_leader_whose_followers_cannot_write_says_so(make_fleet: MakeFleet) -> None:
    """Before, producers waited for `delivery_timeout_ms` and did not learn why."""
    disks = {node: FailingDisk() for node in NODES}
    fleet = make_fleet(3, disks=disks)
    await fleet.start()
    leader = await fleet.leader()
    topic = await fleet.create_topic()
    followers = [node for node in NODES if node != leader]
    async with AsyncProducer(fleet.bootstrap, retry_backoff_ms=20, delivery_timeout_ms=5_000) as producer:
        await producer.send("topic", b"one")
        for node in followers:
            disks[node].fails_writes = True
        waits = asyncio.create_task(producer.send("topic", b"two"))

        async def refusal() -> str:
            """Send until the node refuses at once, and return why it does."""
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    error = error_of(await fleet.produce(leader, sample_batch(topic, producer_id=9)))
                    return error.message if type(error) is DiskFullError else ""
            return ""

        reason = await eventually(refusal, "the leader refuses")
        assert f"the disks of nodes {followers[0]}, {followers[1]} are full or have failed" in reason
        status, body = await readiness(fleet, leader)
        assert (status, body["writes"]) == (200, False)
        assert (await fleet.status(leader)).role == "leader"
        with pytest.raises(DeliveryTimeoutError):
            await waits
    async with AsyncProducer(fleet.bootstrap, retry_backoff_ms=20, delivery_timeout_ms=3_000) as producer:
        with pytest.raises(DeliveryTimeoutError, match="are full or have failed"):
            await producer.send("topic", b"three")


@pytest.mark.skipif(not may_mount(), reason=NO_MOUNTS)
async def test_a_real_small_disk_that_fills_under_the_leader(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3, disk_refuse_ratio=0.9)
    disk = fleet.data(3)
    disk.mkdir(parents=True)
    fleet.override(1, disk_refuse_ratio=0)
    fleet.override(2, disk_refuse_ratio=0)
    with NodeProcess(fleet.write_toml(3), before=small_disk(disk, DISK_BYTES)) as process:
        await fleet.start(1, 2)
        await fleet.create_topic()
        async with AsyncProducer(fleet.bootstrap) as producer, AsyncAdmin(fleet.bootstrap) as admin:
            await admin.transfer_leadership(3)
            await producer.send("topic", b"one")
            filler = seen_by(process.pid, disk / "filler")
            fill_up(filler, leave=0.07)
            async with asyncio.timeout(10):
                await producer.send("topic", b"two")
            await eventually(other_leads(fleet, 3), "another node leads")
            with pytest.raises(TransferRefusedError, match="node 3 takes no writes"):
                await admin.transfer_leadership(3)
            filler.unlink()

            async def transferred() -> bool:
                try:
                    return await admin.transfer_leadership(3) == 3
                except TransferRefusedError:
                    return False

            await eventually(transferred, "the node has room again, and leads")
            await producer.send("topic", b"three")
        assert "Traceback" not in process.log


@pytest.mark.skipif(not may_mount(), reason=NO_MOUNTS)
async def test_a_node_with_a_full_disk_is_not_elected_after_kill_9(make_fleet: MakeFleet) -> None:
    """Three processes. The election timeout of node 3 is shorter than that of node 2, so node 3 would win most often if
    it stood as early as a node with room."""
    fleet = make_fleet(3, disk_refuse_ratio=0, spread_leaders=False)
    fleet.override(2, election_ticks=16)
    fleet.override(3, election_ticks=10, disk_refuse_ratio=0.9)
    disk = fleet.data(3)
    disk.mkdir(parents=True)
    with (
        NodeProcess(fleet.write_toml(1)) as leader,
        NodeProcess(fleet.write_toml(2)),
        NodeProcess(fleet.write_toml(3), before=small_disk(disk, DISK_BYTES)) as full,
    ):
        await eventually(lambda: answers(fleet), "the nodes answer")
        async with AsyncAdmin(fleet.bootstrap) as admin, AsyncProducer(fleet.bootstrap) as producer:
            await eventually(lambda: leadership_of(admin, 1), "node 1 leads")
            await admin.create_topic("topic")
            fill_up(seen_by(full.pid, disk / "filler"), leave=0.07)
            await eventually(lambda: refuses_writes(fleet, 3), "node 3 takes no writes")
            await producer.send("topic", b"one")
            await eventually(lambda: all_hold(admin, (2, 3)), "both followers hold everything")
            term = (await fleet.status(1)).term
            leader.send_signal(signal.SIGKILL)
            await leader.ended()
            async with asyncio.timeout(15):
                await producer.send("topic", b"two")
            status = await fleet.status(2)
            assert (status.role, status.term) == ("leader", term + 1), "node 3 did not lead in between"


async def answers(fleet: Fleet) -> bool:
    """Return True if all nodes answer."""
    try:
        return all([await fleet.status(node) for node in fleet.nodes])
    except grpc.aio.AioRpcError:
        return False


async def leadership_of(admin: AsyncAdmin, node: int) -> bool:
    """Return True if the node leads; otherwise ask for a handover to the node."""
    with contextlib.suppress(LedgerError):  # the nodes are starting
        if (await admin.members()).leader == node:
            return True
        await admin.transfer_leadership(node)
    return False


async def refuses_writes(fleet: Fleet, node: int) -> bool:
    return (await scrape(fleet.http(node)))["ledgermq_raft_refuses_writes"] == 1


async def all_hold(admin: AsyncAdmin, nodes: tuple[int, ...]) -> bool:
    lags = {member.node: member.lag_entries for member in (await admin.members()).members}
    return all(lags[node] == 0 for node in nodes)


@pytest.mark.skipif(not may_mount(), reason=NO_MOUNTS)
async def test_without_room_for_another_segment_writes_are_refused_before_they_fail(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1, retention_check_ms=10)
    disk = fleet.data(1)
    disk.mkdir(parents=True)
    with NodeProcess(fleet.write_toml(1), before=small_disk(disk, DISK_BYTES)) as process:
        await eventually(lambda: serves(fleet), "the node leads")
        topic = await fleet.create_topic()
        filler, value, sent = seen_by(process.pid, disk / "filler"), bytes(10_000), 0
        fill_up(filler, leave=SEGMENT_BYTES / 2 / DISK_BYTES)
        # Fifty messages fill the part of the segment that is kept. The disk is looked at every few of them.
        while (error := error_of(await fleet.produce(1, sample_batch(topic, [value], first_sequence=sent)))) is None:
            sent += 1
        assert type(error) is DiskFullError
        assert "the disk of node 1 has no room for the next segment" in error.message
        assert sent > 5
        async with AsyncAdmin(fleet.bootstrap) as admin:  # the node leads on, with what it has kept for this
            await admin.hold_log("reader")
            await admin.release_log("reader")
        assert error_of(await fleet.fetch(1, topic, 0)) is None
        assert not await not_ready(fleet.http(1))
        filler.unlink()

        async def taken() -> bool:
            return error_of(await fleet.produce(1, sample_batch(topic, [value], first_sequence=sent))) is None

        await eventually(taken, "writes are taken again", deadline_s=SOON_S)
        assert "no writes on this node" not in process.log, "no write has failed"


async def serves(fleet: Fleet) -> bool:
    try:
        return (await fleet.status(1)).role == "leader"
    except grpc.aio.AioRpcError:
        return False


def fill_up(filler: Path, *, leave: float) -> None:
    """Fill the disk, and leave the share `leave` of it free."""
    filler.touch()
    found = os.statvfs(filler)
    filler.write_bytes(bytes(int((found.f_bavail - leave * found.f_blocks) * found.f_frsize)))
