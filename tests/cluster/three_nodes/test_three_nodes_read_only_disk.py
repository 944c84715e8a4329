"""Tests a file system that becomes read-only under a running node, as ext4 does after an error. The node reports
it, gives up leadership, and still serves reads. After a restart on a mended disk the node takes part again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from ledger.errors import StorageFailedError
from ledger.v1 import broker_pb2
from ledgermq import AsyncAdmin, AsyncProducer
from tests.cluster.fleet import Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.mounts import NO_MOUNTS, Namespace, may_mount
from tests.cluster.node_process import NodeProcess
from tests.cluster.scrape import not_ready, reason_not_ready
from tests.cluster.waiter import eventually

pytestmark = [
    pytest.mark.skipif(not may_mount(), reason=NO_MOUNTS),
    pytest.mark.skipif(shutil.which("mkfs.ext4") is None, reason="needs mkfs.ext4: a file system that gives up"),
]

BROKEN = 3
NEW_DISK = 'truncate -s 64M "$0.img" && mkfs.ext4 -q -F "$0.img" && mount -o loop "$0.img" "$0"'
GIVES_UP = 'mount -o remount,abort "$0"'
PUT_IN_ORDER = 'umount "$0" && (fsck.ext4 -y "$0.img" || test $? -le 2) && mount -o loop "$0.img" "$0"'


@asynccontextmanager
async def node(fleet: Fleet, disk: Namespace) -> AsyncIterator[NodeProcess]:
    with NodeProcess(fleet.write_toml(BROKEN), before=disk.inside) as process:

        async def is_up() -> bool:
            assert process.runs, process.log
            try:
                return bool(await fleet.broker(BROKEN).GetStatus(broker_pb2.GetStatusRequest(), timeout=5))
            except grpc.aio.AioRpcError:
                return False

        await eventually(is_up, "it serves")
        yield process
        assert "Traceback" not in process.log, process.log
        assert "a bug" not in process.log, process.log


@pytest.mark.parametrize("flush", ["async", "sync"])
async def test_a_file_system_that_becomes_read_only_under_the_leader(make_fleet: MakeFleet, flush: str) -> None:
    fleet = make_fleet(3, flush=flush)
    directory = fleet.data(BROKEN)
    directory.mkdir(parents=True)
    with Namespace(directory, NEW_DISK) as disk:
        async with node(fleet, disk) as process:
            await fleet.start(1, 2)
            topic = await fleet.create_topic()
            await leads(fleet)
            async with AsyncProducer(fleet.bootstrap) as producer:
                sends = [await producer.send("topic", b"before")]
                disk.run(GIVES_UP)
                sends += await asyncio.gather(*(producer.send("topic", b"%d" % number) for number in range(50)))
                assert [sent.offset for sent in sends] == list(range(51))
            assert str(directory) in await reason_not_ready(fleet.http(BROKEN), "Read-only file system")
            error = error_of(await fleet.produce(BROKEN, sample_batch(topic)))
            assert type(error) is StorageFailedError
            assert error.retriable
            assert error_of(await fleet.fetch(BROKEN, topic, 0)) is None  # it still gives what it has
            assert process.runs
        await refuses_to_start(fleet, disk, directory)
        disk.run(PUT_IN_ORDER)
        async with node(fleet, disk):
            end = (await fleet.level()).last_index

            async def caught_up() -> bool:
                return (await fleet.status(BROKEN)).applied >= end and not await not_ready(fleet.http(BROKEN))

            await eventually(caught_up, "it has caught up")


async def leads(fleet: Fleet) -> None:
    async def done() -> bool:
        async with AsyncAdmin(fleet.bootstrap) as admin:
            if (await fleet.status(BROKEN)).role != "leader":
                await admin.transfer_leadership(BROKEN)
        status = await fleet.status(BROKEN)
        return status.role == "leader" and status.applied == status.last_index

    await eventually(done, f"node {BROKEN} leads")


async def refuses_to_start(fleet: Fleet, disk: Namespace, directory: Path) -> None:
    with NodeProcess(fleet.write_toml(BROKEN), before=disk.inside) as process:
        assert await process.ended() == 1
    last = process.log.splitlines()[-1]
    assert "Read-only file system" in last
    assert str(directory) in last
