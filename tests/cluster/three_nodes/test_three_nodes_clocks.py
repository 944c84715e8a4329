"""Three nodes, and the wall clock of one of them is a day wrong."""

from __future__ import annotations

import pytest

from cluster.health import health_of, rows_of
from cluster.node.process.clock_watch import LOOKS
from cluster.node.runtime import now_ms
from ledger.v1 import broker_pb2
from ledgermq import AsyncAdmin, AsyncGroupConsumer, AsyncProducer, AsyncSharedConsumer
from raft.cluster_clock import TOLERANCE_MS
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.scrape import not_ready, scrape
from tests.cluster.waiter import eventually, until

NODES = (1, 2, 3)
DAY_MS = 86_400_000
# A slow machine may take so long between a look at the clock and the write.
SLACK_MS = 5_000


class Clock:
    """The wall clock of a node, which is `error_ms` ahead."""

    error_ms = 0

    def __call__(self) -> int:
        return now_ms() + self.error_ms


@pytest.fixture
def clocks() -> dict[int, Clock]:
    return {node: Clock() for node in NODES}


@pytest.fixture
def fleet(make_fleet: MakeFleet, clocks: dict[int, Clock]) -> Fleet:
    return make_fleet(3, clocks=clocks)


def known_offset(fleet: Fleet, leader: int, node: int) -> int:
    """Return the offset of the clock of `node`, as the leader knows it."""
    replica = fleet.running[leader]._shards.first.replica
    assert replica is not None
    return replica.driver.clock_offsets_ms.get(node, 0)


async def ahead_ms(producer: AsyncProducer) -> int:
    """Send a message, and return by how much its append time is ahead of the right time."""
    return (await producer.send("topic", b"x")).timestamp_ms - now_ms()


async def test_a_leader_whose_clock_leaps_a_day_ahead(
    fleet: Fleet, clocks: dict[int, Clock], caplog: pytest.LogCaptureFixture
) -> None:
    await fleet.start()
    leader = await fleet.leader()
    await fleet.create_topic()
    async with AsyncProducer(fleet.bootstrap) as producer, AsyncAdmin(fleet.bootstrap) as admin:
        assert abs(await ahead_ms(producer)) < SLACK_MS
        clocks[leader].error_ms = DAY_MS
        assert await ahead_ms(producer) <= TOLERANCE_MS
        await until(lambda: known_offset(fleet, leader, leader) > DAY_MS - SLACK_MS, "the leader knows it")

        offset = (await scrape(fleet.http(leader))).of("ledgermq_clock_offset_seconds", shard="0", peer=str(leader))
        assert offset == pytest.approx(86_400, abs=5)
        rows = rows_of(list(await admin.cluster()))
        assert {row.node for row in rows if abs(row.clock_offset_ms or 0) > TOLERANCE_MS} == {leader}
        assert health_of(rows).status == "degraded"
        assert not await not_ready(fleet.http(leader))
        said = f"node {leader}: its wall clock is 86,400."
        await until(lambda: said in caplog.text, "it is logged", deadline_s=LOOKS + 10)
        assert (await scrape(fleet.http(leader)))["ledgermq_clock_leaps_total"] == 1

        clocks[leader].error_ms = 0
        assert abs(await ahead_ms(producer)) <= TOLERANCE_MS
        await until(lambda: abs(known_offset(fleet, leader, leader)) < SLACK_MS, "the clock is right again")


async def test_a_cluster_that_is_formed_and_led_by_a_node_whose_clock_is_a_day_ahead(
    fleet: Fleet, clocks: dict[int, Clock]
) -> None:
    clocks[1].error_ms = DAY_MS
    await fleet.start()
    await fleet.create_topic()
    async with AsyncProducer(fleet.bootstrap) as producer, AsyncAdmin(fleet.bootstrap) as admin:
        for node in NODES:
            if await fleet.leader() != node:
                await admin.transfer_leadership(node)

            async def leads(node: int = node) -> bool:
                status: broker_pb2.ShardStatus = await fleet.status(node)
                return status.role == "leader"

            await eventually(leads, f"node {node} leads")
            assert await ahead_ms(producer) <= TOLERANCE_MS
    first = fleet.running[1]._shards.first.log.reading.header(1)
    assert first.append_time_ms <= now_ms() + TOLERANCE_MS


async def test_a_wrong_clock_of_the_leader_makes_no_message_old(fleet: Fleet, clocks: dict[int, Clock]) -> None:
    """`group list`, `doctor` and the metrics say how old the oldest message is that a group has not consumed."""
    await fleet.start()
    leader = await fleet.leader()
    clocks[leader].error_ms = DAY_MS
    await fleet.create_topic()
    nodes = fleet.bootstrap
    async with AsyncAdmin(nodes) as admin, AsyncProducer(nodes) as producer:
        await admin.create_consumer_group("work")
        await producer.send_many("topic", [b"x"] * 3)
        async with (
            AsyncSharedConsumer("topic", group="work", bootstrap_servers=nodes) as shared,
            AsyncGroupConsumer("topic", group="audit", bootstrap_servers=nodes, auto_acknowledge=False) as consumer,
        ):
            assert await shared.receive(1)
            assert await consumer.getmany()
            groups = await admin.list_consumer_groups()
            assert [(group.name, group.lag) for group in groups] == [("audit", 3), ("work", 3)]
            described = [await admin.describe_consumer_group(group.name) for group in groups]
            told = [group.lag_s for group in groups]
            told += [queue.lag_s for group in described for queue in group.queues if queue.lag_s is not None]
            assert 0 < max(told) < 60
            now = await scrape(fleet.http(leader))
            assert now["ledgermq_consumer_group_lag_messages"] == now["ledgermq_shared_lag_messages"] == 3
            assert now["ledgermq_consumer_group_lag_seconds"] < 60
            assert now["ledgermq_shared_lag_seconds"] < 60
