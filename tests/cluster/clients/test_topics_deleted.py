"""Tests deleted topics: the errors that producers, consumers and consumer groups get, the files that stay, and the
next start with a log that contains messages of a deleted topic."""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from pathlib import Path

import pytest

from ledger.client.records import TopicDescription
from ledger.errors import InvalidTopicNameError, ReplicaBehindError, UnknownTopicError
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncGroupConsumer, AsyncProducer, AsyncSharedConsumer, Message
from tests.cluster.cli.command import run
from tests.cluster.fleet import Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.led_shards import leaders
from tests.cluster.waiter import eventually, until

SHARDS, QUEUES = 3, 6


@pytest.fixture(autouse=True)
def quick_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients refresh their routes every 0.5 s instead of every 30 s."""
    monkeypatch.setattr("ledger.client.connection.routes._REFRESH_SECONDS", 0.5)


@pytest.fixture
async def fleet(make_fleet: MakeFleet) -> Fleet:
    fleet = make_fleet(shards=SHARDS, retry_delays_s=[0.2])
    for node in fleet.nodes:
        fleet.override(node, index_data=indexes(fleet, node))
    await fleet.start()
    await led(fleet)
    return fleet


def indexes(fleet: Fleet, node: int) -> Path:
    return fleet.directory / f"indexes-{node}"


def files_of(fleet: Fleet, topic_id: int) -> list[Path]:
    """Return the files of the topic's ConsumeQueues on all nodes."""
    return list(fleet.directory.glob(f"indexes-*/shard-*/queues/{topic_id}-*/*"))


async def led(fleet: Fleet) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin:

        async def all_led() -> bool:
            return len(await leaders(admin)) == SHARDS

        await eventually(all_led, "all shards are led")


async def sends(producer: AsyncProducer, topic: str, value: bytes) -> bool:
    """Send the message. Return False if the topic is unknown."""
    try:
        await producer.send(topic, value)
    except UnknownTopicError:
        return False
    return True


async def read(consumer: AsyncConsumer | AsyncGroupConsumer, count: int) -> list[Message]:
    messages: list[Message] = []
    async with asyncio.timeout(30):
        while len(messages) < count:
            messages += await consumer.getmany()
    return messages


async def read_when_there(consumer: AsyncConsumer | AsyncGroupConsumer) -> list[Message]:
    """Return the first messages that the consumer receives. The topic may not exist yet."""

    async def found() -> list[Message]:
        try:
            return await consumer.getmany(timeout_ms=100)
        except UnknownTopicError:
            return []

    return await eventually(found, "the consumer has taken the topic up")


async def test_a_deleted_topic_is_gone_everywhere_and_another_one_of_its_name_begins_anew(fleet: Fleet) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin, AsyncProducer(fleet.bootstrap) as producer:
        first = await admin.create_topic("again", QUEUES)
        await producer.send_many("again", [b"old"] * 100)
        await admin.delete_topic("again")
        led_by = await leaders(admin)
        for queue, shard in enumerate(first.shards):  # once each: what was answered is so, in all shards
            refused = error_of(await fleet.produce(led_by[shard], sample_batch(first.topic_id, queue=queue)))
            assert type(refused) is UnknownTopicError
            assert not refused.retriable
        for gone in (admin.describe_topic("again"), admin.delete_topic("again"), producer.send("again", b"late")):
            with pytest.raises(UnknownTopicError):
                await gone
        second = await admin.create_topic("again", QUEUES)
        assert second.topic_id > first.topic_id
        await eventually(lambda: sends(producer, "again", b"new"), "the producer writes to the other topic")
        described = await admin.describe_topic("again")
        assert sum(offsets.end_offset for offsets in described.offsets) == 1
        with pytest.raises(InvalidTopicNameError, match="reserved"):
            await admin.delete_topic("%RETRY%anybody")
        await until(lambda: not files_of(fleet, first.topic_id), "its indexes are removed by the next checkpoint")


async def test_fetches_that_wait_are_answered_at_once(fleet: Fleet) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        made = await admin.create_topic("waiting", SHARDS)
        places = [(node, queue) for node in fleet.nodes for queue in range(SHARDS)]

        async def known() -> bool:
            answers = [await fleet.fetch(node, made.topic_id, 0, queue=queue) for node, queue in places]
            return all(error_of(answer) is None for answer in answers)

        await eventually(known, "every node knows the topic")
        waiting = [
            asyncio.create_task(fleet.fetch(node, made.topic_id, 0, queue=queue, max_wait_ms=60_000))
            for node, queue in places
        ]
        await admin.cluster()  # over the same connections: the fetches are there by then
        await admin.delete_topic("waiting")
        async with asyncio.timeout(10):
            answers = await asyncio.gather(*waiting)
        errors = {place: type(error_of(answer)) for place, answer in zip(places, answers, strict=True)}
        assert set(errors.values()) <= {UnknownTopicError, ReplicaBehindError}

        async def is_unknown(node: int, queue: int) -> bool:
            answer = await fleet.fetch(node, made.topic_id, 0, queue=queue)
            return isinstance(error_of(answer), UnknownTopicError)

        for place, error in errors.items():
            if error is ReplicaBehindError:  # on a busy machine, a follower may have lost its leader at that moment
                await eventually(partial(is_unknown, *place), f"{place} knows of the deletion")


