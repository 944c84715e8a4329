"""Tests a disk without a free byte: the node votes nevertheless, starts after a kill, and serves again when there
is room."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import grpc.aio
import pytest

from ledger.v1 import broker_pb2
from ledgermq import AsyncConsumer, AsyncProducer
from store.disk.reserve import FILES
from tests.cluster.fleet import SEGMENT_BYTES, Fleet, MakeFleet
from tests.cluster.mounts import NO_MOUNTS, Namespace, may_mount, tmpfs
from tests.cluster.node_process import NodeProcess
from tests.cluster.scrape import not_ready, reason_not_ready
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.skipif(not may_mount(), reason=NO_MOUNTS)

SMALL = 3
DISK_BYTES = 16 << 20
VALUE = bytes(range(256)) * 8  # 2 KB


@asynccontextmanager
async def node(fleet: Fleet, disk: Namespace) -> AsyncIterator[NodeProcess]:
    """Run node 3 as a process on this disk."""
    with NodeProcess(fleet.write_toml(SMALL), before=disk.inside) as process:
        await eventually(lambda: is_up(fleet, process), f"node {SMALL} serves")
        yield process
        assert "Traceback" not in process.log, process.log
        assert "a bug" not in process.log, process.log


async def is_up(fleet: Fleet, process: NodeProcess) -> bool:
    assert process.runs, process.log
    try:
        return bool(await fleet.broker(SMALL).GetStatus(broker_pb2.GetStatusRequest(), timeout=5))
    except grpc.aio.AioRpcError:
        return False


@contextmanager
def no_byte_free(directory: Path) -> Iterator[Callable[[], None]]:
    """Fill the disk to the last block. Yield a function that also fills the blocks which became free since."""
    filler = directory / "filler"

    def take_all() -> None:
        for _ in range(20):  # a failed write of the node may free its blocks meanwhile
            with open(filler, "ab", buffering=0) as file:
                for size in (1 << 16, 1 << 10, 1):
                    with suppress(OSError):
                        while True:
                            file.write(bytes(size))
            if os.statvfs(directory).f_bfree == 0:
                return
        raise AssertionError("the node frees blocks again and again")

    take_all()
    yield take_all
    filler.unlink()


async def caught_up(fleet: Fleet) -> None:
    end = (await fleet.status(await fleet.leader())).last_index

    async def is_ready() -> bool:
        return (await fleet.status(SMALL)).applied >= end and not await not_ready(fleet.http(SMALL))

    await eventually(is_ready, f"node {SMALL} has caught up and is ready")


async def holds_everything(fleet: Fleet, offsets: list[int]) -> None:
    async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap, node=SMALL) as consumer:
        assert [(await anext(consumer)).offset for _ in offsets] == offsets


async def fill_segments(producer: AsyncProducer, count: int) -> list[int]:
    sends = [producer.send("topic", VALUE) for _ in range(count * SEGMENT_BYTES // len(VALUE))]
    return [sent.offset for sent in await asyncio.gather(*sends)]


@pytest.mark.parametrize("write", ["direct", "mapped", "staged"])
async def test_it_votes_and_starts_again(make_fleet: MakeFleet, write: str) -> None:
    fleet = make_fleet(3, write=write)
    directory = fleet.data(SMALL)
    directory.mkdir(parents=True)
    with Namespace(directory, tmpfs(DISK_BYTES)) as disk:
        async with node(fleet, disk) as process:
            await fleet.start(1, 2)
            await fleet.create_topic()
            async with AsyncProducer(fleet.bootstrap) as producer:
                offsets = await fill_segments(producer, 1)
            with no_byte_free(disk.seen(directory)) as take_all:
                await an_election_needs_it(fleet)
                process.send_signal(signal.SIGKILL)
                await process.ended()
                take_all()
                async with node(fleet, disk) as again:
                    await an_election_needs_it(fleet)
                    async with AsyncProducer(fleet.bootstrap) as producer:
                        offsets += await fill_segments(producer, 3)
                    await reason_not_ready(fleet.http(SMALL), "No space is left")
                    await an_election_needs_it(fleet)
                    again.send_signal(signal.SIGTERM)
                    assert await again.ended() == 0
        async with node(fleet, disk):
            await caught_up(fleet)
            await holds_everything(fleet, offsets)


async def test_it_starts_after_the_machine_was(make_fleet: MakeFleet) -> None:
    """The node records a new boot id and a suspect mark on the full disk, although no index can be removed to make
    room."""
    fleet = make_fleet(3)
    directory = fleet.data(SMALL)
    directory.mkdir(parents=True)
    with Namespace(directory, tmpfs(DISK_BYTES)) as disk:
        shard = disk.seen(directory) / "shard-0"
        async with node(fleet, disk):
            await fleet.start(1, 2)
            await fleet.create_topic()
            async with AsyncProducer(fleet.bootstrap) as producer:
                offsets = await fill_segments(producer, 1)
            await fleet.level()
            await caught_up(fleet)
        (shard / "clean").unlink()
        (shard / "boot").write_text('{"boot_id": "another"}')
        with no_byte_free(disk.seen(directory)):
            async with node(fleet, disk) as process:
                assert "entries after index" in process.log
                await caught_up(fleet)
                assert "another" not in (shard / "boot").read_text()
                await an_election_needs_it(fleet)
            assert (shard / "clean").exists()
        async with node(fleet, disk):
            await holds_everything(fleet, offsets)
            assert len(list((disk.seen(directory) / "reserve").iterdir())) == FILES


async def test_only_the_disk_of_its_indexes_is_full(make_fleet: MakeFleet, tmp_path: Path) -> None:
    indexes = tmp_path / "indexes"
    indexes.mkdir()
    fleet = make_fleet(3)
    fleet.override(SMALL, index_data=indexes)
    with Namespace(indexes, tmpfs(DISK_BYTES)) as disk:
        async with node(fleet, disk):
            await fleet.start(1, 2)
            await fleet.create_topic()
            async with AsyncProducer(fleet.bootstrap) as producer:
                offsets = await fill_segments(producer, 1)
                with no_byte_free(disk.seen(indexes)):
                    offsets += await fill_segments(producer, 2)  # acknowledged by the others
                    assert str(indexes) in await reason_not_ready(fleet.http(SMALL), "No space is left")
                    await an_election_needs_it(fleet)
                offsets += await fill_segments(producer, 1)
            await caught_up(fleet)
            await holds_everything(fleet, offsets)
    assert offsets == list(range(len(offsets)))


async def an_election_needs_it(fleet: Fleet) -> None:
    """Stop the leader. The next leader needs two votes, one of them from the node with the full disk."""
    before = await fleet.leader()
    term = (await fleet.status(before)).term
    await fleet.stop(before)

    async def elected() -> bool:
        (other,) = fleet.running
        status = await fleet.status(other)
        return status.role == "leader" and status.term > term

    await eventually(elected, "the other one leads")
    await fleet.start(before)
    await fleet.leader()
