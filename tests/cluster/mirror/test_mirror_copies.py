"""What a mirror copies, and what it keeps of each message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from ledger.mirror import cluster_mirror
from ledger.mirror.cluster_mirror import ClusterMirror
from ledger.mirror.mirror_errors import MirrorRefusedError
from ledgermq import AsyncAdmin, AsyncProducer, Message, OutgoingMessage
from ledgermq.errors import UnknownTopicError
from tests.cluster.mirror.pair import Pair, content, mirror_of, mirrored, started_pair, values
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with started_pair(tmp_path) as pair:
        yield pair


async def send(pair: Pair, topic: str, first: int, count: int) -> None:
    async with AsyncProducer(bootstrap_servers=pair.source.bootstrap) as producer:
        await producer.send_many(topic, [(b"k%d" % (n % 7), b"%d" % n) for n in range(first, first + count)])


async def test_messages_are_equal_but_for_offsets(pair: Pair) -> None:
    await pair.source.create_topic("orders", queues=3)
    async with AsyncProducer(bootstrap_servers=pair.source.bootstrap) as producer:
        await producer.send_many(
            "orders",
            [
                OutgoingMessage(
                    b"v%d" % n,
                    key=None if n % 5 == 0 else b"k%d" % n,
                    tag=None if n % 2 else "tag",
                    headers={"h": b"%d" % n},
                    timestamp_ms=1_700_000_000_000 + n,
                    look_up_keys=[b"l%d" % n],
                )
                for n in range(200)
            ],
        )
        await producer.send("orders", b"with id", key=b"k", message_id="id-1")
    done = await mirrored(pair.source, pair.target, "orders")
    assert (done.tally.total, done.tally.lag) == (201, 0)
    ours, theirs = await content(pair.source, "orders"), await content(pair.target, "orders")

    def kept(queues: list[list[Message]]) -> list[list[tuple[object, ...]]]:
        return [
            [(m.value, m.key, m.tag, m.headers, m.timestamp_ms, m.look_up_keys) for m in messages]
            for messages in queues
        ]

    assert kept(theirs) == kept(ours)
    async with AsyncAdmin(pair.target.bootstrap) as admin:
        assert [m.value for m in await admin.query_messages("orders", b"l7")] == [b"v7"]
    async with AsyncProducer(bootstrap_servers=pair.target.bootstrap) as producer:
        # A producer that moves to the target and repeats a send is recognised.
        again = await producer.send("orders", b"with id", key=b"k", message_id="id-1")
    assert again.duplicate


async def test_it_continues_where_it_ended(pair: Pair) -> None:
    await pair.source.create_topic("orders", queues=2)
    for first in (0, 50, 100):
        await send(pair, "orders", first, 50)
        assert (await mirrored(pair.source, pair.target, "orders")).tally.total == 50
        assert await values(pair.target, "orders") == await values(pair.source, "orders")
    assert (await mirrored(pair.source, pair.target, "orders")).tally.total == 0


async def test_new_topics_and_queues_are_followed(pair: Pair) -> None:
    await pair.source.create_topic("orders-a", queues=1)
    await pair.source.create_topic("orders-old", queues=1)
    await pair.source.create_topic("other", queues=1)
    await send(pair, "orders-a", 0, 10)
    mirror = mirror_of(pair.source, pair.target, "orders-*", excluded=("orders-old",), prefix="copy.")
    try:
        await mirror.open()
        running = asyncio.create_task(mirror.run())
        async with AsyncAdmin(pair.source.bootstrap) as admin:
            await admin.create_topic("orders-b", 2)
            await admin.alter_topic("orders-a", 4)
        await send(pair, "orders-a", 10, 100)
        await send(pair, "orders-b", 0, 100)
        await eventually(lambda: _are_copied(mirror, 210), "all is copied", deadline_s=30)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    finally:
        await mirror.close()
    for topic in ("orders-a", "orders-b"):
        assert await values(pair.target, f"copy.{topic}") == await values(pair.source, topic)
    async with AsyncAdmin(pair.target.bootstrap) as admin:
        assert {each.name for each in await admin.list_topics()} >= {"copy.orders-a", "copy.orders-b"}
        for name in ("copy.orders-old", "copy.other"):
            with pytest.raises(UnknownTopicError):
                await admin.describe_topic(name)


async def _are_copied(mirror: ClusterMirror, count: int) -> bool:
    return mirror.tally.total >= count


async def test_delayed_and_decided_messages_are_copied_when_they_are_visible(pair: Pair) -> None:
    await pair.source.create_topic("orders", queues=1)
    async with AsyncProducer(bootstrap_servers=pair.source.bootstrap) as producer:
        await producer.send("orders", b"later", delay=timedelta(milliseconds=300))
        async with producer.transaction("orders", group="checkout") as transaction:
            await transaction.send(b"decided")

        async def are_there() -> bool:
            return len((await values(pair.source, "orders"))[0]) == 2

        await eventually(are_there, "both messages are visible")
    assert (await mirrored(pair.source, pair.target, "orders")).tally.total == 2
    assert await values(pair.target, "orders") == await values(pair.source, "orders")


async def test_a_repeated_message_id_is_copied_as_often_as_the_source_has_it(pair: Pair) -> None:
    await pair.source.create_topic("orders", queues=1)
    await pair.target.create_topic("orders", queues=1)
    async with AsyncProducer(bootstrap_servers=pair.target.bootstrap) as producer:
        await producer.send("orders", b"not of the mirror", message_id="id")
    async with AsyncProducer(bootstrap_servers=pair.source.bootstrap) as producer:
        await producer.send("orders", b"first", message_id="other")
        await producer.send("orders", b"second", message_id="id")
        await producer.send("orders", b"third")
    assert (await mirrored(pair.source, pair.target, "orders")).tally.total == 3
    assert await values(pair.target, "orders") == [[b"not of the mirror", b"first", b"second", b"third"]]


async def test_a_copy_is_not_copied_back(pair: Pair) -> None:
    await pair.source.create_topic("orders", queues=1)
    await send(pair, "orders", 0, 10)
    await mirrored(pair.source, pair.target, "*")
    await pair.target.create_topic("theirs", queues=1)
    await mirrored(pair.target, pair.source, "*", prefix="from-there.")
    async with AsyncAdmin(pair.source.bootstrap) as admin:
        assert {each.name for each in await admin.list_topics() if not each.name.startswith("%")} == {
            "orders",
            "from-there.theirs",
        }
    async with AsyncAdmin(pair.target.bootstrap) as admin:
        await admin.delete_consumer_group("ledgermq-copies@there")
    async with AsyncAdmin(pair.source.bootstrap) as admin:
        assert (await admin.delete_consumer_group("ledgermq-mirror@there")) == 1
    # The name says so: fail-back copies a copy.
    await mirrored(pair.target, pair.source, "orders", prefix="back.", name="back")
    assert await values(pair.source, "back.orders") == await values(pair.target, "orders")


async def test_a_later_run_notes_a_topic_that_the_source_does_not_have(pair: Pair) -> None:
    await pair.source.create_topic("orders", queues=1)
    await mirrored(pair.source, pair.target, "orders")
    done = await mirrored(pair.source, pair.target, "orders", "nope")
    assert done.tally.troubles == 1
    assert done.tally.trouble == "the source has no topic 'nope', so nothing of it is copied"


async def test_what_is_wrong_at_the_start_is_told(pair: Pair) -> None:
    await pair.source.create_topic("orders", queues=1)
    with pytest.raises(UnknownTopicError, match="no topic 'nope'"):
        await mirrored(pair.source, pair.target, "nope")
    with pytest.raises(MirrorRefusedError, match="same cluster"):
        await mirrored(pair.source, pair.source, "orders")
    with pytest.raises(MirrorRefusedError, match="no topic 'orders'"):
        await mirrored(pair.source, pair.target, "orders", creates=False)
    async with AsyncAdmin(pair.target.bootstrap) as admin:
        await admin.create_topic("orders", 1, type="delay")
    with pytest.raises(MirrorRefusedError, match="takes no copies"):
        await mirrored(pair.source, pair.target, "orders")


async def test_a_cluster_can_be_copied_to_itself_under_other_names(pair: Pair) -> None:
    await pair.source.create_topic("orders", queues=1)
    await send(pair, "orders", 0, 10)
    for _ in range(2):
        await mirrored(pair.source, pair.source, "*", prefix="copy.")
    assert await values(pair.source, "copy.orders") == await values(pair.source, "orders")
    async with AsyncAdmin(pair.source.bootstrap) as admin:
        assert not [each.name for each in await admin.list_topics() if each.name.startswith("copy.copy.")]


async def test_a_second_mirror_of_a_name_ends_the_first_and_repeats_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_mirror, "PROGRESS_S", 0.1)
    await pair.source.create_topic("orders", queues=2)
    await send(pair, "orders", 0, 500)
    mirrors = [mirror_of(pair.source, pair.target, "orders") for _ in range(2)]
    running = []
    try:
        for mirror in mirrors:
            await mirror.open()
            running.append(asyncio.create_task(mirror.run()))
        for first in range(500, 1_000, 20):
            await send(pair, "orders", first, 20)
        with pytest.raises(MirrorRefusedError, match="Another mirror runs as"):
            await asyncio.wait_for(running[0], 20)
        assert not running[1].done()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for mirror in mirrors:
            await mirror.close()
    await mirrored(pair.source, pair.target, "orders")
    assert await values(pair.target, "orders") == await values(pair.source, "orders")


async def test_the_rate_is_limited(pair: Pair) -> None:
    await pair.source.create_topic("orders", queues=2)
    async with AsyncProducer(bootstrap_servers=pair.source.bootstrap) as producer:
        for _ in range(20):
            await producer.send_many("orders", [bytes(1_000)] * 50)
    began_s = asyncio.get_running_loop().time()
    done = await mirrored(pair.source, pair.target, "orders", bytes_per_s=250_000.0)
    took_s = asyncio.get_running_loop().time() - began_s
    assert done.tally.sent_bytes > 1_000_000
    # The first second's worth goes at once.
    assert took_s > (done.tally.sent_bytes - 500_000) / 250_000


async def test_latest_begins_at_the_end_and_forgets_nothing_later(pair: Pair) -> None:
    await pair.source.create_topic("orders", queues=1)
    await send(pair, "orders", 0, 10)
    await mirrored(pair.source, pair.target, "orders", start="latest")
    await send(pair, "orders", 10, 10)
    for _ in range(2):
        await mirrored(pair.source, pair.target, "orders", start="latest")
    assert await values(pair.target, "orders") == [[b"%d" % n for n in range(10, 20)]]
