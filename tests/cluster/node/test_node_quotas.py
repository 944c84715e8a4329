"""One node with quotas: a client over its quota is slowed down, and loses and repeats no message; other clients are not
slowed down."""

from __future__ import annotations

import asyncio
import time

import pytest

from ledger.errors import ThrottledError
from ledger.v1 import broker_pb2, error_pb2
from ledgermq import AsyncConsumer, AsyncProducer
from tests.cluster.fleet import Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.scrape import scrape
from tests.cluster.waiter import until

pytestmark = pytest.mark.real

QUOTA = 200_000
"""Bytes a second, of each client."""
BATCH = 20_000
VALUES = [b"%05d" % number + bytes(5_000) for number in range(100)]
TOTAL = sum(map(len, VALUES))


def near_the_quota(seconds: float) -> bool:
    """Of TOTAL bytes, a second's worth came at once, and one batch at the end is not waited for. (How much longer it
    takes depends on what else this machine does.)"""
    least = (TOTAL - QUOTA - BATCH) / QUOTA
    return least * 0.95 <= seconds <= least * 8


async def test_a_client_over_its_quota_is_slowed_down_to_it(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1, produce_quota_bytes_per_s=QUOTA, fetch_quota_bytes_per_s=QUOTA)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic("topic", 2)
    async with (
        AsyncProducer(fleet.bootstrap, client_id="heavy", batch_bytes=BATCH) as heavy,
        AsyncProducer(fleet.bootstrap, client_id="light") as light,
    ):
        started = time.monotonic()
        sending = asyncio.create_task(heavy.send_many("topic", VALUES, queue=0))
        for number in range(10):
            await light.send("topic", b"%d" % number, queue=1)
        assert not sending.done()
        places = await sending
        sent_s = time.monotonic() - started
    assert near_the_quota(sent_s), sent_s
    offsets = [offset for each in places for offset in range(each.first_offset, each.first_offset + each.count)]
    assert offsets == list(range(len(VALUES)))

    started = time.monotonic()
    assert await read(fleet, 0, len(VALUES)) == VALUES
    read_s = time.monotonic() - started
    assert near_the_quota(read_s), read_s
    assert await read(fleet, 1, 10) == [b"%d" % number for number in range(10)]

    response_budget = fleet.running[1]._services.response_budget
    await until(lambda: response_budget.bytes_under_way == 0, "what was given has left")

    metrics = await scrape(fleet.http(1))
    for kind in ("producer", "consumer"):
        assert metrics.of("ledgermq_throttled_total", kind=kind) >= 1


async def read(fleet: Fleet, queue: int, count: int) -> list[bytes]:
    async with (
        asyncio.timeout(20),
        AsyncConsumer(
            "topic",
            bootstrap_servers=fleet.bootstrap,
            client_id=f"reader of {queue}",
            queues=[queue],
            start="earliest",
            max_bytes=BATCH,
        ) as consumer,
    ):
        return [(await anext(consumer)).value for _ in range(count)]


async def test_over_the_quota_nothing_is_appended_and_the_answer_says_for_how_long(make_fleet: MakeFleet) -> None:
    """Requests without a client id: all clients of a host share one quota, over any number of streams."""
    fleet = make_fleet(1, produce_quota_messages_per_s=2, fetch_quota_messages_per_s=1)
    await fleet.start()
    await fleet.leader()
    topic = await fleet.create_topic("topic")
    assert error_of(await fleet.produce(1, sample_batch(topic, [b"x"] * 4, producer_id=1))) is None
    answer = await fleet.produce(1, sample_batch(topic, [b"y"], producer_id=2))
    refused = error_of(answer)
    assert type(refused) is ThrottledError
    assert answer.error.code == error_pb2.THROTTLED
    assert refused.throttle_ms
    assert 500 < refused.throttle_ms <= 1_500
    assert "2 messages/s" in refused.message

    fetched = await fleet.fetch(1, topic, 0)
    assert fetched.end_offset == 4, "the second batch is not there"
    again = error_of(await fleet.fetch(1, topic, 4))
    assert type(again) is ThrottledError
    assert again.throttle_ms
    status = await fleet.broker(1).GetStatus(broker_pb2.GetStatusRequest(), timeout=5)
    assert status.node == 1, "questions are not counted"
    with pytest.raises(TimeoutError):  # a consumer only waits
        async with (
            asyncio.timeout(1),
            AsyncConsumer(
                "topic", bootstrap_servers=fleet.bootstrap, start="earliest", request_timeout_ms=300
            ) as consumer,
        ):
            await anext(consumer)
