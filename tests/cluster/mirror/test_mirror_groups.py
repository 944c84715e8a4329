"""Consumer groups go on at the target: they miss nothing, and repeat little."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledger.client.admin.consumer_groups_admin import ConsumerGroupsAdmin
from ledgermq import AsyncAdmin, AsyncGroupConsumer, AsyncProducer, AsyncSharedConsumer, TopicQueue
from ledgermq.errors import UnknownGroupError
from tests.cluster.fleet import Fleet
from tests.cluster.mirror.pair import Pair, mirrored, started_pair, values

pytestmark = pytest.mark.real


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with started_pair(tmp_path) as pair:
        await pair.source.create_topic("orders", queues=2)
        yield pair


async def send(fleet: Fleet, count: int, first: int = 0) -> None:
    async with AsyncProducer(bootstrap_servers=fleet.bootstrap) as producer:
        for n in range(first, first + count):
            await producer.send("orders", b"%d" % n, queue=n % 2)


async def consume(fleet: Fleet, group: str, most: int) -> list[bytes]:
    """Read and acknowledge up to so many messages."""
    taken: list[bytes] = []
    async with AsyncGroupConsumer("orders", group=group, bootstrap_servers=fleet.bootstrap) as consumer:
        while len(taken) < most and (got := await consumer.getmany(most - len(taken), timeout_ms=3_000)):
            taken += [message.value for message in got]
            consumer.finish(*got)
            await consumer.acknowledge()
    return taken


async def offsets(fleet: Fleet, group: str) -> dict[int, int | None]:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        try:
            described = await admin.describe_consumer_group(group)
        except UnknownGroupError:
            return {}
    return {each.queue: each.offset for each in described.queues if each.topic == "orders"}


async def set_offsets(fleet: Fleet, group: str, *wanted: int) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        places = {TopicQueue("orders", queue): offset for queue, offset in enumerate(wanted)}
        await ConsumerGroupsAdmin(admin._client).set_offsets(group, places)


async def test_a_group_goes_on_at_the_target(pair: Pair) -> None:
    await send(pair.source, 40)
    before = await consume(pair.source, "billing", 15)
    assert len(before) == 15
    done = await mirrored(pair.source, pair.target, "orders", groups=("bill*",))
    assert done.tally.moved == {"billing": 2}
    after = await consume(pair.target, "billing", 100)
    assert sorted(before + after) == sorted(b"%d" % n for n in range(40))


async def test_only_groups_that_match_are_moved(pair: Pair) -> None:
    await send(pair.source, 4)
    for group in ("billing", "other"):
        await set_offsets(pair.source, group, 1, 1)
    await mirrored(pair.source, pair.target, "orders", groups=("bill*",))
    assert await offsets(pair.target, "billing") == {0: 1, 1: 1}
    assert await offsets(pair.target, "other") == {}


async def test_offsets_never_go_back_at_the_target(pair: Pair) -> None:
    await send(pair.source, 20)
    await set_offsets(pair.source, "billing", 7, 2)
    await mirrored(pair.source, pair.target, "orders", groups=("*",))
    await set_offsets(pair.target, "billing", 5, 9)
    await mirrored(pair.source, pair.target, "orders", groups=("*",))
    assert await offsets(pair.target, "billing") == {0: 7, 1: 9}


async def test_a_group_with_members_at_the_target_is_left_alone(pair: Pair) -> None:
    await send(pair.source, 20)
    await mirrored(pair.source, pair.target, "orders")
    async with AsyncGroupConsumer("orders", group="billing", bootstrap_servers=pair.target.bootstrap) as consumer:
        await consumer.getmany(1, timeout_ms=10_000)
        await set_offsets(pair.source, "billing", 9, 9)
        done = await mirrored(pair.source, pair.target, "orders", groups=("*",))
        assert done.tally.kept_back == {"billing": "it has members at the target"}
    assert 9 not in (await offsets(pair.target, "billing")).values()


async def test_a_group_with_retries_is_kept_back(pair: Pair) -> None:
    await send(pair.source, 4)
    await consume(pair.source, "billing", 1)
    await mirrored(pair.source, pair.target, "orders", groups=("*",))
    before = await offsets(pair.target, "billing")
    async with AsyncGroupConsumer("orders", group="billing", bootstrap_servers=pair.source.bootstrap) as consumer:
        for message in await consumer.getmany(3, timeout_ms=10_000):
            await consumer.reconsume_later(message)
    done = await mirrored(pair.source, pair.target, "orders", groups=("*",))
    assert done.tally.kept_back == {"billing": "messages wait in its retry topic at the source"}
    assert await offsets(pair.target, "billing") == before


async def test_a_shared_group_goes_on_at_the_target(pair: Pair) -> None:
    await send(pair.source, 20)
    async with AsyncAdmin(pair.source.bootstrap) as admin:
        await admin.create_consumer_group("work", mode="shared", order="key", max_attempts=7)
    async with AsyncSharedConsumer("orders", group="work", bootstrap_servers=pair.source.bootstrap) as consumer:
        for message in await consumer.receive(5):
            await consumer.ack(message)
        left = await consumer.receive(1)
    theirs = await offsets(pair.source, "work")
    assert sum(filter(None, theirs.values())) == 5
    done = await mirrored(pair.source, pair.target, "orders", groups=("*",))
    assert (done.tally.kept_back, done.tally.moved["work"]) == ({}, 2)
    async with AsyncAdmin(pair.target.bootstrap) as admin:
        described = await admin.describe_consumer_group("work")
    assert (described.mode, described.order, described.max_attempts) == ("shared", "key", 7)
    async with AsyncSharedConsumer("orders", group="work", bootstrap_servers=pair.target.bootstrap) as consumer:
        found: list[bytes] = []
        while len(found) < 15:
            messages = await consumer.receive(100)
            found += [message.value for message in messages]
            await consumer.ack(messages)
        assert len(set(found)) == len(found) == 15
        assert {message.value for message in left} <= set(found)


async def test_a_shared_group_that_is_a_queue_group_at_the_target_is_named(pair: Pair) -> None:
    await send(pair.source, 4)
    async with AsyncAdmin(pair.source.bootstrap) as admin:
        await admin.create_consumer_group("work", mode="shared")
    async with AsyncSharedConsumer("orders", group="work", bootstrap_servers=pair.source.bootstrap) as consumer:
        await consumer.ack(await consumer.receive(4))
    await mirrored(pair.source, pair.target, "orders")
    await set_offsets(pair.target, "work", 0, 0)
    done = await mirrored(pair.source, pair.target, "orders", groups=("*",))
    assert done.tally.kept_back == {"work": "the target has a group with this name and another mode"}


async def test_offsets_are_right_where_others_wrote_to_the_target(pair: Pair) -> None:
    """And also for messages that an earlier process has copied."""
    await send(pair.source, 20)
    await mirrored(pair.source, pair.target, "orders")
    await send(pair.target, 4, first=1_000)
    await send(pair.source, 20, first=20)
    await set_offsets(pair.source, "late", 3, 3)
    await set_offsets(pair.source, "early", 15, 10)
    await mirrored(pair.source, pair.target, "orders", groups=("*",))
    theirs = await values(pair.target, "orders")
    for group in ("late", "early"):
        ours = await offsets(pair.source, group)
        for queue, offset in (await offsets(pair.target, group)).items():
            at = ours[queue]
            assert offset is not None
            assert at is not None
            wanted = {b"%d" % (2 * n + queue) for n in range(at, 20)}
            assert wanted <= set(theirs[queue][offset:]), (group, queue, offset, theirs)
    # The messages of others are between those of the two runs, so only the second run is found without a search.
    assert set((await offsets(pair.target, "early")).values()) == {17, 12}
