"""Mirrors from a cluster's port for RocketMQ clients to another cluster."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from ledger.errors import DeliveryTimeoutError, UnknownTopicError
from ledger.rocketmq.mirror.mirror import Mirror
from ledger.rocketmq.mirror.source_settings import MirrorError, SourceAddress, SourceSettings
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, Message
from tests.cluster.fleet import MESSAGE_LIMIT, Fleet
from tests.cluster.rocketmq_stubs import RawClient, resource, rocketmq_fleet
from tests.cluster.waiter import until

pytestmark = pytest.mark.real

BUFFER_BYTES = 16 << 20


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[Fleet]:
    """A node with a port for RocketMQ clients, which takes larger messages than `target`."""
    async with rocketmq_fleet(tmp_path / "source", max_message_bytes=4 * MESSAGE_LIMIT) as fleet:
        yield fleet


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path / "target", 1, cluster="other")
    fleet.directory.mkdir()
    try:
        await fleet.start()
        await fleet.leader()
        await fleet.create_topic("orders", queues=2)
        yield fleet
    finally:
        await fleet.close()


@pytest.fixture
async def client(source: Fleet) -> AsyncIterator[RawClient]:
    async with RawClient(source.settings(1).rocketmq) as client:
        yield client


def settings_of(fleet: Fleet, group: str = "mirror", **given: Any) -> SourceSettings:
    address = SourceAddress.parse(fleet.settings(1).rocketmq)
    return SourceSettings([address], group, f"mirror@{time.monotonic_ns()}", **given)


@asynccontextmanager
async def mirroring(
    fleet: Fleet,
    producer: object,
    group: str = "mirror",
    *topics: str,
    buffer_bytes: int = BUFFER_BYTES,
    invisible_s: int = 30,
) -> AsyncIterator[Mirror]:
    mirror = Mirror(
        settings_of(fleet, group, invisible_s=invisible_s),
        {topic: topic for topic in topics or ("orders",)},
        cast("AsyncProducer[bytes]", producer),
        lambda: datetime.now(UTC),
        buffer_bytes,
    )
    try:
        await mirror.open()
        yield mirror
    finally:
        await mirror.close()


async def copy_all(source: Fleet, target: Fleet, group: str = "mirror", *topics: str) -> Mirror:
    async with AsyncProducer(target.bootstrap) as producer, mirroring(source, producer, group, *topics) as mirror:
        await mirror.run(until_empty_s=1)
    return mirror


async def all_of(fleet: Fleet, topic: str = "orders") -> list[Message]:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        count = sum(each.end_offset for each in (await admin.describe_topic(topic)).offsets)
    found: list[Message] = []
    async with AsyncConsumer(topic, bootstrap_servers=fleet.bootstrap) as consumer:
        while len(found) < count:
            found += await consumer.getmany(timeout_ms=500)
    return found


async def settled(fleet: Fleet, group: str = "mirror") -> int:
    """Return how many messages of the topic `orders` the group has acknowledged, from the first on."""
    async with AsyncAdmin(fleet.bootstrap) as admin:
        described = await admin.describe_consumer_group(group)
    return sum(each.offset or 0 for each in described.queues if each.topic == "orders")


class HeldProducer:
    """Passes sends on when `go_on` is set, and fails the first `failures` of them."""

    def __init__(self, producer: AsyncProducer, failures: int = 0) -> None:
        self._producer = producer
        self._failures = failures
        self.asked = 0
        self.go_on = asyncio.Event()

    async def send(self, *arguments: Any, **given: Any) -> Any:
        self.asked += 1
        await self.go_on.wait()
        if self._failures:
            self._failures -= 1
            raise DeliveryTimeoutError("no answer", maybe_committed=True)
        return await self._producer.send(*arguments, **given)


async def test_a_copy_has_what_the_message_had(source: Fleet, target: Fleet, client: RawClient) -> None:
    born_ms = round(time.time() * 1000) - 60_000
    message = client.message(
        "orders",
        b"hello",
        message_id="01AB",
        tag="paid",
        keys=[f"k{number}" for number in range(18)],
        properties={"colour": "red"},
        message_group="customer 7",
        born_host="there",
        body_encoding=pb.GZIP,
        trace_context="trace",
    )
    message.system_properties.born_timestamp.FromMilliseconds(born_ms)
    assert (await client.send(message)).status.code == pb.OK
    await client.sent("orders", b"later", deliver_at_ms=round(time.time() * 1000) + 1_500)
    transaction = await client.sent("orders", b"half", message_type=pb.TRANSACTION)
    await client.call(
        "EndTransaction",
        service_pb2.EndTransactionRequest(
            topic=resource("orders"),
            message_id=transaction.message_id,
            transaction_id=transaction.transaction_id,
            resolution=pb.COMMIT,
        ),
    )
    mirror = await copy_all(source, target)
    assert (mirror.tally.total, mirror.tally.repeated, mirror.tally.unfinished) == (3, 0, 0)
    copies = {each.value: each for each in await all_of(target)}
    assert copies.keys() == {b"hello", b"later", b"half"}
    copy = copies[b"hello"]
    assert (copy.key, copy.tag, copy.timestamp_ms) == (b"customer 7", "paid", born_ms)
    assert copy.look_up_keys == tuple(b"k%d" % number for number in range(16))
    assert dict(copy.headers) == {
        "colour": b"red",
        "%MESSAGE_ID": b"01AB",
        "%TYPE": b"FIFO",
        "%BORN_HOST": b"there",
        "%ENCODING": b"GZIP",
        "%TRACE": b"trace",
        "%KEYS": b"\x01".join(b"k%d" % number for number in range(18)),
    }
    assert dict(copies[b"later"].headers)["%TYPE"] == b"DELAY"
    assert dict(copies[b"half"].headers)["%TYPE"] == b"TRANSACTION"
    assert await settled(source) == 3


async def test_a_message_is_acknowledged_only_when_the_cluster_has_it(
    source: Fleet, target: Fleet, client: RawClient
) -> None:
    await client.sent("orders")
    async with AsyncProducer(target.bootstrap) as producer:
        held = HeldProducer(producer)
        async with mirroring(source, held) as mirror:
            running = asyncio.create_task(mirror.run())
            await until(asked(held, 1), "the message was received")
            await asyncio.sleep(0.3)
            assert await settled(source) == 0
            held.go_on.set()
            await until(copied(mirror, 1), "the message was copied")
            assert await settled(source) == 1
            running.cancel()


async def test_a_message_that_was_not_stored_comes_again(source: Fleet, target: Fleet, client: RawClient) -> None:
    """`until_empty_s` waits for it, though the servers have no other message meanwhile."""
    await client.sent("orders")
    async with AsyncProducer(target.bootstrap) as producer:
        held = HeldProducer(producer, failures=1)
        held.go_on.set()
        async with mirroring(source, held, invisible_s=10) as mirror:
            await asyncio.wait_for(mirror.run(until_empty_s=1), 60)
    assert (mirror.tally.total, mirror.tally.unfinished) == (1, 1)
    assert mirror.tally.trouble == "no answer"
    assert (len(await all_of(target)), await settled(source)) == (1, 1)


async def test_a_message_that_is_copied_again_is_stored_once(source: Fleet, target: Fleet, client: RawClient) -> None:
    for number in range(50):
        await client.sent("orders", b"%d" % number)
    assert (await copy_all(source, target, "first")).tally.total == 50
    again = await copy_all(source, target, "second")
    assert (again.tally.total, again.tally.repeated) == (50, 50)
    assert len(await all_of(target)) == 50


async def test_a_mirror_goes_on_where_the_one_before_ended(source: Fleet, target: Fleet, client: RawClient) -> None:
    await client.sent("orders", b"1")
    assert (await copy_all(source, target)).tally.total == 1
    await client.sent("orders", b"2")
    mirror = await copy_all(source, target)
    assert (mirror.tally.total, mirror.tally.repeated) == (1, 0)


async def test_messages_with_one_message_group_keep_their_order(
    source: Fleet, target: Fleet, client: RawClient
) -> None:
    async with AsyncAdmin(source.bootstrap) as admin:
        await admin.create_topic("fifo", 3, type="fifo")
    await target.create_topic("fifo", queues=2)
    for number in range(150):
        await client.sent("fifo", b"%d" % number, message_group=f"group {number % 5}")
    assert (await copy_all(source, target, "mirror", "fifo")).tally.total == 150
    found: dict[bytes | None, list[int]] = defaultdict(list)
    for copy in sorted(await all_of(target, "fifo"), key=lambda each: (each.queue, each.offset)):
        found[copy.key].append(int(copy.value))
    assert len(found) == 5
    for numbers in found.values():
        assert numbers == list(range(numbers[0], 150, 5))


async def test_the_messages_on_their_way_are_bounded(source: Fleet, target: Fleet, client: RawClient) -> None:
    for _ in range(20):
        await client.sent("orders", b"x" * 10_000)
    async with AsyncProducer(target.bootstrap) as producer:
        held = HeldProducer(producer)
        async with mirroring(source, held, buffer_bytes=30_000) as mirror:
            running = asyncio.create_task(mirror.run())
            await until(asked(held, 2), "two messages were received")
            await asyncio.sleep(0.3)
            assert held.asked == 2
            held.go_on.set()
            await until(copied(mirror, 20), "all messages were copied")
            running.cancel()


async def test_a_message_that_the_cluster_cannot_store_goes_to_the_dead_letters(
    source: Fleet, target: Fleet, client: RawClient
) -> None:
    await client.sent("orders", b"x" * (2 * MESSAGE_LIMIT), message_id="LARGE")
    await client.sent("orders", b"small")
    mirror = await copy_all(source, target)
    assert (mirror.tally.total, mirror.tally.left_out) == (1, 1)
    (sentence,) = mirror.tally.left_out_sentences
    assert "LARGE" in sentence
    assert [each.value for each in await all_of(target)] == [b"small"]
    (letter,) = await all_of(source, "%DLQ%mirror")
    assert letter.value == b"x" * (2 * MESSAGE_LIMIT)


async def test_a_mirror_whose_topic_is_deleted_in_the_cluster_ends(
    source: Fleet, target: Fleet, client: RawClient
) -> None:
    async with AsyncProducer(target.bootstrap) as producer, mirroring(source, producer) as mirror:
        async with AsyncAdmin(target.bootstrap) as admin:
            await admin.delete_topic("orders")
        await client.sent("orders")
        with pytest.raises(UnknownTopicError):
            await asyncio.wait_for(mirror.run(), 30)
    assert await settled(source) == 0


async def test_a_topic_that_the_servers_do_not_have_is_told(source: Fleet, target: Fleet) -> None:
    async with AsyncProducer(target.bootstrap) as producer:
        with pytest.raises(MirrorError, match="TOPIC_NOT_FOUND"):
            async with mirroring(source, producer, "mirror", "nope"):
                pass


async def test_a_mirror_waits_for_servers_that_are_away(source: Fleet, target: Fleet, client: RawClient) -> None:
    async with AsyncProducer(target.bootstrap) as producer, mirroring(source, producer) as mirror:
        running = asyncio.create_task(mirror.run(until_empty_s=1))
        await client.sent("orders", b"1")
        await until(copied(mirror, 1), "the message was copied")
        await source.stop(1)
        await until(lambda: mirror.tally.trouble, "the trouble is told")
        await source.start(1)
        await source.leader()
        await client.sent("orders", b"2")
        await until(copied(mirror, 2), "the later message was copied")
        await asyncio.wait_for(running, 30)


def asked(held: HeldProducer, number: int) -> Callable[[], bool]:
    return lambda: held.asked >= number


def copied(mirror: Mirror, number: int) -> Callable[[], bool]:
    return lambda: mirror.tally.total >= number
