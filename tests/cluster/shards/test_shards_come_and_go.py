"""Tests shards that an operator or the settings add, preferred leaders that lead again, and a node that replaces
another node in all shards."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from cluster.node.formation.first_voters import in_turn
from ledger.errors import UnknownNodeError
from ledger.validation.sources.place import places_of
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from store import NoSpaceError, PosixDisk
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.led_shards import NODES, all_lead_in_turn, leaders
from tests.cluster.scrape import is_ready, reason_not_ready
from tests.cluster.waiter import eventually

SHARDS = 4


async def test_leaders_come_back_after_a_restart(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(shards=SHARDS)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("t", SHARDS)
        await eventually(lambda: all_lead_in_turn(admin, SHARDS), "every shard is led by whose turn it is")
        await fleet.stop(2)

        async def others_lead() -> bool:
            now = await leaders(admin)
            return len(now) == SHARDS and 2 not in now.values()

        await eventually(others_lead, "others lead the shards of node 2")
        await fleet.start(2)
        await eventually(lambda: all_lead_in_turn(admin, SHARDS), "node 2 leads its shards again", deadline_s=30)
        assert await admin.shards() == [*range(SHARDS)]
        assert len(await admin.list_topics()) == 1


async def test_a_shard_is_added_and_used(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(shards=2)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin, AsyncAdmin(fleet.bootstrap) as other:
        await admin.create_topic("before", 4)
        assert await other.shards(linearizable=True) == [0, 1]
        assert await admin.add_shard() == 2
        assert await other.shards(linearizable=True) == [0, 1, 2], "this client has not heard of the new shard"
        with pytest.raises(UnknownNodeError, match="node 7 is not a member of shard 0"):
            await admin.add_shard([1, 7])
        assert await admin.add_shard([2]) == 3
        after = await admin.create_topic("after", 4)
        assert sorted(after.shards) == [2, 2, 3, 3], "what is new goes where there is least"
        assert [member.node for member in (await admin.members(shard=3)).members] == [2]
        assert sorted((await admin.alter_topic("before", 6)).shards[4:]) == [2, 3] or len(after.shards) == 4
    async with AsyncProducer(fleet.bootstrap) as producer:
        receipts = [await producer.send("after", b"x", queue=queue) for queue in range(4)]
    assert [receipt.offset for receipt in receipts] == [0] * 4
    await fleet.stop()
    await fleet.start()
    async with AsyncConsumer("after", bootstrap_servers=fleet.bootstrap, start="earliest") as consumer:
        found = 0
        while found < 4:
            found += len(await consumer.getmany(10, timeout_ms=20_000))


async def test_a_node_that_lost_its_disk_comes_back_in_all_shards(make_fleet: MakeFleet) -> None:
    """The node also lost a shard that it had formed, and the other nodes have been restarted since that shard was
    formed."""
    fleet = make_fleet(shards=3)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        topic = await admin.create_topic("t", 3)
        await eventually(lambda: all_lead_in_turn(admin, 3), "every shard is led by whose turn it is")
    await fleet.stop()
    await fleet.start(1, 3)
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.remove_node(2, force=True, timeout_ms=30_000)
        shutil.rmtree(fleet.data(2))
        fleet.override(2, join=True)
        await fleet.start(2)
        await admin.add_node(2, fleet.address(2), promote=True, timeout_ms=30_000)
        async with AsyncProducer(fleet.bootstrap) as producer:
            for queue in range(3):
                await producer.send("t", b"x", queue=queue)

        async def has_all() -> bool:
            fetched = [await fleet.fetch(2, topic.topic_id, 0, queue=queue) for queue in range(3)]
            return all(each.next_offset == 1 for each in fetched)

        await eventually(has_all, "node 2 has what was sent to every shard")


async def test_a_node_that_lost_one_shard_is_not_ready(make_fleet: MakeFleet) -> None:
    """A rolling restart must not go on to the next node: the shard would lose its majority."""
    fleet = make_fleet(shards=2)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await eventually(lambda: all_lead_in_turn(admin, 2), "every shard is led by whose turn it is")
    await fleet.stop(3)
    shutil.rmtree(fleet.data(3) / "shard-1")
    await fleet.start(3)
    reason = await reason_not_ready(fleet.http(3), "shard 1: node 3 has another data directory")
    assert "with `--shard 1`" in reason
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.remove_node(3, shard=1, force=True, timeout_ms=30_000)
        await admin.add_node(3, fleet.address(3), shard=1, promote=True, timeout_ms=30_000)

    await eventually(lambda: is_ready(fleet.http(3)), "the node has a new replica")


async def test_a_node_that_was_removed_from_a_shard_gets_a_new_replica(make_fleet: MakeFleet) -> None:
    """It deletes the old replica by itself, also if it was stopped in the middle of the deletion. It would form the
    shard if it did not know that the shard has begun."""
    fleet = make_fleet()
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin, AsyncProducer(fleet.bootstrap) as producer:
        shard = await admin.add_shard([2, 3, 1])
        topic = await admin.create_topic("t", 2)
        queue = topic.shards.index(shard)
        await producer.send("t", b"x", queue=queue)
        await eventually(lambda: has_voters(admin, shard, {1, 2, 3}), "the shard has begun")
        await admin.remove_node(2, force=True, shard=shard, timeout_ms=30_000)
        directory = fleet.data(2) / f"shard-{shard}"
        await eventually(lambda: is_only_marked(directory), "node 2 has deleted its replica", deadline_s=30)

        await fleet.stop(2)
        shards = [place.shard.name for place in places_of(fleet.data(2)) if place.shard is not None]
        assert shards == ["shard-0"], "validation skips the other one"
        (directory / "discarded").rename(directory / "discarding")
        (directory / "log" / "left").write_bytes(b"from a deletion that was killed")
        await fleet.start(2)
        assert not (directory / "log" / "left").exists()
        assert (directory / "discarded").exists()
        assert (await producer.send("t", b"y", queue=queue)).offset == 1
        await admin.add_node(2, fleet.address(2), shard=shard, promote=True, timeout_ms=30_000)
        await fleet.stop(2)
        await fleet.start(2)

    async def has_all() -> bool:
        return (await fleet.fetch(2, topic.topic_id, 0, queue=queue)).next_offset == 2

    await eventually(has_all, "node 2 has what was sent to the shard", deadline_s=30)


async def has_voters(admin: AsyncAdmin, shard: int, voters: set[int]) -> bool:
    return {member.node for member in (await admin.members(shard=shard)).members if member.voter} == voters


async def is_only_marked(directory: Path) -> bool:
    return [name for _, _, names in os.walk(directory) for name in names] == ["discarded"]


async def test_a_node_that_was_wiped_does_not_begin_a_shard_once_more(make_fleet: MakeFleet) -> None:
    """The wiped node alone was to form the shard. Meanwhile the shard has moved to other nodes, and the wiped node
    has not heard of that."""
    fleet = make_fleet()
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        shard = await admin.add_shard([2])
        topic = await admin.create_topic("t", 2)
        queue = topic.shards.index(shard)
        await admin.add_node(1, fleet.address(1), shard=shard, promote=True, timeout_ms=30_000)
        await admin.remove_node(2, force=True, timeout_ms=30_000)
        await fleet.stop(2)
        shutil.rmtree(fleet.data(2))
        fleet.override(2, join=True)
        await fleet.start(2)
        await admin.add_node(2, fleet.address(2), shard=0, promote=True, timeout_ms=30_000)
        async with AsyncProducer(fleet.bootstrap) as producer:
            sent = await producer.send("t", b"x", queue=queue)
        assert sent.offset == 0
        assert [member.node for member in (await admin.members(shard=shard)).members] == [1]
        await admin.add_node(2, fleet.address(2), shard=shard, promote=True, timeout_ms=30_000)

    async def has_it() -> bool:
        return (await fleet.fetch(2, topic.topic_id, 0, queue=queue)).next_offset == 1

    await eventually(has_it, "node 2 has what was sent to the shard")


async def test_a_shard_begins_with_a_node_that_came_in_the_place_of_one_that_never_answered(
    make_fleet: MakeFleet,
) -> None:
    """The test follows the steps of docs/OPERATING.md."""
    fleet = make_fleet()
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await fleet.level()
        await fleet.stop(3)
        await fleet.leader()
        shard = await admin.add_shard([1, 2, 3])
        assert in_turn(shard, [1, 2, 3]) != 3, "another one asks"
        await admin.remove_node(3, force=True, shard=0, timeout_ms=30_000)
        shutil.rmtree(fleet.data(3))
        fleet.override(3, join=True)
        await fleet.start(3)
        await admin.add_node(3, fleet.address(3), shard=0, promote=True, timeout_ms=30_000)

        async def has_begun() -> bool:
            return (await leaders(admin)).get(shard, 0) > 0

        await eventually(has_begun, "the shard has a leader")
        assert [member.node for member in (await admin.members(shard=shard)).members] == [1, 2, 3]


class NoRoomForShard1(PosixDisk):
    """A disk that has no room for the directory of shard 1 while `full` is true."""

    def __init__(self) -> None:
        self.full = True

    def make_directory(self, path: Path) -> None:
        if self.full and path.name == "shard-1":
            raise NoSpaceError(path)
        super().make_directory(path)


async def test_a_shard_that_cannot_begin_on_a_node_begins_later(
    make_fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the node and its other shards work."""
    monkeypatch.setattr("cluster.node.node_shards.TRY_AGAIN_S", 0.05)
    disk = NoRoomForShard1()
    fleet = make_fleet(shards=2, disks={3: disk})
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        creation = asyncio.create_task(admin.create_topic("t", 2))
        await eventually(lambda: holds_shard(fleet, 2, 1), "node 2 has shard 1, and waits for node 3")
        assert (await fleet.status(3)).shard == 0
        assert await admin.list_topics() == []
        assert not creation.done()
        disk.full = False
        assert sorted((await creation).shards) == [0, 1]


