"""Tests that a consumer sends its next fetch before it gives messages to the reading program."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import ledgermq
from ledger.batch import encode
from ledger.v1 import broker_pb2
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster

pytestmark = pytest.mark.real


class AskedBroker(FakeBroker):
    """Sets `asked_for_more` when a fetch requests offset 1, which follows the only message."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(1, cluster)
        self.asked_for_more = threading.Event()

    async def Fetch(self, request: broker_pb2.FetchRequest, context: Any) -> broker_pb2.FetchResponse:  # noqa: N802
        if request.queues[0].offset == 1:
            self.asked_for_more.set()
        return await super().Fetch(request, context)


@pytest.fixture
def broker() -> Iterator[AskedBroker]:
    """A broker that serves from a thread of its own, so that it answers while the event loop of the test is blocked."""
    cluster = FakeCluster()
    topic = cluster.create("t", 1)
    batch = encode(
        [b"first"],
        topic_id=topic.topic_id,
        queue=0,
        producer_id=1,
        epoch=0,
        first_sequence=0,
        base_timestamp_ms=0,
    )
    cluster.append(batch)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def served() -> AskedBroker:
        broker = AskedBroker(cluster)
        await broker.start()
        return broker

    broker = asyncio.run_coroutine_threadsafe(served(), loop).result()
    yield broker
    asyncio.run_coroutine_threadsafe(broker.stop(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def test_the_next_fetch_is_sent_before_a_reader_is_woken(broker: AskedBroker) -> None:
    async with ledgermq.AsyncConsumer("t", bootstrap_servers=list(broker.cluster.addresses.values())) as consumer:
        assert [message.value for message in await consumer.getmany()] == [b"first"]
        assert broker.asked_for_more.wait(10)  # this blocks the event loop, as a computing program does
