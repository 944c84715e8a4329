"""Waiting messages need the rights of their target topics: publish to cancel them, and subscribe to list them."""

from __future__ import annotations

import time

import numpy as np
import pytest
from grpc import aio

from ledger.batch import TimedColumn, encode
from ledger.v1 import broker_pb2
from tests.cluster.node.access.site import Client, Site

pytestmark = pytest.mark.real

LATER_MS = int(time.time() * 1000) + 3_600_000


async def send_later(client: Client, topic_id: int) -> None:
    """Send a message to queue 0 of the topic, which waits for an hour. Its identity is 0."""
    waits_in = (await client.call(client.node.PrepareTimed, broker_pb2.PrepareTimedRequest())).topic
    batch = encode(
        [b"hidden"], topic_id=waits_in.topic_id, queue=0, producer_id=9, epoch=0, first_sequence=0, keys=[b"k"],
        base_timestamp_ms=LATER_MS, timed=TimedColumn(topic_id, 0, np.array([LATER_MS], np.int64)),
    )  # fmt: skip
    assert await client.produce(batch) == [None]


async def cancelled(client: Client, *topic_ids: int) -> list[bool]:
    request = broker_pb2.CancelTimedRequest()
    for topic_id in topic_ids:
        request.messages.add(topic_id=topic_id, identity=0, delivery_ms=LATER_MS)
    return list((await client.call(client.node.CancelTimed, request)).cancelled)


async def listed(client: Client, topic_id: int = 0) -> broker_pb2.ListTimedResponse:
    request = broker_pb2.ListTimedRequest(topic_id=topic_id, with_values=True)
    response: broker_pb2.ListTimedResponse = await client.call(client.node.ListTimed, request)
    return response


async def test_a_user_cancels_and_lists_only_messages_of_its_topics(site: Site) -> None:
    async with site.client("admin") as admin:
        secret, orders = [await admin.create_topic(name) for name in ("secret", "orders")]
        await admin.add_user("mallory", "publish topic:orders", "subscribe topic:orders")
        await admin.add_user("reader", "subscribe topic:secret")
        await admin.add_user("writer", "publish topic:secret")
        await send_later(admin, secret)
        async with site.client("mallory") as mallory:
            with pytest.raises(aio.AioRpcError, match="PERMISSION_DENIED"):
                await cancelled(mallory, secret)
            with pytest.raises(aio.AioRpcError, match="PERMISSION_DENIED"):
                await cancelled(mallory, orders, secret)
            assert await cancelled(mallory, orders) == [False], "the handle names a topic that the message is not for"
            found = await listed(mallory)
            assert (list(found.messages), found.HasField("waiting")) == ([], False)
            with pytest.raises(aio.AioRpcError, match="PERMISSION_DENIED"):
                await listed(mallory, secret)
        async with site.client("reader") as reader:
            assert [(each.value, each.key) for each in (await listed(reader)).messages] == [(b"hidden", b"k")]
            assert len((await listed(reader, secret)).messages) == 1
            with pytest.raises(aio.AioRpcError, match="PERMISSION_DENIED"):
                await cancelled(reader, secret)
        assert (await listed(admin)).waiting == 1
        async with site.client("writer") as writer:
            assert not (await listed(writer)).messages
            assert await cancelled(writer, secret, secret) == [True, False]
        assert (await listed(admin)).waiting == 0
