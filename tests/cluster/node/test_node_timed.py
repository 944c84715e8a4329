"""The limits and the metrics of messages with delivery times, on one node."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger.errors import BusyError
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from ledgermq.errors import DeliveryTimeoutError, InvalidArgumentError
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.scrape import scrape
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

HOUR = timedelta(hours=1)


async def begun(fleet: Fleet) -> None:
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic("orders", 1)


async def test_a_shard_refuses_more_waiting_bytes_until_some_are_cancelled(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1, timed_waiting_bytes=10_000, timed_max_days=2)
    await begun(fleet)
    async with AsyncProducer(fleet.bootstrap, delivery_timeout_ms=1_500) as producer:
        with pytest.raises(InvalidArgumentError, match=r"the limit is 2 days \(`timed_max_days`\)"):
            await producer.send("orders", b"x", delay=timedelta(days=3))
        waits = await producer.send("orders", b"x" * 12_000, delay=HOUR)
        with pytest.raises(DeliveryTimeoutError, match="the limit is 10,000 bytes") as refused:
            await producer.send("orders", b"x", delay=HOUR)
        assert isinstance(refused.value.__cause__, BusyError)
        assert not refused.value.maybe_committed
        await producer.send("orders", b"at once")
        assert await producer.cancel(waits.handle)
        assert (await producer.send("orders", b"x", delay=HOUR)).handle


async def test_the_metrics_of_waiting_messages(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    await begun(fleet)
    async with (
        AsyncProducer(fleet.bootstrap) as producer,
        AsyncAdmin(fleet.bootstrap) as admin,
        AsyncConsumer("orders", bootstrap_servers=fleet.bootstrap) as consumer,
    ):
        await admin.create_topic("doomed", 1)
        waits = await producer.send_many("orders", [b"x" * 1000] * 3, delay=HOUR)
        assert await producer.cancel_many(waits[0].handles[:1]) == [True]
        await producer.send("orders", b"now", delay=timedelta(0))
        assert (await anext(consumer)).value == b"now"
        await producer.send("doomed", b"nobody", delay=timedelta(seconds=1))
        await admin.delete_topic("doomed")

        async def is_dropped() -> bool:
            return (await scrape(fleet.http(1))).of("ledgermq_timed_dropped_total", shard="0") == 1

        await eventually(is_dropped, "the message of the deleted topic is dropped")
        seen = await scrape(fleet.http(1))
    assert seen.of("ledgermq_timed_waiting_messages", shard="0") == 2
    assert 2000 <= seen.of("ledgermq_timed_waiting_bytes", shard="0") < 3000
    assert seen.of("ledgermq_timed_overdue_seconds", shard="0") == 0
    assert seen.of("ledgermq_timed_unreadable_messages", shard="0") == 0
    assert seen.of("ledgermq_timed_cancelled_total") == 1
    assert seen.of("ledgermq_timed_delivered_total") == 1
    assert seen.of("ledgermq_timed_lateness_seconds_count") == 1
