"""Tests that a program sees what happens to its member: queues that come and go, a lapsed session, a deleted topic."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from cluster.local.processes import DevCluster
from ledger.errors import ClosedError, UnknownTopicError
from ledgermq import (
    AsyncAdmin,
    AsyncGroupConsumer,
    AsyncProducer,
    AsyncPushConsumer,
    GroupConsumer,
    Message,
    TopicQueue,
)
from tests.cluster.ports import free_base_port

pytestmark = pytest.mark.real

QUEUES, SECONDS = 2, 20
ORDERS = [TopicQueue("orders", queue) for queue in range(QUEUES)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERMQ_RETRY_DELAYS_S", "0.1")
        cluster = DevCluster(tmp_path_factory.mktemp("seen"))
        cluster.start(1, base_port=free_base_port(1))
        yield cluster
        cluster.purge()


@pytest.fixture(autouse=True)
async def orders(cluster: DevCluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncProducer]:
    """The topic `orders`, with one message in each queue, and a producer."""
    monkeypatch.setattr("ledger.client.connection.routes._REFRESH_SECONDS", 0.2)
    async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as producer:
        await admin.create_topic("orders", QUEUES)
        for queue in range(QUEUES):
            await producer.send("orders", b"first", queue=queue)
        yield producer
        if any(topic.name == "orders" for topic in await admin.list_topics()):
            await admin.delete_topic("orders")


class Seen:
    """Records the calls of one member's callbacks."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[TopicQueue]]] = []
        self.callbacks: dict[str, Any] = {
            name: lambda places, name=name: self.calls.append((name, places))
            for name in ("on_assigned", "on_revoked", "on_lost")
        }


