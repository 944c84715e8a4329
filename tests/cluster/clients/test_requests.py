"""Requests and replies on three real nodes: asyncio and synchronous clients, failures of handlers, and a leader that is
killed while requests are in flight.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cluster.local.processes import DevCluster
from ledgermq import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncRequester,
    AsyncResponder,
    Message,
    Requester,
    Responder,
    errors,
)
from ledgermq.types import Handler
from tests.cluster.ports import free_base_port

pytestmark = pytest.mark.real

TOPIC = "prices"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    cluster = DevCluster(tmp_path_factory.mktemp("requests"))
    cluster.start(3, base_port=free_base_port(3))

    async def create() -> None:
        async with AsyncAdmin(cluster.bootstrap) as admin:
            for topic, queues in ((TOPIC, 2), ("replies", 3), ("other-replies", 1)):
                await admin.create_topic(topic, queues)

    asyncio.run(create())
    yield cluster
    cluster.purge()


def price_of(request: Message) -> bytes:
    if request.value == b"broken":
        raise ValueError("there is no price of b'broken'")
    return b"price of " + request.value


@asynccontextmanager
async def responder(cluster: DevCluster, handler: Handler = price_of, **settings: Any) -> AsyncIterator[AsyncResponder]:
    made = AsyncResponder(
        TOPIC, group="shop", handler=handler, bootstrap_servers=cluster.bootstrap, start="latest", **settings
    )
    async with made:
        await made.wait_assigned(30_000)
        yield made


async def test_each_request_gets_its_own_reply(cluster: DevCluster) -> None:
    async def price(request: Message) -> bytes:
        await asyncio.sleep(int(request.value) % 7 / 500)  # replies come in another order than requests
        return price_of(request)

    async with (
        responder(cluster, price),
        AsyncRequester(cluster.bootstrap) as one,
        AsyncRequester(cluster.bootstrap, reply_topic="replies") as two,
    ):
        asked = [
            (each, b"%d" % number, each.request(TOPIC, b"%d" % number, key=f"k{number % 3}"))
            for number, each in enumerate([one, two] * 100)
        ]
        replies = await asyncio.gather(*(reply for _, _, reply in asked))
        assert [reply.value for reply in replies] == [b"price of " + value for _, value, _ in asked]
        assert len({reply.tag for reply in replies}) == 2
        assert not one._waiting


async def test_a_failure_of_the_handler_reaches_the_requester(cluster: DevCluster) -> None:
    async with responder(cluster, handler_timeout_ms=500) as answering, AsyncRequester(cluster.bootstrap) as requester:
        with pytest.raises(errors.ResponderFailedError, match=r'topic "prices" failed: ValueError: there is no price'):
            await requester.request(TOPIC, b"broken")
        answering._handler = lambda request: bytes(5 << 20)
        with pytest.raises(errors.ResponderFailedError, match="the reply cannot be sent: A message of 5242880 bytes"):
            await requester.request(TOPIC, b"x")
        answering._handler = lambda request: "text"  # type: ignore[assignment]
        with pytest.raises(errors.ResponderFailedError, match="must be bytes, not str"):
            await requester.request(TOPIC, b"x")
        answering._handler = lambda request: None
        assert (await requester.request(TOPIC, b"x")).value == b""
        held = threading.Event()

        def hang(_: Message) -> None:
            held.wait(30)

        answering._handler = hang
        with pytest.raises(errors.ResponderFailedError, match=r"the handler took longer than 0\.5 s"):
            await requester.request(TOPIC, b"x")
        held.set()


async def test_without_a_responder_a_request_times_out(cluster: DevCluster) -> None:
    async with AsyncRequester(cluster.bootstrap, max_in_flight=2) as requester:
        waiting = [asyncio.create_task(requester.request(TOPIC, b"1", timeout_ms=700)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(errors.BusyError, match="2 requests wait for replies"):
            await requester.request(TOPIC, b"x")
        for each in waiting:
            with pytest.raises(errors.RequestTimeoutError, match=r"within 700 ms\. The request may be answered later"):
                await each
        assert not requester._waiting
        left = asyncio.create_task(requester.request(TOPIC, b"1"))
        await asyncio.sleep(0.2)
    with pytest.raises(errors.ClosedError):
        await left
    with pytest.raises(errors.ClosedError):
        await requester.request(TOPIC, b"x")


async def test_what_is_wrong_is_refused(cluster: DevCluster) -> None:
    with pytest.raises(errors.UnknownTopicError, match=r'no topic "nowhere" for replies: create it \(`ledgermq topic'):
        await AsyncRequester(cluster.bootstrap, reply_topic="nowhere").start()
    with pytest.raises(errors.InvalidArgumentError, match="max_in_flight"):
        AsyncRequester(cluster.bootstrap, max_in_flight=0)
    with pytest.raises(errors.InvalidTopicNameError):
        AsyncRequester(cluster.bootstrap, reply_topic="%TIMED")
    with pytest.raises(errors.InvalidArgumentError, match="handler_timeout_ms"):
        AsyncResponder(TOPIC, group="g", handler=price_of, bootstrap_servers=cluster.bootstrap, handler_timeout_ms=0)
    async with AsyncRequester(cluster.bootstrap) as requester:
        with pytest.raises(errors.InvalidArgumentError, match='gives the header "reply-to" itself'):
            await requester.request(TOPIC, b"x", headers={"reply-to": b"replies:0:mine"})
        with pytest.raises(errors.InvalidArgumentError, match="timeout_ms"):
            await requester.request(TOPIC, b"x", timeout_ms=0)
        with pytest.raises(errors.UnknownTopicError):
            await requester.request("nothing", b"x")
        assert not requester._waiting


async def test_a_responder_writes_only_to_its_reply_topics(
    cluster: DevCluster, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[bytes] = []

    def handle(request: Message) -> bytes:
        seen.append(request.value)
        return b"reply"

    async with responder(cluster, handle), AsyncRequester(cluster.bootstrap, reply_topic="other-replies") as requester:
        async with AsyncProducer(cluster.bootstrap) as producer:
            await producer.send(TOPIC, b"no request")
        with pytest.raises(errors.RequestTimeoutError):
            await requester.request(TOPIC, b"elsewhere", timeout_ms=1_500)
    assert {b"elsewhere", b"no request"} <= set(seen), "both are handled"
    assert "names the topic other-replies, which is not among the responder's reply topics" in caplog.text
    async with (
        responder(cluster, handle, reply_topics=["other-replies"]),
        AsyncRequester(cluster.bootstrap, reply_topic="other-replies") as requester,
    ):
        assert (await requester.request(TOPIC, b"allowed")).value == b"reply"


async def test_a_requester_receives_only_its_own_replies(cluster: DevCluster) -> None:
    """The replies of others share the queue. Nodes cut them out."""
    async with (
        responder(cluster, reply_topics="other-replies"),
        AsyncRequester(cluster.bootstrap, reply_topic="other-replies") as one,
        AsyncRequester(cluster.bootstrap, reply_topic="other-replies") as two,
    ):
        await asyncio.gather(*(each.request(TOPIC, b"x") for each in (one, two) for _ in range(10)))
        async with AsyncConsumer("other-replies", bootstrap_servers=cluster.bootstrap, tags=[two._tag]) as consumer:
            assert {message.tag for message in await consumer.getmany(10)} == {two._tag}


async def test_a_leader_is_killed_while_requests_are_in_flight(cluster: DevCluster) -> None:
    async with responder(cluster), AsyncRequester(cluster.bootstrap) as requester:
        assert (await requester.request(TOPIC, b"0")).value == b"price of 0"
        victim = await asyncio.to_thread(cluster.leader)
        requests = [
            asyncio.create_task(requester.request(TOPIC, b"%d" % number, timeout_ms=60_000)) for number in range(50)
        ]
        await asyncio.to_thread(cluster.kill, victim)
        requests += [
            asyncio.create_task(requester.request(TOPIC, b"%d" % number, timeout_ms=60_000))
            for number in range(50, 100)
        ]
        replies = await asyncio.gather(*requests)
        await asyncio.to_thread(cluster.restart, victim)
    assert [reply.value for reply in replies] == [b"price of %d" % number for number in range(100)]


def test_the_synchronous_clients(cluster: DevCluster) -> None:
    with (
        Responder(
            TOPIC, group="sync", handler=price_of, bootstrap_servers=cluster.bootstrap, start="latest"
        ) as answering,
        Requester(cluster.bootstrap) as requester,
        ThreadPoolExecutor(8) as threads,
    ):
        assert answering.wait_assigned(30_000)
        replies = threads.map(lambda number: requester.request(TOPIC, b"%d" % number).value, range(40))
        assert list(replies) == [b"price of %d" % number for number in range(40)]
        with pytest.raises(errors.ResponderFailedError):
            requester.request(TOPIC, b"broken")
        assert (answering.closed, requester.closed) == (False, False)
        answering.stop_reading()
        answering.wait_closed()
    assert answering.closed
    assert requester.closed
    with pytest.raises(errors.ClosedError):
        requester.request(TOPIC, b"1")
