"""Tests three node processes with four shards, and SIGKILL. Only shards that the dead node led elect a new leader.
No shard loses an acknowledged message. If the leader of shard 0 dies while a topic is created, the topic is created
nevertheless."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from cluster.local.processes import DevCluster
from cluster.node.formation.first_voters import in_turn
from ledger.errors import LedgerError
from ledgermq import AsyncAdmin, AsyncGroupConsumer, AsyncProducer
from tests.cluster.acknowledged_load import Load, assert_every_replica_holds
from tests.cluster.led_shards import NODES, all_lead_in_turn, leaders
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import eventually

SHARDS = 4
SEED = 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with pytest.MonkeyPatch.context() as patch:
        # With the default of 10, a leader on a busy machine may be so late that its followers take it for dead.
        patch.setenv("LEDGERMQ_ELECTION_TICKS", "30")
        cluster = DevCluster(tmp_path_factory.mktemp("shards"))
        cluster.start(3, base_port=free_base_port(3), segment_bytes=6 << 20, shards=SHARDS)
        yield cluster
        cluster.purge()


@pytest_asyncio.fixture
async def admin(cluster: DevCluster) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        await eventually(lambda: all_lead_in_turn(admin, SHARDS), "every shard is led by whose turn it is")
        yield admin


async def terms(admin: AsyncAdmin) -> dict[int, int]:
    return {shard.shard: shard.term for node in await admin.cluster() for shard in node.shards}


async def level(admin: AsyncAdmin) -> None:
    """Wait until all nodes have applied the same log to its end, in every shard."""

    async def same() -> bool:
        ends: dict[int, set[tuple[int, int, int]]] = {}
        for node in await admin.cluster():
            for shard in node.shards:
                ends.setdefault(shard.shard, set()).add((shard.last_index, shard.applied, shard.chain))
        return len(ends) == SHARDS and all(len(each) == 1 for each in ends.values())

    await eventually(same, "all replicas of all shards are level")


async def test_only_the_shards_of_a_dead_node_elect_and_nothing_is_lost(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await admin.create_topic("killed", SHARDS)
    before = await terms(admin)
    async with Load(cluster.bootstrap, "killed", random.Random(SEED), writers=16) as load:
        await load.more(2000)
        await asyncio.to_thread(cluster.kill, 2)
        await load.more(1)

        async def others_lead() -> bool:
            now = await leaders(admin)
            return len(now) == SHARDS and 2 not in now.values()

        await eventually(others_lead, "others lead the shards of the dead node")
        after = await terms(admin)
        led = {shard: in_turn(shard, NODES) == 2 for shard in range(SHARDS)}
        assert {shard: after[shard] > before[shard] for shard in range(SHARDS)} == led
        await load.more(2000)
        await asyncio.to_thread(cluster.restart, 2)
        await eventually(lambda: all_lead_in_turn(admin, SHARDS), "node 2 leads its shards again", deadline_s=30)
        await load.more(1000)
    await level(admin)
    assert {queue for queue, _ in load.acknowledged} == set(range(SHARDS)), "all shards were written to"
    await assert_every_replica_holds(cluster.bootstrap, "killed", load.acknowledged)


@pytest.mark.parametrize("wait_ms", [0, 5, 20])
async def test_a_topic_is_made_although_the_leader_of_shard_0_dies(
    cluster: DevCluster, admin: AsyncAdmin, wait_ms: int
) -> None:
    """The leader dies at several moments: before the topic is in the log, while its queues are opened, or just
    afterwards."""
    dead = (await leaders(admin))[0]
    name = f"made-{wait_ms}"
    making = asyncio.create_task(admin.create_topic(name, 8))
    await asyncio.sleep(wait_ms / 1000)  # not awaited: the moment is the point
    await asyncio.to_thread(cluster.kill, dead)
    try:
        made = await making
        assert sorted(made.shards) == sorted([*range(SHARDS)] * 2)
        async with AsyncProducer(cluster.bootstrap) as producer:
            receipts = [await producer.send(name, b"x", queue=queue) for queue in range(8)]
        assert [(receipt.queue, receipt.offset) for receipt in receipts] == [(queue, 0) for queue in range(8)]
    finally:
        await asyncio.to_thread(cluster.restart, dead)


async def test_a_pin_outlives_the_kill_of_its_node(cluster: DevCluster, admin: AsyncAdmin) -> None:
    """The node is killed when its pin is acknowledged. Without a pin, node 2 would lead the shard again."""
    await admin.create_topic("pinned", SHARDS)
    async with Load(cluster.bootstrap, "pinned", random.Random(SEED), writers=4) as load:
        await load.more(500)
        assert await admin.transfer_leadership(1, shard=1, pin=True) == 1
        await asyncio.to_thread(cluster.kill, 1)

        async def led_by(*nodes: int) -> bool:
            return (await leaders(admin)).get(1) in nodes

        await eventually(lambda: led_by(2, 3), "another node leads while the pinned node is down")
        await load.more(500)
        await asyncio.to_thread(cluster.restart, 1)
        await eventually(lambda: led_by(1), "the pinned node leads again", deadline_s=60)
        await load.more(500)
    assert (await admin.members(shard=1)).pinned_leader == 1
    await admin.unpin_leader(shard=1)
    await eventually(lambda: all_lead_in_turn(admin, SHARDS), "the preferred leaders lead again", deadline_s=60)
    await level(admin)
    await assert_every_replica_holds(cluster.bootstrap, "pinned", load.acknowledged)


async def test_a_group_outlives_the_kills_of_its_coordinators(cluster: DevCluster, admin: AsyncAdmin) -> None:
    """The group is coordinated in shard 1, and then in shard 2. Each time the node that leads this shard is killed. All
    messages arrive, and no epoch falls."""
    await admin.create_topic("grouped", SHARDS)
    found: set[bytes] = set()
    async with (
        AsyncProducer(cluster.bootstrap) as producer,
        AsyncGroupConsumer("grouped", group="moved", bootstrap_servers=cluster.bootstrap, start="earliest") as consumer,
    ):

        async def all_come(name: str) -> None:
            wanted = {f"{name} {number}".encode() for number in range(200)}
            for value in wanted:
                await producer.send("grouped", value)
            async with asyncio.timeout(60):
                while not wanted <= found:
                    found.update(message.value for message in await consumer.getmany(timeout_ms=1_000))

        await all_come("first")
        epochs = [0]
        for shard in (1, 2):
            await admin.move_coordinator("moved", shard)
            await all_come(f"moved to {shard}")
            dead = (await leaders(admin))[shard]
            await asyncio.to_thread(cluster.kill, dead)
            await all_come(f"killed {dead}")
            await asyncio.to_thread(cluster.restart, dead)
            await eventually(lambda: all_lead_in_turn(admin, SHARDS), "leaders are back", deadline_s=60)
            described = await admin.describe_consumer_group("moved")
            assert described.coordinator == shard
            assert [member.member for member in described.members] == [consumer.member]
            owned = [queue.epoch for queue in described.queues if queue.topic == "grouped" and queue.epoch]
            assert min(owned) > max(epochs)
            epochs = owned


async def test_what_a_dead_leader_of_shard_0_began_the_next_one_finishes(
    cluster: DevCluster, admin: AsyncAdmin
) -> None:
    """A shard without a majority cannot open queues. When the shard has a majority again, the current leader of
    shard 0 completes the topic, although the client no longer waits. This test must be the last one of the module,
    because it adds a shard."""
    alone = await admin.add_shard([2])
    await asyncio.to_thread(cluster.kill, 2)

    async def led() -> bool:
        return 0 in await leaders(admin)

    await eventually(led, "shard 0 has a leader")
    async with AsyncAdmin(cluster.bootstrap, request_timeout_ms=1000) as impatient:
        with pytest.raises(LedgerError) as failed:
            await impatient.create_topic("later", 10)
        assert failed.value.retriable
    assert "later" not in {topic.name for topic in await admin.list_topics()}, "it cannot be used yet"
    began = (await leaders(admin))[0]
    await asyncio.to_thread(cluster.kill, began)
    await asyncio.to_thread(cluster.restart, 2)
    await asyncio.to_thread(cluster.restart, began)

    async def made() -> bool:
        return any(topic.name == "later" and alone in topic.shards for topic in await admin.list_topics())

    await eventually(made, "the topic is made by itself")
    async with AsyncProducer(cluster.bootstrap) as producer:
        for queue in range(10):
            assert (await producer.send("later", b"x", queue=queue)).offset == 0