async def test_callbacks_tell_which_queues_come_and_go(
    cluster: DevCluster, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ledgermq")
    settings = {"group": request.node.name[:60], "bootstrap_servers": cluster.bootstrap}
    first, second = Seen(), Seen()
    async with AsyncGroupConsumer("orders", **settings, **first.callbacks) as one:
        assert await one.wait_assigned(SECONDS * 1000) == one.assignment == ORDERS
        assert first.calls == [("on_assigned", ORDERS)]
        async with AsyncGroupConsumer("orders", **settings, **second.callbacks) as other:
            moved = await other.wait_assigned(SECONDS * 1000)
            assert len(moved) == 1
            assert first.calls[1:] == [("on_revoked", moved)]
            assert second.calls == [("on_assigned", moved)]
        assert second.calls[1:] == [("on_revoked", moved)]
        async with asyncio.timeout(SECONDS):
            while len(one.assignment) < QUEUES:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert first.calls[2:] == [("on_assigned", moved)]
    assert first.calls[3:] == [("on_revoked", ORDERS)]
    log = caplog.text
    assert re.search(r"member \S+ joined, with the topics orders and a session timeout of 10 s", log)
    assert "this member was assigned orders 0, 1" in log
    assert "this member releases orders 0, 1" in log
    assert re.search(r"member \S+ left", log)


async def test_a_seek_in_on_assigned_comes_before_the_first_message(
    cluster: DevCluster, request: pytest.FixtureRequest, orders: AsyncProducer
) -> None:
    for queue in range(QUEUES):
        await orders.send("orders", b"second", queue=queue)

    async def skip(places: list[TopicQueue]) -> None:
        await asyncio.sleep(0.05)  # messages must not overtake a slow callback
        for topic, queue in places:
            await consumer.seek(topic, queue, 1)

    consumer = AsyncGroupConsumer(
        "orders", group=request.node.name[:60], bootstrap_servers=cluster.bootstrap, on_assigned=skip
    )
    async with consumer:
        values = [(await asyncio.wait_for(anext(consumer), SECONDS)).value for _ in range(QUEUES)]
    assert values == [b"second"] * QUEUES


async def test_a_callback_that_fails_is_logged_and_changes_nothing(
    cluster: DevCluster, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: list[TopicQueue]) -> None:
        raise ZeroDivisionError

    async with AsyncGroupConsumer(
        "orders", group=request.node.name[:60], bootstrap_servers=cluster.bootstrap, on_assigned=fail
    ) as consumer:
        assert (await asyncio.wait_for(anext(consumer), SECONDS)).value == b"first"
    assert "a rebalance callback raised an exception" in caplog.text


async def test_a_synchronous_callback_can_call_its_client(cluster: DevCluster, request: pytest.FixtureRequest) -> None:
    """The callback runs in a thread, because the client's own thread would wait for itself."""
    positions: list[int] = []

    def consume() -> list[TopicQueue]:
        def at_the_end(places: list[TopicQueue]) -> None:
            positions.extend(consumer.position(*place) for place in places)

        with GroupConsumer(
            "orders", group=request.node.name[:60], bootstrap_servers=cluster.bootstrap, on_revoked=at_the_end
        ) as consumer:
            assigned = consumer.wait_assigned(SECONDS * 1000)
            for _ in range(QUEUES):
                next(consumer)
            return assigned

    assert await asyncio.to_thread(consume) == ORDERS
    assert positions == [1] * QUEUES


async def test_a_lapsed_session_says_how_long_the_member_was_silent_and_what_it_did(
    cluster: DevCluster, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ledgermq")
    seen = Seen()
    async with AsyncGroupConsumer(
        "orders",
        group=request.node.name[:60],
        bootstrap_servers=cluster.bootstrap,
        session_timeout_ms=1_000,
        **seen.callbacks,
    ) as consumer:
        await consumer.getmany(1, SECONDS * 1000)
        async with asyncio.timeout(SECONDS):
            while "rejoined" not in caplog.text:
                # The fault: the event loop is blocked for longer than a session, the wait of the heartbeat under way
                # (up to a third of a session), and the 0.5 s between two checks of the coordinator.
                time.sleep(2.2)  # noqa: ASYNC251
                await asyncio.sleep(0.4)  # time for two heartbeats; a busy coordinator may not have noticed
            assert await consumer.wait_assigned() == ORDERS
    assert re.search(
        r"this consumer was silent for \d\.\d s, longer than its session timeout of 1 s, and lost its queues\. It has "
        r"rejoined the consumer group as \S+ and continues; up to 1 messages may be delivered twice\.",
        caplog.text,
    )
    told = [name for name, _ in seen.calls]
    assert (told[:3], told[-1]) == (["on_assigned", "on_lost", "on_assigned"], "on_revoked")


async def test_a_push_consumer_stops_with_an_error_when_its_topic_is_gone(
    cluster: DevCluster, request: pytest.FixtureRequest
) -> None:
    errors: list[tuple[type[Exception], str | None]] = []

    async def listener(message: Message) -> None:
        if message.queue == 0 and message.attempt == 1:
            raise ZeroDivisionError

    async with AsyncPushConsumer(
        "orders",
        group=request.node.name[:60],
        bootstrap_servers=cluster.bootstrap,
        listener=listener,
        on_error=lambda error, message: errors.append((type(error), message and message.id)),
    ) as consumer:
        await consumer.wait_assigned(SECONDS * 1000)
        async with asyncio.timeout(SECONDS):
            while not errors:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert errors == [(ZeroDivisionError, "orders:0:0")]
        async with AsyncAdmin(cluster.bootstrap) as admin:
            await admin.delete_topic("orders")
        with pytest.raises(UnknownTopicError, match='no topic "orders"'):
            await asyncio.wait_for(consumer.wait_closed(), SECONDS)
        assert consumer.closed
        assert errors[1:] == [(UnknownTopicError, None)]


async def test_wait_closed_returns_when_the_consumer_is_stopped(
    cluster: DevCluster, request: pytest.FixtureRequest
) -> None:
    consumer = AsyncPushConsumer(
        "orders", group=request.node.name[:60], bootstrap_servers=cluster.bootstrap, listener=lambda message: None
    )
    with pytest.raises(ClosedError, match="not started"):
        await consumer.wait_closed()
    async with consumer:
        waiting = asyncio.create_task(consumer.wait_closed())
        await consumer.aclose()
        await asyncio.wait_for(waiting, SECONDS)
