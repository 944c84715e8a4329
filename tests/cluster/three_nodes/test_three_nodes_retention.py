"""Tests retention on three nodes: all nodes remove the same entries, readers get an error for removed offsets, and
an operator can trim the log or hold it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import grpc.aio
import pytest

from ledger.errors import (
    DiskFullError,
    InvalidArgumentError,
    LedgerError,
    LogHeldError,
    OffsetBeyondEndError,
    OffsetTooLowError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledgermq import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer
from tests.cluster.fleet import SEGMENT_BYTES, Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.mounts import NO_MOUNTS, may_mount, seen_by, small_disk
from tests.cluster.node_process import NodeProcess
from tests.cluster.scrape import scrape
from tests.cluster.waiter import eventually

VALUE = bytes(range(256)) * 200  # 50 KB
PER_SEGMENT = SEGMENT_BYTES // len(VALUE)
KEPT_BYTES = 3 * SEGMENT_BYTES


async def fill(fleet: Fleet, segments: int) -> None:
    async with AsyncProducer(fleet.bootstrap) as producer:
        for _ in range(segments):
            await producer.send_many("topic", [VALUE] * PER_SEGMENT)


def segments_of(fleet: Fleet, node: int) -> list[str]:
    return sorted(path.name for path in (fleet.data(node) / "shard-0" / "log").iterdir())


def start_of(fleet: Fleet, node: int) -> int:
    replica = fleet.running[node]._shards.first.replica
    assert replica is not None
    return replica.log.first_index


async def start_everywhere(fleet: Fleet) -> int:
    """Wait until all running nodes have the same first index and have removed the files before it. Return the
    index."""

    async def same() -> int:
        await fleet.level()
        starts = {start_of(fleet, node) for node in fleet.running}
        names = {tuple(segments_of(fleet, node)) for node in fleet.running}
        return starts.pop() if len(starts) == 1 and len({each[0] for each in names}) == 1 else 0

    return await eventually(same, "all running nodes begin their logs at the same place")


async def until_start(fleet: Fleet, beyond: int) -> int:
    async def moved() -> int:
        start = await start_everywhere(fleet)
        return start if start > beyond else 0

    return await eventually(moved, f"the log begins behind entry {beyond}")


async def first_offset(fleet: Fleet) -> int:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        (queue,) = (await admin.describe_topic("topic")).offsets
        return queue.first_offset


async def test_what_is_too_much_goes_on_all_replicas_and_readers_are_told(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(4, retention_bytes=KEPT_BYTES)
    founders = {node: fleet.address(node) for node in (1, 2, 3)}
    for node in founders:
        fleet.override(node, peers=founders)
    fleet.override(4, peers={}, join=True, advertised=fleet.address(4))
    await fleet.start(1, 2, 3)
    await fleet.leader()
    await fleet.create_topic()
    await fill(fleet, 8)
    await until_start(fleet, 1)
    leader = await fleet.leader()
    replica = fleet.running[leader]._shards.first.replica
    assert replica is not None
    log = replica.log

    async def trimmed() -> int:
        start = await start_everywhere(fleet)
        return start if log.end - log.start < KEPT_BYTES + 2 * SEGMENT_BYTES else 0

    start = await eventually(trimmed, "all that is too much has gone")
    assert log.end - log.start >= KEPT_BYTES, "no more goes than must"
    assert int(segments_of(fleet, 1)[0]) > 0
    await check_readers(fleet)
    await check_metrics(fleet, leader)

    await fleet.start(4)  # it gets the base, and what is kept
    async with AsyncAdmin(fleet.bootstrap[:3]) as admin:
        await admin.add_node(4, fleet.address(4), promote=True, timeout_ms=30_000)
    assert await start_everywhere(fleet) == start
    await fill(fleet, 3)
    later = await until_start(fleet, start)

    await fleet.stop()
    await fleet.start()
    await fleet.leader()
    assert await start_everywhere(fleet) == later
    await check_readers(fleet)


async def check_readers(fleet: Fleet) -> None:
    first = await first_offset(fleet)
    assert first > 0
    for node in fleet.running:
        async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap, start=0, node=node) as consumer:
            with pytest.raises(OffsetTooLowError, match=f"no longer available: valid are {first} to") as told:
                await consumer.getmany(1, timeout_ms=10_000)
            assert told.value.first_offset == first
            await consumer.seek("topic", 0, first)
            assert (await anext(consumer)).value == VALUE
        async with AsyncConsumer(
            "topic", bootstrap_servers=fleet.bootstrap, start=0, node=node, on_dropped="skip"
        ) as consumer:
            assert ((await anext(consumer)).offset, consumer.skipped) == (first, first)
            assert ((await anext(consumer)).offset, consumer.skipped) == (first + 1, first)


async def check_metrics(fleet: Fleet, leader: int) -> None:
    replica = fleet.running[leader]._shards.first.replica
    assert replica is not None
    seen = await scrape(fleet.http(leader))
    assert seen["ledgermq_log_first_index"] == replica.log.first_index
    assert seen["ledgermq_log_kept_bytes"] == replica.log.end - replica.log.start
    assert seen["ledgermq_log_dropped_bytes_total"] == replica.log.start
    assert 0 < seen["ledgermq_disk_use_ratio"] < 1
    assert seen["ledgermq_log_holds"] == 0


async def test_what_is_too_old_goes(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1, retention_hours=1.5 / 3600)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    await fill(fleet, 3)
    began = time.monotonic()
    assert start_of(fleet, 1) == 1
    await until_start(fleet, 1)
    assert time.monotonic() - began > 0.5
    assert await first_offset(fleet) >= PER_SEGMENT


async def test_a_hold_keeps_all_that_is_there_across_a_change_of_leader(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3, retention_bytes=KEPT_BYTES)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        taken = await admin.hold_log("spark", ttl_ms=600_000)
        assert taken.expires_ms - taken.taken_ms == 600_000
        await fill(fleet, 6)
        await admin.transfer_leadership()
        await fill(fleet, 1)
        assert await admin.log_holds() == [taken]
        would_go = await admin.trim_log(keep_bytes=0, dry_run=True)
        assert would_go.held_by == ("spark",)
        assert would_go.entries > 0
        with pytest.raises(LogHeldError, match="held by spark"):
            await admin.trim_log(keep_bytes=0)
        await fleet.level()
        assert {start_of(fleet, node) for node in fleet.running} == {1}

        await fleet.stop()  # holds are in the log, and in the bases
        await fleet.start()
        await fleet.leader()
        assert await admin.log_holds() == [taken]
        assert await admin.release_log("spark") is True
        assert await admin.release_log("spark") is False
    assert await until_start(fleet, 1) > 1


async def test_a_hold_expires_though_nobody_writes(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.hold_log("short", ttl_ms=1_000)
        assert [hold.name for hold in await admin.log_holds()] == ["short"]

        async def nobody_holds() -> bool:
            return await admin.log_holds() == []

        await eventually(nobody_holds, "the hold has expired")


async def test_an_operator_trims_by_offset_time_and_size(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    await fill(fleet, 3)
    await asyncio.sleep(0.01)  # so that the clock shows another time
    between_ms = time.time_ns() // 1_000_000
    await fill(fleet, 4)
    follower = fleet.bootstrap[await fleet.follower() - 1]
    async with AsyncAdmin(follower) as admin:
        await check_refusals(admin)
        middle = PER_SEGMENT + PER_SEGMENT // 2
        would_go = await admin.trim_log(before=("topic", 0, middle), dry_run=True)
        assert await first_offset(fleet) == 0
        gone = await admin.trim_log(before=("topic", 0, middle))
        assert (gone.messages, gone.entries, gone.bytes) == (would_go.messages, would_go.entries, would_go.bytes)
        assert 0 < gone.messages <= middle
        assert await first_offset(fleet) == gone.messages

        gone = await admin.trim_log(before_time_ms=between_ms)
        assert 0 < gone.newest_ms < between_ms
        assert (await admin.trim_log(before_time_ms=between_ms)).entries == 0  # nothing is left to do
        assert await first_offset(fleet) <= 3 * PER_SEGMENT

        gone = await admin.trim_log(keep_bytes=2 * SEGMENT_BYTES)
        assert 2 * SEGMENT_BYTES <= gone.bytes_kept < 3 * SEGMENT_BYTES
        gone = await admin.trim_log(keep_bytes=0)  # the segment in use stays
        assert 0 < gone.bytes_kept <= SEGMENT_BYTES
    assert await until_start(fleet, 1) == gone.first_index
    with await asyncio.to_thread(Admin, fleet.bootstrap) as synchronous:
        assert (await asyncio.to_thread(synchronous.trim_log, keep_bytes=0)).entries == 0


async def check_refusals(admin: AsyncAdmin) -> None:
    with pytest.raises(InvalidArgumentError, match="exactly one of"):
        await admin.trim_log()
    with pytest.raises(InvalidArgumentError, match="exactly one of"):
        await admin.trim_log(keep_bytes=1, before_time_ms=1)
    with pytest.raises(UnknownTopicError, match="'nothing'"):
        await admin.trim_log(before=("nothing", 0, 1))
    with pytest.raises(UnknownQueueError):
        await admin.trim_log(before=("topic", 1, 1))
    with pytest.raises(OffsetBeyondEndError, match="after the end"):
        await admin.trim_log(before=("topic", 0, 10**9))


async def kill_while_removing(fleet: Fleet, process: NodeProcess) -> None:
    """Trim the log, and kill the process as soon as the first file is removed."""
    (first, *_) = segments_of(fleet, 1)

    async def trim() -> None:
        async with AsyncAdmin(fleet.bootstrap, request_timeout_ms=500) as admin:
            await admin.trim_log(keep_bytes=0)

    path = fleet.data(1) / "shard-0" / "log" / first
    task = asyncio.create_task(trim())
    while path.exists() and not task.done():  # noqa: ASYNC110 (the file system announces nothing)
        await asyncio.sleep(0)
    os.kill(process.pid, signal.SIGKILL)
    await process.ended()
    await asyncio.gather(task, return_exceptions=True)


async def is_up(fleet: Fleet, nodes: Sequence[int] = (1,)) -> bool:
    try:
        return all([(await fleet.status(node)).role == "leader" for node in nodes])
    except grpc.aio.AioRpcError:
        return False


@pytest.mark.skipif(not may_mount(), reason=NO_MOUNTS)
class TestASmallDisk:
    DISK_BYTES = 40 << 20

    async def test_writes_are_refused_before_it_is_full_and_taken_again_when_there_is_room(
        self, make_fleet: MakeFleet
    ) -> None:
        fleet = make_fleet(1, disk_refuse_ratio=0.9)
        disk = fleet.data(1)
        disk.mkdir(parents=True)
        with NodeProcess(fleet.write_toml(1), before=small_disk(disk, self.DISK_BYTES)) as process:
            await eventually(lambda: is_up(fleet), "the node leads")
            topic = await fleet.create_topic()
            filler = seen_by(process.pid, disk / "filler")
            fill_up(filler, leave=0.07)

            async def refused() -> LedgerError | None:
                return error_of(await fleet.produce(1, sample_batch(topic)))

            error = await eventually(refused, "writes are refused")
            assert type(error) is DiskFullError
            assert error.retriable
            for words in ("% full", str(disk), "`disk_refuse_ratio`", "`ledgermq cluster trim`"):
                assert words in error.message
            waits = asyncio.create_task(send_with_patience(fleet))
            async with AsyncAdmin(fleet.bootstrap) as admin:  # what an operator needs to make room is not refused
                await admin.hold_log("reader")
                await admin.release_log("reader")
            assert error_of(await fleet.fetch(1, topic, 0)) is None  # nor are readers
            assert not waits.done()
            filler.unlink()
            assert await waits in (0, 2)  # by itself; what was sent before it was noticed may lie before that
            assert "writes are accepted" in process.log
            assert "Traceback" not in process.log

    async def test_the_oldest_goes_however_young_when_it_fills(self, make_fleet: MakeFleet) -> None:
        fleet = make_fleet(1, disk_force_ratio=0.6, disk_refuse_ratio=0.9)
        disk = fleet.data(1)
        disk.mkdir(parents=True)
        with NodeProcess(fleet.write_toml(1), before=small_disk(disk, self.DISK_BYTES)) as process:
            await eventually(lambda: is_up(fleet), "the node leads")
            await fleet.create_topic()
            await fill(fleet, 30)  # 60 MiB on a disk of 40
            assert await first_offset(fleet) > 10 * PER_SEGMENT
            assert "the disk is too full" in process.log
            async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap) as consumer:
                ends = await consumer.end_offsets()
                assert list(ends.values()) == [30 * PER_SEGMENT]


def fill_up(filler: Path, *, leave: float) -> None:
    """Fill the disk, and leave the share `leave` of it free."""
    filler.touch()
    found = os.statvfs(filler)
    filler.write_bytes(bytes(int((found.f_bavail - leave * found.f_blocks) * found.f_frsize)))


async def send_with_patience(fleet: Fleet) -> int:
    async with AsyncProducer(fleet.bootstrap, delivery_timeout_ms=30_000) as producer:
        return (await producer.send("topic", b"two")).offset


async def test_a_node_killed_while_files_are_removed_starts_again(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    toml = fleet.write_toml(1)
    with NodeProcess(toml) as process:
        await eventually(lambda: is_up(fleet), "the node leads")
        await fleet.create_topic()
        await fill(fleet, 8)
        await kill_while_removing(fleet, process)
    with NodeProcess(toml) as process:
        await eventually(lambda: is_up(fleet), "the node leads again")
        first = await first_offset(fleet)
        assert first > 0
        async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap) as consumer:
            end = 8 * PER_SEGMENT
            offsets = [message.offset for message in [await anext(consumer) for _ in range(first, end)]]
            assert offsets == list(range(first, end))
        assert "Traceback" not in process.log
