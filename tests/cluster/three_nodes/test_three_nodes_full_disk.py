"""Tests a full disk under one of three nodes: the node reports it, gives up leadership, and takes part again when
there is room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from ledger.errors import DiskFullError
from ledger.v1 import broker_pb2, error_pb2
from ledgermq import AsyncConsumer, AsyncProducer
from tests.cluster.fleet import SEGMENT_BYTES, Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.mounts import NO_MOUNTS, may_mount, seen_by, small_disk
from tests.cluster.node_process import NodeProcess
from tests.cluster.scrape import not_ready, reason_not_ready
from tests.cluster.waiter import eventually, until

pytestmark = pytest.mark.skipif(not may_mount(), reason=NO_MOUNTS)

FULL = 3
DISK_BYTES = 16 << 20
VALUE = bytes(range(256)) * 200  # 50 KB


@asynccontextmanager
async def small_node(fleet: Fleet, node: int) -> AsyncIterator[Path]:
    """Run this node as a process on a small disk. Yield a file on that disk with which the test fills the disk."""
    disk = fleet.data(node)
    disk.mkdir(parents=True)
    with NodeProcess(fleet.write_toml(node), before=small_disk(disk, DISK_BYTES)) as process:
        await eventually(lambda: is_up(fleet, node), f"node {node} serves")
        yield seen_by(process.pid, disk / "filler")
        assert "Traceback" not in process.log, process.log
        assert "a bug" not in process.log, process.log


async def is_up(fleet: Fleet, node: int) -> bool:
    try:
        return bool(await fleet.broker(node).GetStatus(broker_pb2.GetStatusRequest(), timeout=5))
    except grpc.aio.AioRpcError:
        return False


def fill(filler: Path) -> None:
    """Fill the disk, so that less room is left than a segment needs."""
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass  # full


async def send_segments(producer: AsyncProducer, count: int) -> list[int]:
    """Send messages that fill `count` segments, and return their offsets."""
    sends = [producer.send("topic", VALUE) for _ in range(count * SEGMENT_BYTES // len(VALUE))]
    return [sent.offset for sent in await asyncio.gather(*sends)]


async def test_a_full_disk_under_the_leader(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3)
    async with small_node(fleet, FULL) as filler:
        await fleet.start(1, 2)
        assert await fleet.leader() == 1  # it makes the first entry
        topic = await fleet.create_topic()
        await fleet.level()
        await fleet.stop(2)
        await fleet.produce(1, sample_batch(topic, [VALUE]))
        await fleet.stop(1)
        await fleet.start(2)  # it lacks that message, so it cannot be elected

        async def leads() -> bool:
            status = await fleet.status(FULL)
            return status.role == "leader" and status.applied == status.last_index

        await eventually(leads, "node 3 leads")
        await fleet.start(1)
        async with AsyncProducer(fleet.bootstrap) as producer:
            offsets = await send_segments(producer, 1)
            fill(filler)
            offsets += await send_segments(producer, 2)  # acknowledged all the same, by the other two
            assert offsets == list(range(1, len(offsets) + 1))

            async def refused_as_full() -> broker_pb2.ProduceResult | None:
                answer = await fleet.produce(FULL, sample_batch(topic, producer_id=8))
                return answer if answer.error.code == error_pb2.DISK_FULL else None

            refused = await eventually(refused_as_full, "node 3 refuses for lack of room")
            error = error_of(refused)
            assert type(error) is DiskFullError
            assert error.retriable
            assert str(fleet.data(FULL)) in error.message
            assert "Free space" in error.message
            assert (await fleet.status(FULL)).role != "leader"
            await reason_not_ready(fleet.http(FULL), "No space is left")
            assert error_of(await fleet.fetch(FULL, topic, 0)) is None  # it still gives what it has

            filler.unlink()
            end = (await fleet.level()).last_index

            async def caught_up() -> bool:
                status = await fleet.status(FULL)
                return status.applied >= end and not await not_ready(fleet.http(FULL))

            await eventually(caught_up, "node 3 has caught up and is ready")
            offsets += await send_segments(producer, 1)
        async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap, node=FULL) as consumer:
            for offset in [0, *offsets]:
                message = await anext(consumer)
                assert (message.offset, message.value) == (offset, VALUE)


async def test_a_disk_that_is_full_at_the_first_start(make_fleet: MakeFleet) -> None:
    """The cluster is formed as soon as there is room."""
    fleet = make_fleet(2)
    async with small_node(fleet, 1) as filler:
        fill(filler)
        await fleet.start(2)

        log = (fleet.directory / "node-1.log").read_text
        await until(
            lambda: "the first start waits for room on the disk: No space is left" in log(),
            "node 1 says what it waits for",
        )
        filler.unlink()

        async def begun() -> bool:
            return (await fleet.status(2)).applied > 1

        await eventually(begun, "the cluster has begun")
