"""Tests `flush = "sync"`: a node acknowledges only entries that it has fsynced."""

from __future__ import annotations

import asyncio

from ledgermq import AsyncConsumer, AsyncProducer
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.gated_disk import GatedDisk
from tests.cluster.scrape import scrape
from tests.cluster.waiter import eventually


async def sync_fleet(make_fleet: MakeFleet) -> tuple[Fleet, dict[int, GatedDisk]]:
    disks = {node: GatedDisk() for node in (1, 2, 3)}
    fleet = make_fleet(disks=disks, flush="sync")
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic(queues=2)
    await fleet.level()
    return fleet, disks


async def test_messages_go_through_and_survive_a_restart(make_fleet: MakeFleet) -> None:
    fleet, _ = await sync_fleet(make_fleet)
    flushes = [(await scrape(fleet.http(node)))["ledgermq_log_flush_duration_seconds_count"] for node in fleet.nodes]
    values = [b"%d" % number for number in range(500)]
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.send_many("topic", values, queue=0)
        sent = [await producer.send("topic", value, queue=1) for value in values[:20]]
    assert [each.offset for each in sent] == list(range(20))
    await fleet.level()
    for node, before in zip(fleet.nodes, flushes, strict=True):
        assert (await scrape(fleet.http(node)))["ledgermq_log_flush_duration_seconds_count"] > before
    await fleet.stop()
    await fleet.start()
    await fleet.level()
    for node in fleet.nodes:
        async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap, queues=[0], node=node) as consumer:
            assert [(await anext(consumer)).value for _ in values] == values


async def test_an_acknowledgement_waits_for_the_fsyncs_of_a_majority(make_fleet: MakeFleet) -> None:
    fleet, disks = await sync_fleet(make_fleet)
    leader = await fleet.leader()
    followers = [node for node in fleet.nodes if node != leader]
    for disk in disks.values():
        disk.hold()
    before = await fleet.status(leader)
    async with AsyncProducer(fleet.bootstrap) as producer:
        sending = asyncio.create_task(producer.send("topic", b"x"))

        async def written_everywhere() -> bool:
            return all(status.last_index > before.last_index for status in (await fleet.statuses()).values())

        await eventually(written_everywhere, "all three have it in their page cache")
        disks[followers[0]].release()

        async def acknowledged() -> bool:
            lag = (await scrape(fleet.http(leader))).of(
                "ledgermq_raft_follower_lag_entries", shard="0", peer=str(followers[0])
            )
            return lag == 0

        await eventually(acknowledged, "one follower has said that it has it on its disk")
        assert not sending.done()  # one of three is no majority
        assert (await fleet.status(leader)).commit == before.commit

        disks[followers[1]].release()
        await asyncio.wait_for(sending, 10)  # two are, without the leader's own disk
        disks[leader].release()
    after = await fleet.level()
    assert after.leader == leader
    assert after.term == before.term  # heartbeats did not wait for any fsync
