"""Consumers of one event loop share connections and routes."""

from __future__ import annotations

import asyncio

import pytest

import ledgermq
from tests.ledger.client.fake_broker import FakeBroker, started

pytestmark = pytest.mark.real

SECONDS = 10


async def reading(broker: FakeBroker) -> ledgermq.AsyncConsumer:
    consumer = ledgermq.AsyncConsumer("t", bootstrap_servers=broker.cluster.addresses[1], max_wait_ms=50)
    await consumer.start()
    return consumer


async def values(consumer: ledgermq.AsyncConsumer) -> list[bytes]:
    return [message.value for message in await asyncio.wait_for(consumer.getmany(), SECONDS)]


async def test_consumers_share_a_link_and_producers_have_another(broker: FakeBroker) -> None:
    producer, first, second = await started(broker), await reading(broker), await reading(broker)
    assert first._client.link is second._client.link
    assert producer._client.link is not first._client.link
    await producer.send("t", b"a")
    assert await values(first) == await values(second) == [b"a"]
    await first.stop()
    await producer.send("t", b"b")
    assert await values(second) == [b"b"], "the stop of one consumer ended the fetches of another"
    await second.stop()
    third = await reading(broker)
    assert third._client.link is not second._client.link, "the last consumer did not close the link"
    await asyncio.gather(third.stop(), producer.stop())


async def test_a_full_link_takes_no_more_consumers(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.client.consumer.consumer._CONSUMERS_OF_A_LINK", 2)
    first, second, third, fourth = [await reading(broker) for _ in range(4)]
    assert first._client.link is second._client.link
    assert third._client.link is fourth._client.link
    assert first._client.link is not third._client.link
    await second.stop()
    fifth = await reading(broker)
    assert fifth._client.link is first._client.link, "the place of a consumer that has left stays empty"
    await asyncio.gather(first.stop(), third.stop(), fourth.stop(), fifth.stop())


async def test_a_stopped_consumer_leaves_nothing_behind(broker: FakeBroker) -> None:
    staying = await reading(broker)
    routes = staying._client.routes
    before = len(routes.on_leader_change), len(routes.on_topic_change)
    for _ in range(3):
        await (await reading(broker)).stop()
    assert (len(routes.on_leader_change), len(routes.on_topic_change)) == before
    await staying.stop()


async def test_a_new_consumer_reads_a_topic_that_was_made_again_a_moment_ago(broker: FakeBroker) -> None:
    """The shared routes still name the deleted topic."""
    first = await reading(broker)
    old = broker.cluster.topics["t"].topic_id
    again = broker.cluster.create("t", 1)
    second = await reading(broker)
    assert again.topic_id != old
    assert second._topics["t"].topic_id == again.topic_id
    await asyncio.gather(first.stop(), second.stop())
