"""What one node reports about consumer groups and shared groups, and how much at most."""

from __future__ import annotations

import pytest

from ledgermq import AsyncAdmin, AsyncGroupConsumer, AsyncProducer, AsyncSharedConsumer
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.scrape import Scrape, scrape
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


async def one_node(make_fleet: MakeFleet, queues: int) -> Fleet:
    """Start a node with five messages in the topic `orders`."""
    fleet = make_fleet(1)
    await fleet.start()
    await fleet.create_topic("orders", queues)
    async with AsyncProducer(fleet.bootstrap) as producer:
        for number in range(5):
            await producer.send("orders", b"order", queue=number % queues)
    return fleet


async def scraped(fleet: Fleet, name: str) -> Scrape:
    """Return a scrape that has samples of this metric."""

    async def found() -> Scrape | None:
        now = await scrape(fleet.http(1))
        return now if any(each == name for each, _ in now.samples) else None

    return await eventually(found, f"the node reports {name}")


async def test_the_lag_of_a_shared_group(make_fleet: MakeFleet) -> None:
    fleet = await one_node(make_fleet, 1)
    queue = {"consumer_group": "work", "topic": "orders", "queue": "0"}
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_consumer_group("work")
    async with AsyncSharedConsumer("orders", group="work", bootstrap_servers=fleet.bootstrap) as consumer:
        first, *_ = await consumer.receive(3)
        assert await consumer.ack(first) == 1
        now = await scraped(fleet, "ledgermq_shared_lag_messages")
        assert now.of("ledgermq_shared_lag_messages", **queue) == 4
        assert now.of("ledgermq_shared_leased_messages", **queue) == 2
        assert now.of("ledgermq_shared_waiting_messages", **queue) == 0
        assert 0 < now.of("ledgermq_shared_lag_seconds", **queue) < 60
        assert now.of("ledgermq_shared_members", consumer_group="work") == 1
        assert now.of("ledgermq_shared_leased_total", shard="0") == 3
        assert now.of("ledgermq_shared_changes_total", shard="0") == 1
        assert now.of("ledgermq_shared_lags_left_out", shard="0") == 0


async def test_queues_beyond_the_bounds_are_counted_only(
    make_fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = await one_node(make_fleet, 5)
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_consumer_group("work")
    async with (
        AsyncGroupConsumer("orders", group="billing", bootstrap_servers=fleet.bootstrap) as consumer,
        AsyncSharedConsumer("orders", group="work", bootstrap_servers=fleet.bootstrap) as worker,
    ):
        got = 0
        while got < 5:
            got += len(await consumer.getmany())
        got = 0
        while got < 5:
            got += len(await worker.receive(5))
        whole = await scraped(fleet, "ledgermq_shared_lag_messages")
        assert whole["ledgermq_coordinated_consumer_groups"] == 1, "a shared group has no coordinator"
        monkeypatch.setattr("cluster.node.metrics.consumption_metrics.MAX_QUEUES", 2)
        monkeypatch.setattr("cluster.node.metrics.shared_metrics.MAX_WINDOWS", 1)
        part = await scraped(fleet, "ledgermq_shared_lag_messages")
        for name, most in (("consumer_group", 2), ("shared", 1)):
            assert lags(whole, name) >= 5
            assert whole.of(f"ledgermq_{name}_lags_left_out", shard="0") == 0
            assert lags(part, name) == most
            assert part.of(f"ledgermq_{name}_lags_left_out", shard="0") == lags(whole, name) - most


def lags(scraped: Scrape, name: str) -> int:
    """Return the number of queues whose lag is reported."""
    return sum(each == f"ledgermq_{name}_lag_messages" for each, _ in scraped.samples)
