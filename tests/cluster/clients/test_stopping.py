"""Tests that consumers stop cleanly: messages in hand are finished and acknowledged, none is lost, none is repeated."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from cluster.local.processes import DevCluster
from ledger.errors import ClosedError
from ledgermq import (
    AsyncAdmin,
    AsyncGroupConsumer,
    AsyncProducer,
    AsyncPushConsumer,
    GroupConsumer,
    Message,
    PushConsumer,
    stop_on_signal,
)
from tests.cluster.ports import free_base_port

pytestmark = pytest.mark.real

QUEUES, STOPS, SECONDS = 4, 50, 30
# A worker is stopped when it has consumed this many messages.
BUSY = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERMQ_RETRY_DELAYS_S", "0.1")
        cluster = DevCluster(tmp_path_factory.mktemp("stopping"))
        cluster.start(1, base_port=free_base_port(1))
        yield cluster
        cluster.purge()


@pytest.fixture
async def topic(cluster: DevCluster, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    name = request.node.name.partition("[")[0][-60:]
    async with AsyncAdmin(cluster.bootstrap) as admin:
        await admin.create_topic(name, QUEUES)
        yield name


async def fill(cluster: DevCluster, topic: str, count: int) -> None:
    async with AsyncProducer(cluster.bootstrap) as producer:
        for queue in range(QUEUES):
            await producer.send_many(topic, [b"%d" % value for value in range(count)], queue=queue)


class Work:
    """What the workers of one test have consumed. `settings` are those of every consumer."""

    def __init__(self, cluster: DevCluster, topic: str) -> None:
        self.topic = topic
        self.settings: dict[str, Any] = {"group": f"of-{topic}"[:63], "bootstrap_servers": cluster.bootstrap}
        self.consumed: Counter[str] = Counter()
        self._busy = threading.Event()
        self._missing = 0

    def begin(self) -> None:
        self._missing = BUSY
        self._busy.clear()

    def done(self, message: Message) -> None:
        self.consumed[message.id] += 1
        self._missing -= 1
        if self._missing <= 0:
            self._busy.set()

    async def consume_beside(self, message: Message) -> None:
        """What the member does that never stops."""
        await asyncio.sleep(0.001)
        self.consumed[message.id] += 1

    async def busy(self) -> None:
        assert await asyncio.to_thread(self._busy.wait, SECONDS)

    async def consume(self, message: Message) -> None:
        await asyncio.sleep(0.001)
        self.done(message)

    def consume_now(self, message: Message) -> None:
        time.sleep(0.001)  # the work
        self.done(message)


async def iterating(work: Work) -> None:
    """One task iterates, another one stops the consumer."""

    async def iterate() -> None:
        async for message in consumer:
            await work.consume(message)

    consumer = AsyncGroupConsumer(work.topic, **work.settings)
    await consumer.start()
    iteration = asyncio.create_task(iterate())
    await work.busy()
    await consumer.stop()
    await asyncio.wait_for(iteration, SECONDS)


async def signalled(work: Work) -> None:
    """A signal ends the iteration, and the `with` block stops the consumer."""
    async with AsyncGroupConsumer(work.topic, **work.settings) as consumer:
        with stop_on_signal(consumer):
            killing = asyncio.create_task(kill_when(work.busy()))
            async for message in consumer:
                await work.consume(message)
    await killing


async def kill_when(happened: Awaitable[None]) -> None:
    await happened
    os.kill(os.getpid(), signal.SIGTERM)


async def pooling(work: Work) -> None:
    """Tasks finish the messages, out of order, while the consumer stops."""

    async def one(message: Message) -> None:
        await work.consume(message)
        consumer.finish(message)

    async def read() -> None:
        with contextlib.suppress(ClosedError):
            while True:
                tasks.extend([asyncio.create_task(one(message)) for message in await consumer.getmany(8)])
                await asyncio.sleep(0.004)

    tasks: list[asyncio.Task[None]] = []
    consumer = AsyncGroupConsumer(work.topic, auto_acknowledge=False, **work.settings)
    await consumer.start()
    reading = asyncio.create_task(read())
    await work.busy()
    await consumer.stop()
    await asyncio.gather(reading, *tasks)


async def pushing(work: Work) -> None:
    async with AsyncPushConsumer(work.topic, listener=work.consume, concurrency=3, **work.settings) as consumer:
        await work.busy()
        consumer.stop_reading()
        await asyncio.wait_for(consumer.wait_closed(), SECONDS)


async def in_threads(work: Work) -> None:
    """A thread iterates, another one closes the consumer."""

    def iterate() -> None:
        for message in consumer:
            work.consume_now(message)

    consumer = await asyncio.to_thread(lambda: GroupConsumer(work.topic, **work.settings))
    thread = threading.Thread(target=iterate)
    thread.start()
    await work.busy()
    await asyncio.to_thread(consumer.close)
    await asyncio.to_thread(thread.join, SECONDS)
    assert not thread.is_alive()


async def pushing_to_threads(work: Work) -> None:
    consumer = await asyncio.to_thread(lambda: PushConsumer(work.topic, listener=work.consume_now, **work.settings))
    await work.busy()
    await asyncio.to_thread(consumer.close)


STYLES: list[Callable[[Work], Awaitable[None]]] = [
    iterating,
    signalled,
    pooling,
    pushing,
    in_threads,
    pushing_to_threads,
]


async def test_busy_workers_that_stop_50_times_lose_nothing_and_repeat_nothing(cluster: DevCluster, topic: str) -> None:
    """A second member consumes all the time, so queues move at each start and at each stop."""
    count = 2_000
    await fill(cluster, topic, count)
    work = Work(cluster, topic)
    always = AsyncPushConsumer(topic, listener=work.consume_beside, concurrency=1, **work.settings)
    await always.start()
    for style in itertools.islice(itertools.cycle(STYLES), STOPS):
        work.begin()
        await asyncio.wait_for(style(work), SECONDS)
    await always.stop()
    async with AsyncPushConsumer(topic, listener=work.done, **work.settings):
        async with asyncio.timeout(SECONDS):
            while len(work.consumed) < QUEUES * count:  # noqa: ASYNC110 - the listener runs in threads
                await asyncio.sleep(0.02)
    assert [message for message, times in work.consumed.items() if times > 1] == []
    assert len(work.consumed) == QUEUES * count