async def holds_shard(fleet: Fleet, node: int, shard: int) -> bool:
    return (fleet.data(node) / f"shard-{shard}" / "log").is_dir()


async def test_the_setting_raised_at_a_restart_makes_shards(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        old = await admin.create_topic("old", 4)
        assert old.shards == (0, 0, 0, 0)
    await fleet.stop()
    for node in NODES:
        fleet.override(node, shards=3)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        assert sorted((await admin.create_topic("new", 4)).shards) == [1, 1, 2, 2]
        assert (await admin.describe_topic("old")).shards == (0, 0, 0, 0)


async def test_a_node_in_the_place_of_another_takes_over_all_shards(make_fleet: MakeFleet) -> None:
    """Node 4 is added to every shard, then node 1 is removed from every shard."""
    fleet = make_fleet(4, shards=3, peers={})
    peers = {node: fleet.address(node) for node in NODES}
    for node in NODES:
        fleet.override(node, peers=peers)
    fleet.override(4, join=True, peers={})
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap[1:]) as admin:
        topic = await admin.create_topic("t", 3)
        async with AsyncProducer(fleet.bootstrap) as producer:
            for queue in range(3):
                await producer.send("t", b"before", queue=queue)
        await admin.add_node(4, fleet.address(4), promote=True, timeout_ms=30_000)
        await admin.remove_node(1, force=True, timeout_ms=30_000)
        for shard in range(3):
            assert [member.node for member in (await admin.members(shard=shard)).members] == [2, 3, 4]
        await fleet.stop(1)
        async with AsyncProducer(fleet.bootstrap[1:]) as producer:
            for queue in range(3):
                assert (await producer.send("t", b"after", queue=queue)).offset == 1

        async def has_all() -> bool:
            fetched = [await fleet.fetch(4, topic.topic_id, 0, queue=queue) for queue in range(3)]
            return all(each.next_offset == 2 for each in fetched)

        await eventually(has_all, "node 4 has what was sent before and after")
        await eventually(lambda: is_ready(fleet.http(4)), "node 4 is ready")
