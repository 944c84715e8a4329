"""Kills three node processes with SIGKILL: no replica loses, doubles or reorders an acknowledged message. Each kill
comes after a random number of acknowledged messages. A failed test shows its random seed.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster, DevError
from ledger.errors import DeliveryTimeoutError, LedgerError
from ledgermq import AsyncAdmin, AsyncProducer
from tests.cluster.acknowledged_load import Load, assert_every_replica_holds, level
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import eventually

SEGMENT_BYTES = 6 << 20
SEED = int(os.environ.get("LEDGERMQ_TEST_SEED", time.time_ns() & 0xFFFF_FFFF))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    cluster = DevCluster(tmp_path_factory.mktemp("processes"))
    cluster.start(3, base_port=free_base_port(3), segment_bytes=SEGMENT_BYTES)
    yield cluster
    cluster.purge()


@pytest.fixture
def rng() -> random.Random:
    print(f"LEDGERMQ_TEST_SEED={SEED} repeats the draws of this run")
    return random.Random(SEED)


async def create_topic(cluster: DevCluster, name: str) -> None:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        await admin.create_topic(name, 3)


async def leader(cluster: DevCluster) -> int:
    async def known() -> int | None:
        try:
            return await asyncio.to_thread(cluster.leader)
        except DevError:
            return None

    return await eventually(known, "there is a leader")


async def assert_logs_are_the_same_bytes(cluster: DevCluster) -> int:
    """Check that the three logs have the same bytes up to their end, and zeros after it. Return the position of the
    end."""
    async with AsyncAdmin(cluster.bootstrap) as admin:
        ends = {status.shards[0].end_position for status in await admin.cluster()}
    assert len(ends) == 1
    end = ends.pop()
    for base in range(0, end, SEGMENT_BYTES):
        first, *others = [segment(cluster, node, base).read_bytes() for node in (1, 2, 3)]
        assert len(first) == SEGMENT_BYTES
        assert all(other == first for other in others), f"the segments at {base} differ"
        assert not any(first[end - base :])
    return end


def segment(cluster: DevCluster, node: int, base: int) -> Path:
    return cluster.node(node).data / "shard-0" / "log" / f"{base:020}"


async def test_the_leader_is_killed_several_times_under_load(cluster: DevCluster, rng: random.Random) -> None:
    await create_topic(cluster, "killed")
    async with Load(cluster.bootstrap, "killed", rng) as load:
        for _ in range(3):
            await load.more(rng.randrange(1, 2500))
            victim = await leader(cluster)
            await asyncio.to_thread(cluster.kill, victim)
            await load.more(rng.randrange(1, 2500))  # by another leader
            assert await leader(cluster) != victim
            await asyncio.to_thread(cluster.restart, victim)
    await level(cluster)
    await assert_every_replica_holds(cluster.bootstrap, "killed", load.acknowledged)
    await assert_logs_are_the_same_bytes(cluster)


async def test_all_are_killed_at_once_under_load(cluster: DevCluster, rng: random.Random) -> None:
    """The page cache survives the kill of all processes, so no acknowledged message is lost."""
    await create_topic(cluster, "all")
    async with Load(cluster.bootstrap, "all", rng) as load:
        await load.more(rng.randrange(1, 2000))
        for node in (1, 2, 3):
            await asyncio.to_thread(cluster.kill, node)
        await asyncio.to_thread(cluster.start)
        await load.more(1000)  # the same producer goes on
    await level(cluster)
    await assert_every_replica_holds(cluster.bootstrap, "all", load.acknowledged)

    await asyncio.to_thread(cluster.stop)
    await asyncio.to_thread(cluster.start)
    await level(cluster)
    await assert_every_replica_holds(cluster.bootstrap, "all", load.acknowledged)
    await assert_logs_are_the_same_bytes(cluster)


async def test_two_of_three_are_killed(cluster: DevCluster) -> None:
    """The third node returns retriable errors in time. Sends succeed again when one node comes back."""
    await create_topic(cluster, "minority")
    alone = await leader(cluster)
    dead = [node for node in (1, 2, 3) if node != alone]
    async with (
        AsyncProducer(cluster.bootstrap, delivery_timeout_ms=1500) as producer,
        AsyncAdmin(cluster.bootstrap, request_timeout_ms=1500) as admin,
    ):
        before = await producer.send("minority", b"before", queue=0)
        for node in dead:
            await asyncio.to_thread(cluster.kill, node)
        async with asyncio.timeout(4):
            with pytest.raises(DeliveryTimeoutError) as sent:
                await producer.send("minority", b"unknown", queue=0)
            assert sent.value.maybe_committed  # it was given to a leader that had not noticed yet
        async with asyncio.timeout(4):
            with pytest.raises(LedgerError) as created:
                await admin.create_topic("never")
            assert created.value.retriable

        await asyncio.to_thread(cluster.restart, dead[0])
        after = await producer.send("minority", b"after", queue=0)
        await asyncio.to_thread(cluster.restart, dead[1])
    await level(cluster)
    expected = {(0, before.offset): b"before", (0, after.offset): b"after"}
    if after.offset == before.offset + 2:
        expected[0, before.offset + 1] = b"unknown"
    await assert_every_replica_holds(cluster.bootstrap, "minority", expected)