async def test_consumers_of_only_that_topic_are_told_and_go_on_when_it_comes_again(fleet: Fleet) -> None:
    where = {"bootstrap_servers": fleet.bootstrap}
    async with AsyncAdmin(fleet.bootstrap) as admin, AsyncProducer(fleet.bootstrap) as producer:
        await admin.create_topic("only", QUEUES)
        await producer.send("only", b"old")
        async with (
            AsyncConsumer("only", **where) as plain,  # type: ignore[arg-type]
            AsyncGroupConsumer("only", group="members", **where) as member,  # type: ignore[arg-type]
            AsyncGroupConsumer("only", group="all", broadcast=True, instance="a", **where) as one,  # type: ignore[arg-type]
        ):
            consumers = (plain, member, one)
            for consumer in consumers:
                await read(consumer, 1)
            await admin.delete_topic("only")
            for consumer in consumers:
                with pytest.raises(UnknownTopicError, match='no topic "only"'):
                    await read(consumer, 1)
            assert (await admin.describe_consumer_group("members")).members
            assert {one.topic for one in (await admin.describe_consumer_group("members")).queues} == {"%RETRY%members"}
            await admin.create_topic("only", 1)
            await eventually(lambda: sends(producer, "only", b"new"), "the producer writes to the other topic")
            for consumer in consumers:
                (message,) = await read_when_there(consumer)
                assert (message.value, message.offset) == (b"new", 0)


async def test_a_shared_consumer_goes_on_with_its_other_topics_and_with_one_that_comes_again(fleet: Fleet) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin, AsyncProducer(fleet.bootstrap) as producer:
        for topic in ("gone", "kept"):
            await admin.create_topic(topic, QUEUES)
            await producer.send(topic, b"first of " + topic.encode())
        await admin.create_consumer_group("sharers", mode="shared")
        async with AsyncSharedConsumer("gone", "kept", group="sharers", bootstrap_servers=fleet.bootstrap) as member:

            async def next_value() -> bytes:
                async with asyncio.timeout(20):
                    while not (received := await member.receive(1, max_wait_ms=300)):
                        pass
                (message,) = received
                assert await member.ack(message) == 1
                return message.value

            assert {await next_value(), await next_value()} == {b"first of gone", b"first of kept"}
            await producer.send("kept", b"in hand")
            in_hand = await member.receive()
            await admin.delete_topic("gone")
            await until(lambda: "gone" not in member._client.routes.table.topics, "the consumer knows of the deletion")
            await producer.send("kept", b"second of kept")
            assert await next_value() == b"second of kept"
            assert await member.ack(in_hand) == 1, "the lease ended with the stream"
            await admin.create_topic("gone", 1)
            await eventually(lambda: sends(producer, "gone", b"from the new topic"), "the producer knows the new topic")
            assert await next_value() == b"from the new topic"
            for topic in ("gone", "kept"):
                await admin.delete_topic(topic)
            await until(lambda: not member._links._topics_there(), "the consumer knows of the deletions")
            with pytest.raises(UnknownTopicError, match='no topic "gone"'):
                await member.receive()


async def test_a_start_finds_nothing_wrong_and_rebuilds_what_is_left(fleet: Fleet) -> None:
    """The test also removes the indexes of a node. The node rebuilds them from a log that has messages of the
    deleted topic and of the other topic."""
    async with AsyncAdmin(fleet.bootstrap) as admin, AsyncProducer(fleet.bootstrap) as producer:
        gone = await admin.create_topic("gone", QUEUES)
        kept = await admin.create_topic("kept", QUEUES)
        for topic in ("gone", "kept", "gone"):
            for number in range(30):
                await producer.send(topic, b"%d" % number, key=f"key-{number}")
        await admin.delete_topic("gone")
        await producer.send("kept", b"last", key="last")
    for lost in (False, True):
        await fleet.level()  # a follower may not have heard yet that the deletion is committed
        await fleet.stop()
        assert not files_of(fleet, gone.topic_id)
        for node in fleet.nodes:
            verify = ["log", "verify", str(fleet.data(node)), "--index-data", str(indexes(fleet, node))]
            await asyncio.to_thread(run, *verify)  # its status says that there is no flaw
            if not lost:
                for queues in indexes(fleet, node).glob("shard-*/queues"):
                    shutil.rmtree(queues)
        await fleet.start()
        await led(fleet)
        async with AsyncAdmin(fleet.bootstrap) as admin:
            described = await admin.describe_topic("kept")
            assert sum(one.end_offset for one in described.offsets) == 31
            (found,) = await admin.query_messages("kept", "last")
            assert found.value == b"last"
            with pytest.raises(UnknownTopicError):
                await admin.describe_topic("gone")
        assert kept.topic_id == described.topic_id


async def test_messages_of_a_shard_that_came_later_are_consumed_again(fleet: Fleet) -> None:
    """The retry topic gets a queue on the new shard only when a message there must be retried."""
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("spreading", 1)
        async with AsyncGroupConsumer("spreading", group="movers", bootstrap_servers=fleet.bootstrap) as consumer:
            new = await admin.add_shard()
            spread = await eventually(lambda: _spread_to(admin, new), "the new shard has a queue of the topic")
            async with AsyncProducer(fleet.bootstrap) as producer:
                await producer.send("spreading", b"x", queue=spread.shards.index(new))
            (message,) = await read(consumer, 1)
            await consumer.reconsume_later(message)
            (again,) = await read(consumer, 1)
            assert (again.value, again.attempt, again.origin) == (b"x", 2, message.id)


async def _spread_to(admin: AsyncAdmin, shard: int) -> TopicDescription | None:
    altered = await admin.alter_topic("spreading", (await admin.describe_topic("spreading")).queues + 1)
    return altered if shard in altered.shards else None
