"""Tests a node that can open no more files, because the test lowers the limit: the node reports it, gives up
leadership, and takes part again later."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest

from ledger.v1 import broker_pb2
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from tests.cluster.fleet import SEGMENT_BYTES, Fleet, MakeFleet
from tests.cluster.node_process import NodeProcess
from tests.cluster.scrape import get, not_ready
from tests.cluster.waiter import eventually

POOR = 3
VALUE = bytes(range(256)) * 100


@asynccontextmanager
async def poor_node(fleet: Fleet) -> AsyncIterator[NodeProcess]:
    with NodeProcess(fleet.write_toml(POOR)) as process:

        async def is_up() -> bool:
            try:
                return bool(await fleet.broker(POOR).GetStatus(broker_pb2.GetStatusRequest(), timeout=5))
            except grpc.aio.AioRpcError:
                return False

        await eventually(is_up, "it serves")
        yield process
        assert process.runs, process.log
        assert "Traceback" not in process.log, process.log
        assert "a bug" not in process.log, process.log


def allow(process: NodeProcess, spare: int | None) -> None:
    """Allow the process to open `spare` more files than it has open now. None restores the usual limit."""
    _, most = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    descriptors = [int(name) for name in os.listdir(f"/proc/{process.pid}/fd")]
    free = sorted(set(range(max(descriptors) + 2 + (spare or 0))) - set(descriptors))
    # The limit is on the number of a new descriptor: there may be gaps below the highest one.
    limit = most if spare is None else free[spare]
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (limit, most))


async def fill(producer: AsyncProducer, topic: str, segments: int) -> int:
    count = segments * SEGMENT_BYTES // len(VALUE)
    await asyncio.gather(*(producer.send(topic, VALUE) for _ in range(count)))
    return count


@pytest.mark.parametrize("flush", ["async", "sync"])
async def test_a_node_that_may_open_no_more_files(make_fleet: MakeFleet, flush: str) -> None:
    fleet = make_fleet(3, flush=flush, election_ticks=20)
    async with poor_node(fleet) as process:
        await fleet.start(1, 2)
        await fleet.create_topic("before")
        async with AsyncProducer(fleet.bootstrap) as producer:
            before = await fill(producer, "before", 3)
            allow(process, 0)
            async with AsyncAdmin(fleet.bootstrap) as admin:
                for number in range(5):  # a ConsumeQueue each, with files of its own
                    await admin.create_topic(f"new-{number}", 2)
            for number in range(5):
                await fill(producer, f"new-{number}", 1)
            allow(process, 1)  # somebody has to ask it

            async def says_so() -> bool:
                return "too many files are open" in process.log

            await eventually(says_so, "it says what it lacks")
            allow(process, None)
            end = (await fleet.level()).last_index

            async def caught_up() -> bool:
                status = await fleet.status(POOR)
                return status.applied >= end and not await not_ready(fleet.http(POOR))

            await eventually(caught_up, "it has caught up by itself")
        async with AsyncConsumer("before", bootstrap_servers=fleet.bootstrap, node=POOR) as consumer:
            assert [(await anext(consumer)).offset for _ in range(before)] == list(range(before))


async def test_a_leader_that_may_open_no_more_files_makes_way(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3)
    async with poor_node(fleet) as process:
        await fleet.start(1, 2)
        await fleet.create_topic("before")
        async with AsyncAdmin(fleet.bootstrap) as admin:
            await admin.transfer_leadership(POOR)

        async def leads() -> bool:
            status = await fleet.status(POOR)
            return status.role == "leader" and status.applied == status.last_index

        await eventually(leads, "node 3 leads")
        async with AsyncProducer(fleet.bootstrap) as producer:
            await fill(producer, "before", 1)
            allow(process, 0)
            await fill(producer, "before", 3)  # all are acknowledged: by another leader
        allow(process, None)
        assert "too many files are open" in process.log
        end = (await fleet.level()).last_index

        async def caught_up() -> bool:
            status = await fleet.status(POOR)
            return status.applied >= end and not await not_ready(fleet.http(POOR))

        await eventually(caught_up, "it has caught up by itself")
        status, _ = await get(fleet.http(POOR), "/shards/0/segments")
        assert status == 200
