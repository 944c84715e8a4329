"""Replicas move between real nodes: a node is drained or removed under load, a lost one is replaced, and a new one
takes its share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from ledger.errors import InvalidArgumentError, ShardShortError, UnknownNodeError
from ledger.state.feature_levels import PLACEMENT
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, Placement
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

SHARDS = 4
QUEUES = 8


@asynccontextmanager
async def load(fleet: Fleet) -> AsyncIterator[list[tuple[int, int]]]:
    """Send messages to all queues until the block ends. No send may fail. Yields the (queue, offset) of each."""
    sent: list[tuple[int, int]] = []
    async with AsyncProducer(fleet.bootstrap) as producer:

        async def send() -> None:
            while True:
                receipt = await producer.send("t", str(len(sent)).encode(), queue=len(sent) % QUEUES)
                sent.append((receipt.queue, receipt.offset))

        sending = asyncio.create_task(send())
        try:
            yield sent
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending


async def assert_all_there(fleet: Fleet, sent: list[tuple[int, int]]) -> None:
    assert len(sent) > 20
    assert len(set(sent)) == len(sent)
    found: set[tuple[int, int]] = set()
    async with AsyncConsumer("t", bootstrap_servers=fleet.bootstrap, start="earliest") as consumer:
        async with asyncio.timeout(30):
            while not found >= set(sent):
                found |= {(each.queue, each.offset) for each in await consumer.getmany(1_000, timeout_ms=1_000)}


async def begun(fleet: Fleet, admin: AsyncAdmin, shards: int = SHARDS) -> None:
    """Create the topic when all shards have begun, and can have a placement."""

    async def is_ready() -> bool:
        with suppress(Exception):
            placement = await admin.placement()
            return len(placement.shards) == shards and all(len(shard.replicas) >= 3 for shard in placement.shards)
        return False

    await eventually(is_ready, "all shards have begun", deadline_s=30)
    level = fleet.running[1]._shards.first.replica
    assert level is not None
    await eventually(lambda: _has_level(fleet), "shard 0 has a placement")
    await admin.create_topic("t", QUEUES)


async def _has_level(fleet: Fleet) -> bool:
    return all(
        replica.state.feature_level >= PLACEMENT
        for node in fleet.running.values()
        if (replica := node._shards.first.replica) is not None
    )


def replicas(placement: Placement) -> Counter[int]:
    return Counter(replica.node for shard in placement.shards if shard.shard for replica in shard.replicas)


async def test_a_node_is_removed_under_load(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(4, shards=SHARDS)
    await fleet.start()
    seen: list[Placement] = []
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await begun(fleet, admin)
        async with load(fleet) as sent:
            await admin.remove_node(1, timeout_ms=60_000, on_placement=seen.append)
            placement = await admin.placement()
            await asyncio.sleep(0.5)
        assert [node.node for node in placement.nodes] == [2, 3, 4]
        assert replicas(placement) == {2: 3, 3: 3, 4: 3}
        assert any(move.source == 1 and move.reason == "drain" for each in seen for move in each.moves)
        await fleet.stop(1)
        await assert_all_there(fleet, sent)
        with pytest.raises(UnknownNodeError, match="node 1 is no node of the cluster"):
            await admin.remove_node(1)


async def test_what_would_leave_shards_short_is_refused_with_a_list(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3, shards=2)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await begun(fleet, admin, shards=2)
        with pytest.raises(
            ShardShortError, match=r"without node 2, shard 0 would have 2 of 3 replicas; shard 1 would have 2 of 3"
        ):
            await admin.remove_node(2)
        with pytest.raises(ShardShortError, match="shard 1 would have 2 of 3 replicas without node 2: add a node"):
            await admin.remove_node(2, shard=1)
        assert len((await admin.placement()).nodes) == 3
        await admin.remove_node(2, force=True)
        assert [member.node for member in (await admin.members()).members] == [1, 3]


async def test_a_node_that_serves_other_shards_stays_in_shard_0(make_fleet: MakeFleet) -> None:
    """Otherwise it would vote on, and be no node of the cluster."""
    fleet = make_fleet(3, shards=2)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await begun(fleet, admin, shards=2)
        with pytest.raises(ShardShortError, match=r"node 2 serves shards 1, and would be no node of the cluster"):
            await admin.remove_node(2, shard=0)
        assert len((await admin.placement()).nodes) == 3
        await admin.remove_node(2, shard=0, force=True)


async def test_a_node_that_was_just_lost_is_removed_without_force(make_fleet: MakeFleet) -> None:
    """The shards are short already, so the removal makes nothing worse. The leader waits until it knows that."""
    fleet = make_fleet(3, shards=2)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await begun(fleet, admin, shards=2)
        lost = await fleet.follower()
        await fleet.stop(lost)
        await admin.remove_node(lost, timeout_ms=60_000)
        assert lost not in [member.node for member in (await admin.members()).members]


async def test_a_shard_with_two_replicas_leaves_a_drained_node(make_fleet: MakeFleet) -> None:
    """A replica was removed by force, and no number of replicas is set."""
    fleet = make_fleet(4, shards=2)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await begun(fleet, admin, shards=2)
        gone, drained, kept = replicas(await admin.placement())
        await admin.remove_node(gone, shard=1, force=True)
        assert [member.node for member in (await admin.members(shard=1)).members] == sorted((drained, kept))
        await admin.drain_node(drained, timeout_ms=40_000)
        await eventually(lambda: _is_settled(admin), "the move has ended")
        assert len(replicas(await admin.placement())) == 2
        with pytest.raises(ShardShortError, match="shard 1 would have 1 of 3 replicas without node"):
            await admin.remove_node(kept, shard=1)


async def test_a_lost_node_is_replaced_and_an_old_replica_is_deleted_when_it_comes_back(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(4, shards=2, replace_after_ms=1_500)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await begun(fleet, admin, shards=2)
        (shard,) = [shard for shard in (await admin.placement()).shards if shard.shard]
        lost = next(replica.node for replica in shard.replicas if replica.node != shard.leader)
        async with load(fleet) as sent:
            await fleet.stop(lost)
            await eventually(lambda: has_three_without(admin, lost), "the replica is made anew", deadline_s=40)
        await assert_all_there(fleet, sent)
        await fleet.start(lost)
        mark = fleet.data(lost) / f"shard-{shard.shard}" / "discarded"
        await eventually(lambda: _is_there(mark), "the old replica is deleted", deadline_s=40)
        await admin.rebalance()
        await eventually(lambda: _is_settled(admin), "nothing moves", deadline_s=30)


async def has_three_without(admin: AsyncAdmin, lost: int) -> bool:
    placement = await admin.placement()
    found = replicas(placement)
    return lost not in found and sum(found.values()) == 3 and not placement.moves


async def _is_settled(admin: AsyncAdmin) -> bool:
    placement = await admin.placement()
    return not placement.moves and not placement.balancing


async def _leads_one_each(admin: AsyncAdmin) -> bool:
    return sorted(shard.leader for shard in (await admin.placement()).shards) == [1, 2, 3, 4]


async def _is_there(path: Path) -> bool:
    return await asyncio.to_thread(path.exists)


async def test_a_new_node_takes_its_share_and_gives_it_back(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(4, shards=SHARDS)
    for node in (1, 2, 3):
        fleet.override(node, peers={each: fleet.address(each) for each in (1, 2, 3)})
    fleet.override(4, join=True, peers={})
    await fleet.start(1, 2, 3)
    async with AsyncAdmin(fleet.bootstrap[:3]) as admin:
        await begun(fleet, admin)
        await fleet.start(4)
        await admin.add_node(4, fleet.address(4), shard=0)
        async with load(fleet) as sent:
            planned = (await admin.placement()).balance
            assert [(move.to, move.reason, move.begun_ms) for move in planned] == [(4, "balance", 0)]
            assert replicas(await admin.placement()) == {1: 3, 2: 3, 3: 3}, "nobody asked for it"
            await admin.pause_placement()
            await admin.rebalance()
            await asyncio.sleep(1.5)
            assert replicas(await admin.placement()) == {1: 3, 2: 3, 3: 3}, "it is paused"
            await admin.pause_placement(resume=True)
            await eventually(lambda: _is_settled(admin), "the replicas are balanced", deadline_s=60)
            assert sorted(replicas(await admin.placement()).values()) == [2, 2, 2, 3]
            await eventually(lambda: _leads_one_each(admin), "each node leads one shard", deadline_s=30)
            await admin.drain_node(4, timeout_ms=60_000)
            placement = await admin.placement()
            assert replicas(placement) == {1: 3, 2: 3, 3: 3}
            assert placement.node(4) is not None
            assert placement.node(4).draining  # type: ignore[union-attr]
            await admin.stop_draining(4)
            assert not (await admin.placement()).node(4).draining  # type: ignore[union-attr]
        await assert_all_there(fleet, sent)


async def test_a_topic_of_a_class_is_in_the_shards_of_its_class(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(4, shards=SHARDS)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await begun(fleet, admin)
        with pytest.raises(InvalidArgumentError, match="no shard shall have 4 replicas: set that for a shard"):
            await admin.create_topic("payments", 2, replicas=4)
        await admin.set_replicas(4, shard=2)
        await eventually(lambda: _has_replicas(admin, 2, 4), "shard 2 has four replicas", deadline_s=30)
        await admin.create_topic("payments", 2, replicas=4)
        assert set((await admin.alter_topic("payments", 4)).shards) == {2}
        await admin.create_topic("clicks", 8)
        assert set((await admin.describe_topic("clicks")).shards) == {0, 1, 3}
        placement = await admin.placement()
        assert {shard.shard: shard.wanted for shard in placement.shards} == {0: 3, 1: 3, 2: 4, 3: 3}
        async with AsyncProducer(fleet.bootstrap) as producer:
            assert (await producer.send("payments", b"one")).offset == 0
        await admin.set_replicas(None, shard=2)
        await admin.set_replicas(3)
        await eventually(lambda: _has_replicas(admin, 2, 3), "the surplus replica goes", deadline_s=30)


async def _has_replicas(admin: AsyncAdmin, number: int, replicas: int) -> bool:
    placement = await admin.placement()
    (shard,) = [shard for shard in placement.shards if shard.shard == number]
    return sum(each.voter for each in shard.replicas) == replicas and not placement.moves
