"""Tests a disk that fails under the leader. The leader steps down and reports the fault, the other nodes continue,
and after a restart the node works again."""

from __future__ import annotations

import asyncio

import pytest

from ledger.errors import StorageFailedError
from ledger.v1 import error_pb2
from ledgermq import AsyncProducer
from tests.cluster.failing_disk import FailingDisk
from tests.cluster.fleet import Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.scrape import not_ready, reason_not_ready, scrape
from tests.cluster.waiter import eventually


@pytest.mark.parametrize("fails", ["fails_writes", "fails_syncs"])
async def test_a_disk_fails_under_the_leader(make_fleet: MakeFleet, fails: str) -> None:
    disks = {node: FailingDisk() for node in (1, 2, 3)}
    fleet = make_fleet(disks=disks, flush_interval_ms=50, flush_pages=0)
    await fleet.start()
    broken = await fleet.leader()
    topic = await fleet.create_topic()
    others = [node for node in fleet.nodes if node != broken]
    async with AsyncProducer(fleet.bootstrap) as producer:
        setattr(disks[broken], fails, True)
        for number in range(5):
            sent = await producer.send("topic", b"%d" % number)  # acknowledged all the same
            assert sent.offset == number
        await reason_not_ready(fleet.http(broken), "Input/output error")
        assert await led_by_one_of(fleet, others) in others

        refused = await fleet.produce(broken, sample_batch(topic))
        error = error_of(refused)
        assert type(error) is StorageFailedError
        assert refused.error.code == error_pb2.STORAGE_FAILED
        assert error.retriable
        assert str(fleet.data(broken)) in error.message
        assert "restart the node" in error.message
        assert (await scrape(fleet.http(broken)))["ledgermq_raft_failed"] == 1
        assert error_of(await fleet.fetch(broken, topic, 0)) is None  # it still gives what it has

        await fleet.stop(broken)
        setattr(disks[broken], fails, False)
        await fleet.start(broken)
        assert (await producer.send("topic", b"5")).offset == 5
    await fleet.level()
    assert not await not_ready(fleet.http(broken))


async def test_a_disk_fails_under_a_follower(make_fleet: MakeFleet) -> None:
    disks = {node: FailingDisk() for node in (1, 2, 3)}
    fleet = make_fleet(disks=disks)
    await fleet.start()
    leader, broken = await fleet.leader(), await fleet.follower()
    term = (await fleet.status(leader)).term
    await fleet.create_topic()
    disks[broken].fails_writes = True
    async with AsyncProducer(fleet.bootstrap) as producer:
        await asyncio.gather(*(producer.send("topic", b"x") for _ in range(100)))
        await reason_not_ready(fleet.http(broken), "Input/output error")
        assert (await producer.send("topic", b"x")).offset == 100
    status = await fleet.status(leader)
    assert (status.role, status.term) == ("leader", term)  # it disturbed nobody


async def led_by_one_of(fleet: Fleet, nodes: list[int]) -> int:
    async def led() -> int:
        leaders = {(await fleet.status(node)).leader for node in nodes}
        return leaders.pop() if len(leaders) == 1 and leaders <= set(nodes) else 0

    return await eventually(led, f"one of the nodes {nodes} leads")
