"""Tests coordinators of consumer groups in several shards, on real nodes: new groups are spread, groups move with their
members, old clients are told where a group is, and deleted groups come back."""

from __future__ import annotations

import asyncio

import pytest

from ledger.errors import GroupConflictError, GroupNotEmptyError, InvalidArgumentError, UnknownGroupError
from ledger.v1 import consumer_group_pb2
from ledgermq import AsyncAdmin, AsyncGroupConsumer, AsyncProducer
from tests.cluster.fleet import Fleet, MakeFleet, error_of
from tests.cluster.led_shards import all_lead_in_turn, leaders
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

SHARDS = 3


async def ready(admin: AsyncAdmin) -> None:
    await eventually(lambda: all_lead_in_turn(admin, SHARDS), "every shard is led by whose turn it is")

    async def levels() -> bool:
        found = [shard.feature_level for node in await admin.cluster() for shard in node.shards]
        return len(found) == SHARDS * 3 and min(found) == max(found) > 5

    await eventually(levels, "all shards have the latest level")


def consumer(fleet: Fleet, group: str) -> AsyncGroupConsumer:
    return AsyncGroupConsumer(
        "orders", group=group, bootstrap_servers=fleet.bootstrap, start="earliest", auto_acknowledge=False
    )


async def received(consumer: AsyncGroupConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            batch = await consumer.getmany(100, timeout_ms=500)
            found += [message.value for message in batch]
            consumer.finish(*batch)
    return found


async def test_new_groups_are_spread_and_move_with_their_members(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(shards=SHARDS)
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await ready(admin)
        await admin.create_topic("orders", 6)
        async with AsyncProducer(fleet.bootstrap) as producer:
            for number in range(12):
                await producer.send("orders", b"%d" % number)
            places = []
            for group in ("one", "two", "three"):
                async with consumer(fleet, group) as member:
                    assert len(await received(member, 12)) == 12
                    places.append((await admin.describe_consumer_group(group)).coordinator)
            assert sorted(places) == [0, 1, 2]

            async with consumer(fleet, "one") as member, consumer(fleet, "one") as other:
                before = await _settled(admin, "one", 2)
                for shard in (2, 0, 1):
                    await admin.move_coordinator("one", shard)
                    await admin.move_coordinator("one", shard)
                    for number in range(6):
                        await producer.send("orders", b"%d" % (100 * shard + number), queue=number)
                    found = await asyncio.gather(*(_drained(each) for each in (member, other)))
                    wanted = {b"%d" % (100 * shard + number) for number in range(6)}
                    assert wanted <= {value for values in found for value in values}
                    after = await _settled(admin, "one", 2)
                    assert (await admin.describe_consumer_group("one")).coordinator == shard
                    assert all(after[place] > before[place] for place in before), "epochs never fall"
                    before = after
            with pytest.raises(InvalidArgumentError, match="There is no shard 9"):
                await admin.move_coordinator("one", 9)
            with pytest.raises(UnknownGroupError):
                await admin.move_coordinator("nobody", 1)
            await admin.create_consumer_group("work")
            with pytest.raises(GroupConflictError):
                await admin.move_coordinator("work", 1)


async def _settled(admin: AsyncAdmin, group: str, members: int) -> dict[tuple[str, int], int]:
    """Return the epoch of each queue, when the group has so many members and all queues have owners."""

    async def epochs() -> dict[tuple[str, int], int] | None:
        found = await admin.describe_consumer_group(group)
        queues = [queue for queue in found.queues if queue.topic == "orders"]
        done = len(found.members) == members and not found.rebalancing and len({q.owner for q in queues}) == members
        done = done and len(queues) == 6 and all(queue.owner and queue.owner == queue.next_owner for queue in queues)
        return {(queue.topic, queue.queue): queue.epoch for queue in queues} if done else None

    return await eventually(epochs, "all queues have owners", deadline_s=30)


async def _drained(member: AsyncGroupConsumer) -> list[bytes]:
    """Return what comes until nothing comes for two seconds."""
    found: list[bytes] = []
    while batch := await member.getmany(100, timeout_ms=2_000):
        found += [message.value for message in batch]
        member.finish(*batch)
    return found


async def test_a_group_survives_the_loss_of_its_coordinator_and_of_shard_0s_leader(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(shards=SHARDS)
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await ready(admin)
        await admin.create_topic("orders", 6)
        async with consumer(fleet, "one") as member, AsyncProducer(fleet.bootstrap) as producer:
            await _settled(admin, "one", 1)
            await admin.move_coordinator("one", 2)
            await _settled(admin, "one", 1)
            for lost in (3, 1):  # the leaders of shards 2 and 0
                await fleet.stop(lost)
                for number in range(6):
                    await producer.send("orders", b"%d" % number, queue=number)
                await received(member, 6)
                await fleet.start(lost)
                await eventually(lambda: all_lead_in_turn(admin, SHARDS), "leaders are back", deadline_s=30)
            assert (await admin.describe_consumer_group("one")).coordinator == 2


async def test_a_group_is_deleted_and_comes_back(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(shards=SHARDS)
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await ready(admin)
        await admin.create_topic("orders", 6)
        async with AsyncProducer(fleet.bootstrap) as producer:
            for number in range(6):
                await producer.send("orders", b"%d" % number, queue=number)
        async with consumer(fleet, "one") as member:
            await received(member, 6)
            await admin.move_coordinator("one", 2)
            await _settled(admin, "one", 1)
            with pytest.raises(GroupNotEmptyError):
                await admin.delete_consumer_group("one")
        assert await admin.delete_consumer_group("one") == 6
        with pytest.raises(UnknownGroupError):
            await admin.describe_consumer_group("one")
        async with consumer(fleet, "one") as member:
            assert len(await received(member, 6)) == 6, "from the beginning"


async def test_an_old_client_is_told_where_the_group_is(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(shards=SHARDS)
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await ready(admin)
        topic = await admin.create_topic("orders", 6)
        leader = (await leaders(admin))[0]
        stub = fleet.stub(leader)
        request = consumer_group_pb2.JoinRequest(
            consumer_group="old",
            member="old-1",
            strategy="average",
            session_timeout_ms=10_000,
            subscriptions=[consumer_group_pb2.Subscription(topic_id=topic.topic_id, queues=6)],
        )
        assert error_of(await stub.Join(request, timeout=5)) is None, "an old client joins in shard 0, as before"
        async with consumer(fleet, "old"):
            await eventually(lambda: _has(admin, "old", 2), "a new client joins it there")
            assert (await admin.describe_consumer_group("old")).coordinator == 0
        await admin.move_coordinator("old", 1)
        refused = error_of(await stub.Join(request, timeout=5))
        assert "is coordinated in shard 1" in str(refused)
        assert "upgrade older ones" in str(refused)


async def _has(admin: AsyncAdmin, group: str, members: int) -> bool:
    return len((await admin.describe_consumer_group(group)).members) == members
