"""Many producers of one program, which share batches, on three nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest

from cluster.local.processes import DevCluster
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, RecordMetadata
from ledgermq.errors import InvalidArgumentError
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import until

pytestmark = pytest.mark.real

PRODUCERS = 60
QUEUES = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    cluster = DevCluster(tmp_path_factory.mktemp("crowd"))
    cluster.start(3, base_port=free_base_port(3), shards=QUEUES)
    yield cluster
    cluster.purge()


async def read_all(cluster: DevCluster, topic: str, count: int) -> dict[tuple[int, int], bytes]:
    """Read so many messages. Return them by queue and offset."""
    found: dict[tuple[int, int], bytes] = {}
    async with asyncio.timeout(60), AsyncConsumer(topic, bootstrap_servers=cluster.bootstrap) as consumer:
        async for message in consumer:
            found[message.queue, message.offset] = message.value
            if len(found) == count:
                break
    return found


async def test_each_message_of_a_crowd_is_stored_once_and_in_order_although_leaders_are_killed(
    cluster: DevCluster,
) -> None:
    sent: list[list[tuple[bytes, RecordMetadata]]] = [[] for _ in range(PRODUCERS)]
    is_over = asyncio.Event()

    async with AsyncAdmin(cluster.bootstrap) as admin:
        await admin.create_topic("crowd", QUEUES)

    async def work(producer: AsyncProducer, number: int) -> None:
        """Await each send. Sometimes send more than fits common batches."""
        while not is_over.is_set():
            size = 20_000 if len(sent[number]) % 50 == number else 20
            values = [b"%d.%d." % (number, len(sent[number]) + place) + bytes(size) for place in range(3)]
            futures = [producer.send_nowait("crowd", value, key=str(number)) for value in values]
            sent[number] += zip(values, await asyncio.gather(*futures), strict=True)

    async def flow(messages: int) -> None:
        before = sum(map(len, sent))
        await until(lambda: sum(map(len, sent)) >= before + messages, "messages flow", deadline_s=60)

    async def kill() -> None:
        for _ in range(2):
            await flow(2_000)
            victim = await asyncio.to_thread(cluster.leader)
            await asyncio.to_thread(cluster.kill, victim)
            await flow(3_000)
            await asyncio.to_thread(cluster.restart, victim)
        is_over.set()

    async with AsyncExitStack() as stack:
        producers = [
            await stack.enter_async_context(AsyncProducer(cluster.bootstrap, client_id="crowd"))
            for _ in range(PRODUCERS)
        ]
        async with asyncio.timeout(150):
            await asyncio.gather(*(work(each, number) for number, each in enumerate(producers)), kill())
    told = {(place.queue, place.offset): value for each in sent for value, place in each}
    assert len(told) == sum(map(len, sent)), "no two messages have the same place"
    assert await read_all(cluster, "crowd", len(told)) == told
    for each in sent:
        assert all(before.offset < after.offset for (_, before), (_, after) in pairwise(each))


async def test_a_message_without_a_key_fails_alone_in_a_topic_that_needs_keys(cluster: DevCluster) -> None:
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(AsyncAdmin(cluster.bootstrap))
        await admin.create_topic("ordered", 1, type="fifo")
        producers = [await stack.enter_async_context(AsyncProducer(cluster.bootstrap)) for _ in range(10)]
        await asyncio.gather(*(each.send("ordered", b"first", key="k") for each in producers))
        futures = [
            each.send_nowait("ordered", b"%d" % number, key="k" if number % 3 else None)
            for number, each in enumerate(producers)
        ]
        told = await asyncio.gather(*futures, return_exceptions=True)
    failed = [number for number, each in enumerate(told) if isinstance(each, InvalidArgumentError)]
    assert failed == [0, 3, 6, 9]
    stored = await read_all(cluster, "ordered", 16)
    assert [value for _, value in sorted(stored.items())][10:] == [b"1", b"2", b"4", b"5", b"7", b"8"]
