"""Tests that a consumer with tags receives about the bytes of its messages, and not those of all messages, through real
connections; and that offsets, progress and retries are those of the wanted messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cluster.local.processes import DevCluster
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncGroupConsumer, AsyncProducer, Message, OutgoingMessage
from tests.cluster.cli.command import run
from tests.cluster.ports import free_base_port
from tests.cluster.received import ReceivedBytes
from tests.cluster.scrape import scrape

pytestmark = pytest.mark.real

TOPIC, SECONDS = "orders", 60
COUNT, MESSAGE_BYTES = 2_000, 512
RARE = range(50, COUNT, 100)
# Twice the bytes of the wanted messages, and as much for routes, groups, and the frames of gRPC. All messages are 1 MB.
MOST_BYTES = 4 * len(RARE) * MESSAGE_BYTES


def value(offset: int) -> bytes:
    return b"%d:" % offset + bytes(MESSAGE_BYTES - len(b"%d:" % offset))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERMQ_RETRY_DELAYS_S", "0.1")
        cluster = DevCluster(tmp_path_factory.mktemp("tags"))
        cluster.start(1, base_port=free_base_port(1))
        asyncio.run(fill(cluster))
        yield cluster
        cluster.purge()


async def fill(cluster: DevCluster) -> None:
    """Send messages of two tags to one queue. Each batch has messages of both tags."""
    async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as producer:
        await admin.create_topic(TOPIC, 1)
        tagged = ("rare" if offset in RARE else "common" for offset in range(COUNT))
        await producer.send_many(TOPIC, [OutgoingMessage(value(offset), tag=tag) for offset, tag in enumerate(tagged)])


@asynccontextmanager
async def few_bytes(cluster: DevCluster) -> AsyncIterator[Callable[[], None]]:
    """The test calls what it gets while its client is open. Then the client must have received few bytes."""
    received = ReceivedBytes(int(cluster.node(1).address.rpartition(":")[2]))
    counted = 0

    def count() -> None:
        nonlocal counted
        counted = received.count()

    yield count
    assert len(RARE) * MESSAGE_BYTES < counted < MOST_BYTES


def are_the_rare_ones(messages: list[Message]) -> bool:
    return [(message.offset, message.value) for message in messages] == [(offset, value(offset)) for offset in RARE]


async def test_a_consumer(cluster: DevCluster) -> None:
    async with (
        few_bytes(cluster) as count,
        AsyncConsumer(TOPIC, bootstrap_servers=cluster.bootstrap, tags=["rare"]) as one,
        asyncio.timeout(SECONDS),
    ):
        messages: list[Message] = []
        while one.position(TOPIC, 0) < COUNT:
            messages += await one.getmany(timeout_ms=100)
        count()
    assert are_the_rare_ones(messages)


async def test_the_batches_of_a_consumer(cluster: DevCluster) -> None:
    found: list[tuple[int, bytes]] = []
    async with (
        few_bytes(cluster) as count,
        AsyncConsumer(TOPIC, bootstrap_servers=cluster.bootstrap, tags=["rare"]) as one,
        asyncio.timeout(SECONDS),
    ):
        while one.position(TOPIC, 0) < COUNT:
            for batch in await one.getbatches(timeout_ms=100):
                found += zip(batch.offsets.tolist(), batch.batch.values(), strict=True)
        count()
    assert found == [(offset, value(offset)) for offset in RARE]


def member(cluster: DevCluster, group: str, **settings: Any) -> AsyncGroupConsumer:
    return AsyncGroupConsumer(TOPIC, group=group, bootstrap_servers=cluster.bootstrap, tags="rare", **settings)


async def progress(cluster: DevCluster, group: str) -> int | None:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        described = await admin.describe_consumer_group(group)
    return next(queue.offset for queue in described.queues if queue.topic == TOPIC)


async def test_a_member_of_a_group_whose_offset_passes_what_was_filtered(cluster: DevCluster) -> None:
    async with few_bytes(cluster) as count, member(cluster, "plain") as one, asyncio.timeout(SECONDS):
        messages: list[Message] = []
        while len(messages) < len(RARE):
            messages += await one.getmany(timeout_ms=100)
        one.finish(*messages)
        while await progress(cluster, "plain") != COUNT:
            await one.getmany(timeout_ms=10)
            await one.acknowledge()
        count()
    assert are_the_rare_ones(messages)


async def test_a_batch_of_a_member_and_a_message_of_it_that_is_retried(cluster: DevCluster) -> None:
    async with member(cluster, "batches", auto_acknowledge=False) as one, asyncio.timeout(SECONDS):
        messages: list[Message] = []
        while len(messages) < len(RARE):
            for batch in await one.getbatches(timeout_ms=100):
                assert batch.offsets.tolist() == [message.offset for message in batch.messages()]
                assert batch.to_arrow()["offset"].to_pylist() == batch.offsets.tolist()
                assert set(batch.tags()) == {"rare"}
                for message in batch.messages():
                    if message.offset == RARE[7]:
                        await one.reconsume_later(message)
                messages += batch.messages()
                one.finish(batch)
        assert are_the_rare_ones(messages)
        again: list[Message] = []
        while not again:
            again = await one.getmany(timeout_ms=100)
    assert [(message.value, message.attempt) for message in again] == [(value(RARE[7]), 2)]


def test_the_command_line(cluster: DevCluster) -> None:
    lines = run(
        "consume",
        TOPIC,
        "--tag",
        "rare",
        "--format",
        "json",
        "--bootstrap",
        cluster.bootstrap,
        cwd=cluster.directory,
    ).stdout
    assert [json.loads(line)["offset"] for line in lines.splitlines()] == list(RARE)


async def test_the_metric_counts_what_was_not_sent(cluster: DevCluster) -> None:
    before = await scrape(cluster.node(1).http)
    async with AsyncConsumer(TOPIC, bootstrap_servers=cluster.bootstrap, tags=["rare"]) as one:
        async with asyncio.timeout(SECONDS):
            while one.position(TOPIC, 0) < COUNT:
                await one.getmany(timeout_ms=100)
    after = await scrape(cluster.node(1).http)

    def grown(name: str) -> float:
        return after.of(name, topic=TOPIC) - before.samples.get((name, (("topic", TOPIC),)), 0.0)

    assert grown("ledgermq_messages_out_total") == len(RARE)
    assert grown("ledgermq_bytes_out_total") < MOST_BYTES
    assert grown("ledgermq_cut_bytes_total") > 900_000
