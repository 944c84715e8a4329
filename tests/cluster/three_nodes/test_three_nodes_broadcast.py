"""Tests broadcast consumers, and listeners that hang, against three real nodes."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from ledger.errors import ConsumerFencedError, InvalidArgumentError, InvalidGroupNameError
from ledgermq import AsyncAdmin, AsyncGroupConsumer, AsyncProducer, AsyncPushConsumer, GroupConsumer, Message
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.waiter import until

QUEUES = 3


@pytest.fixture
async def fleet(make_fleet: MakeFleet) -> Fleet:
    fleet = make_fleet(shards=3, retry_delays_s=[0.1])
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("prices", QUEUES)
    return fleet


async def send(fleet: Fleet, values: range) -> None:
    async with AsyncProducer(fleet.bootstrap) as producer:
        for value in values:
            await producer.send("prices", b"%d" % value, queue=value % QUEUES)


def consumer(fleet: Fleet, instance: str) -> AsyncGroupConsumer:
    return AsyncGroupConsumer(
        "prices", group="caches", broadcast=True, instance=instance, bootstrap_servers=fleet.bootstrap
    )


async def read(consumer: AsyncGroupConsumer, count: int) -> list[int]:
    values: list[int] = []
    async with asyncio.timeout(30):
        while len(values) < count:
            values += [int(message.value) for message in await consumer.getmany()]
    return sorted(values)


async def test_every_instance_gets_everything_and_goes_on_where_it_was(fleet: Fleet) -> None:
    await send(fleet, range(30))
    async with consumer(fleet, "a") as first, consumer(fleet, "b") as second:
        assert await read(first, 30) == await read(second, 30) == list(range(30))
        await second.getmany(timeout_ms=0)  # asking for more says that these are finished
        await send(fleet, range(30, 40))
        assert await read(second, 10) == list(range(30, 40))
    await send(fleet, range(40, 45))
    async with consumer(fleet, "b") as again:  # what was handed out last was not said to be finished
        assert await read(again, 15) == list(range(30, 45))
    async with AsyncAdmin(fleet.bootstrap) as admin:
        shown = {one.name: (one.members, one.strategy, one.queues) for one in await admin.list_consumer_groups()}
        assert shown == dict.fromkeys(("caches@a", "caches@b"), (0, "broadcast", QUEUES))
        assert await admin.delete_consumer_group("caches@a") == QUEUES
        assert [one.name for one in await admin.list_consumer_groups()] == ["caches@b"]


async def test_a_reset_takes_effect_and_a_second_consumer_of_one_instance_is_noticed(fleet: Fleet) -> None:
    await send(fleet, range(9))
    async with consumer(fleet, "a") as first:
        await read(first, 9)
        assert await first.getmany(timeout_ms=0) == []
        await first.acknowledge()
        async with AsyncAdmin(fleet.bootstrap) as admin:
            await admin.reset_offsets("caches@a", "earliest")
        await send(fleet, range(9, 12))  # it notices by its next acknowledgement
        seen: Counter[int] = Counter()
        async with asyncio.timeout(20):
            while set(seen) < set(range(12)):
                seen.update(int(message.value) for message in await first.getmany())
        async with consumer(fleet, "a") as second:
            await send(fleet, range(12, 15))
            with pytest.raises(ConsumerFencedError, match='Another consumer of the broadcast runs as "caches@a"'):
                await read(first, 100)
            async with asyncio.timeout(20):
                while not await second.getmany():
                    pass


async def test_what_a_listener_of_a_broadcast_cannot_consume_is_passed_over(fleet: Fleet) -> None:
    """A concurrent listener skips the message at once. An ordered listener skips it after all attempts. A broadcast
    has no retry topic."""
    await send(fleet, range(12))
    calls: dict[bool, Counter[int]] = {False: Counter(), True: Counter()}

    async def listen(orderly: bool, message: Message) -> None:
        calls[orderly][int(message.value)] += 1
        if int(message.value) == 4:
            raise RuntimeError("never")

    async def one(message: Message) -> None:
        await listen(False, message)

    async def in_order(message: Message) -> None:
        await listen(True, message)

    settings: dict[str, Any] = {"broadcast": True, "max_attempts": 3, "bootstrap_servers": fleet.bootstrap}
    async with (
        AsyncPushConsumer("prices", group="caches", instance="a", listener=one, **settings),
        AsyncPushConsumer(
            "prices", group="caches", instance="b", listener=in_order, orderly=True, suspend_ms=10, **settings
        ),
    ):
        for called in calls.values():
            await until(lambda called=called: set(called) == set(range(12)), "all were tried")  # type: ignore[misc]
    assert calls[False] == Counter(range(12))
    assert calls[True] == Counter(range(12)) + Counter([4, 4])
    async with AsyncAdmin(fleet.bootstrap) as admin:
        assert [topic.name for topic in await admin.list_topics()] == ["prices"]
        for shown in await admin.list_consumer_groups():
            assert (shown.lag, shown.retries, shown.dead_letters) == (0, 0, 0)


def test_the_arguments_of_a_broadcast() -> None:
    where: dict[str, Any] = {"group": "caches", "bootstrap_servers": "nowhere:1"}
    for wrong in ({"broadcast": True}, {"instance": "a"}, {"broadcast": True, "instance": "a", "room": "x"}):
        with pytest.raises(InvalidArgumentError):
            AsyncGroupConsumer("prices", **where, **wrong)
    for group, instance in (("a@b", "c"), ("a", "b@c"), ("a", ""), ("a", "x" * 64)):
        with pytest.raises(InvalidGroupNameError):
            AsyncGroupConsumer("prices", **{**where, "group": group}, broadcast=True, instance=instance)
    with pytest.raises(InvalidGroupNameError):
        AsyncGroupConsumer("prices", **{**where, "group": "a@b"})


async def test_the_synchronous_twin_reads_a_broadcast(fleet: Fleet) -> None:
    await send(fleet, range(5))

    def reads() -> list[int]:
        with GroupConsumer(
            "prices", group="caches", broadcast=True, instance="thread", bootstrap_servers=fleet.bootstrap
        ) as one:
            messages = [message for _, message in zip(range(5), one, strict=False)]
            with pytest.raises(InvalidArgumentError, match="no message can be moved"):
                one.reconsume_later(messages[0])
            return sorted(int(message.value) for message in messages)

    assert await asyncio.to_thread(reads) == list(range(5))


async def test_a_message_with_which_a_listener_hangs_is_put_off_and_holds_up_nobody(fleet: Fleet) -> None:
    await send(fleet, range(30))
    attempts: Counter[int] = Counter()

    async def listener(message: Message) -> None:
        value = int(message.value)
        attempts[value] += 1
        if value == 0 and message.attempt == 1:
            await asyncio.Event().wait()

    push = AsyncPushConsumer(
        "prices", group="workers", listener=listener, consume_timeout_ms=300, bootstrap_servers=fleet.bootstrap
    )
    async with push:
        await until(lambda: attempts[0] == 2, "it is tried again")
        assert push.timeouts == 1
        await until(lambda: len(attempts) == 30, "all were tried")
    async with AsyncAdmin(fleet.bootstrap) as admin:
        (shown,) = await admin.list_consumer_groups()
        assert (shown.lag, shown.retries) == (0, 0)
    assert attempts == Counter(range(30)) + Counter([0])


async def test_a_thread_that_hangs_is_lost_and_its_message_is_not(fleet: Fleet) -> None:
    """The listener hangs in one of two threads. The outcome that it returns in the end no longer counts."""
    await send(fleet, range(30))
    attempts: Counter[int] = Counter()
    go_on = threading.Event()

    def listener(message: Message) -> None:
        value = int(message.value)
        attempts[value] += 1
        if value == 0 and message.attempt == 1:
            assert go_on.wait(60)

    push = AsyncPushConsumer(
        "prices",
        group="workers",
        listener=listener,
        concurrency=2,
        consume_timeout_ms=300,
        bootstrap_servers=fleet.bootstrap,
    )
    async with push:
        try:
            await until(lambda: attempts[0] == 2 and len(attempts) == 30, "the other worker consumes everything")
            assert push.timeouts == 1
        finally:
            go_on.set()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        (shown,) = await admin.list_consumer_groups()
        assert (shown.lag, shown.retries, shown.dead_letters) == (0, 0, 0)
    assert attempts == Counter(range(30)) + Counter([0])
