"""Tests consumer groups against three real nodes: equal shares, stored offsets, fencing, retries and dead letters."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from cluster.local.processes import DevCluster
from ledger.errors import (
    GroupConflictError,
    InvalidArgumentError,
    InvalidGroupNameError,
    InvalidTopicNameError,
    UnknownTopicError,
)
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncGroupConsumer, AsyncProducer, AsyncPushConsumer, Message, Outcome
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import until

QUEUES = 4
RETRY_DELAYS_S = (0.2, 0.4)


@pytest.fixture(scope="module", params=[1, 3], ids=["one shard", "three shards"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERMQ_RETRY_DELAYS_S", ",".join(map(str, RETRY_DELAYS_S)))
        cluster = DevCluster(tmp_path_factory.mktemp("consumer-groups"))
        cluster.start(3, base_port=free_base_port(3), shards=request.param)
        yield cluster
        cluster.purge()


async def create(cluster: DevCluster, topic: str) -> None:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        await admin.create_topic(topic, QUEUES)


async def send(cluster: DevCluster, topic: str, values: range, *, tag: str | None = None) -> None:
    """Send the messages to the queues in turn."""
    async with AsyncProducer(cluster.bootstrap) as producer:
        for value in values:
            await producer.send(topic, b"%d" % value, queue=value % QUEUES, tag=tag)


async def read(consumers: list[AsyncGroupConsumer], count: int) -> list[Message]:
    """Read `count` messages with these members, and finish all of them."""
    messages: list[Message] = []
    async with asyncio.timeout(30):
        while len(messages) < count:
            for consumer in consumers:
                messages += await consumer.getmany(timeout_ms=100)
    for consumer in consumers:
        consumer.finish(*messages)
    return messages


def values(messages: list[Message]) -> list[int]:
    return sorted(int(message.value) for message in messages)


def user_queues(*consumers: AsyncGroupConsumer) -> list[int]:
    return [place.queue for each in consumers for place in each.assignment if not place.topic.startswith("%")]


async def shared_out(*consumers: AsyncGroupConsumer) -> None:
    """Return whether each queue has one owner and the members have equal shares."""
    share = -(-QUEUES // len(consumers))

    def is_shared_out() -> bool:
        owned = sorted(user_queues(*consumers))
        return owned == list(range(QUEUES)) and all(len(user_queues(each)) <= share for each in consumers)

    await until(is_shared_out, "every queue has one owner")


async def test_members_share_the_queues_and_others_go_on_where_they_left_off(cluster: DevCluster) -> None:
    await create(cluster, "shared")
    await send(cluster, "shared", range(100))

    def member() -> AsyncGroupConsumer:
        return AsyncGroupConsumer("shared", group="sharing", bootstrap_servers=cluster.bootstrap)

    async with member() as first:
        assert values(await read([first], 100)) == list(range(100))
        async with member() as second:
            await shared_out(first, second)
            await send(cluster, "shared", range(100, 140))
            assert values(await read([first, second], 40)) == list(range(100, 140))
        await shared_out(first)  # at once, since the other one said that it leaves
    async with member() as third:
        await send(cluster, "shared", range(140, 145))
        assert values(await read([third], 5)) == list(range(140, 145))


async def test_nothing_is_missed_and_nothing_comes_twice_where_the_leader_dies(cluster: DevCluster) -> None:
    await create(cluster, "survivors")

    def member() -> AsyncGroupConsumer:
        return AsyncGroupConsumer("survivors", group="steadfast", bootstrap_servers=cluster.bootstrap)

    async with member() as first, member() as second:
        await shared_out(first, second)
        sending = asyncio.create_task(send(cluster, "survivors", range(400)))
        got = await read([first, second], 150)
        victim = await asyncio.to_thread(cluster.leader)
        await asyncio.to_thread(cluster.kill, victim)
        got += await read([first, second], 400 - len(got))
        await sending
        assert values(got) == list(range(400))
        await asyncio.gather(first.acknowledge(), second.acknowledge())
        await asyncio.to_thread(cluster.restart, victim)
    async with member() as third:
        assert await third.getmany(timeout_ms=1500) == []


async def test_a_member_that_is_not_heard_of_is_fenced(cluster: DevCluster) -> None:
    """The silent member continues to read and to acknowledge. Its acknowledgements are refused."""
    await create(cluster, "fenced")
    await send(cluster, "fenced", range(8))

    def member(session_timeout_ms: int) -> AsyncGroupConsumer:
        return AsyncGroupConsumer(
            "fenced",
            group="fencing",
            bootstrap_servers=cluster.bootstrap,
            session_timeout_ms=session_timeout_ms,
            acknowledge_interval_ms=60_000,
            auto_acknowledge=False,
        )

    async with member(1000) as silent:
        late: list[Message] = []
        while len(late) < 8:
            late += await silent.getmany()
        attendance = next(task for task in asyncio.all_tasks() if task.get_name().startswith("attendance of"))
        attendance.cancel()  # it says nothing any more
        async with member(10_000) as other:
            again: list[Message] = []
            while len(again) < 8:
                again += await other.getmany()
            assert values(again) == values(late)
            silent.finish(*late)
            await silent.acknowledge()
            assert user_queues(silent) == []  # it was told so
            other.finish(*again[:4])
            await other.acknowledge()
    async with member(10_000) as third:
        rest: list[Message] = []
        while len(rest) < 4:
            rest += await third.getmany()
        assert values(rest) == values(again[4:])


async def test_what_a_listener_cannot_consume_comes_again_and_then_lies_with_the_dead_letters(
    cluster: DevCluster,
) -> None:
    await create(cluster, "trouble")
    attempts: defaultdict[bytes, list[tuple[int, str]]] = defaultdict(list)

    async def listener(message: Message) -> Outcome | None:
        attempts[message.value].append((message.attempt, message.origin))
        if message.value == b"1" and message.attempt < 3:
            raise RuntimeError("not yet")
        return Outcome.RECONSUME_LATER if message.value == b"2" else None

    await send(cluster, "trouble", range(4))
    push = AsyncPushConsumer(
        "trouble", group="troubled", listener=listener, max_attempts=3, bootstrap_servers=cluster.bootstrap
    )
    async with push:
        async with AsyncConsumer("%DLQ%troubled", bootstrap_servers=cluster.bootstrap) as dead_letters:
            (dead,) = await dead_letters.getmany(1, 20_000)
        await until(lambda: len(attempts[b"1"]) == 3, "the third attempt")
    assert (dead.value, dead.origin) == (b"2", "trouble:2:0")
    assert attempts[b"0"] == [(1, "trouble:0:0")]
    assert attempts[b"1"] == [(1, "trouble:1:0"), (2, "trouble:1:0"), (3, "trouble:1:0")]
    assert attempts[b"2"] == [(1, "trouble:2:0"), (2, "trouble:2:0"), (3, "trouble:2:0")]


async def test_an_orderly_listener_has_a_queue_wait_for_what_fails(cluster: DevCluster) -> None:
    await create(cluster, "ordered")
    await send(cluster, "ordered", range(40))
    calls: defaultdict[int, list[int]] = defaultdict(list)

    def listener(message: Message) -> None:
        calls[message.queue].append(int(message.value))
        if int(message.value) in (9, 14) and calls[message.queue].count(int(message.value)) < 3:
            raise RuntimeError("not yet")

    push = AsyncPushConsumer(
        "ordered", group="orderly", listener=listener, orderly=True, suspend_ms=20, bootstrap_servers=cluster.bootstrap
    )
    async with push:
        await until(lambda: sum(map(len, calls.values())) == 44, "all messages, two of them three times")
    for queue, called in calls.items():
        assert called == sorted(called)
        assert set(called) == set(range(queue, 40, QUEUES))
    assert Counter(called for each in calls.values() for called in each)[9] == 3


async def test_only_messages_with_one_of_the_tags(cluster: DevCluster) -> None:
    await create(cluster, "tagged")
    for number, tag in enumerate(("paid", "refunded", "open")):
        await send(cluster, "tagged", range(4 * number, 4 * number + 4), tag=tag)
    consumer = AsyncGroupConsumer("tagged", group="accounts", tags="paid || open", bootstrap_servers=cluster.bootstrap)
    async with consumer:
        assert values(await read([consumer], 8)) == [*range(4), *range(8, 12)]


async def test_members_are_configured_with_queues(cluster: DevCluster) -> None:
    """The queues of the retry topic are shared out as usual."""
    await create(cluster, "configured")
    await send(cluster, "configured", range(8))

    def member(*queues: int) -> AsyncGroupConsumer:
        return AsyncGroupConsumer(
            "configured",
            group="by-hand",
            strategy="by_configuration",
            configured=[("configured", queue) for queue in queues],
            bootstrap_servers=cluster.bootstrap,
        )

    async with member(0, 3) as first, member(1) as second:
        await until(lambda: user_queues(first) == [0, 3] and user_queues(second) == [1], "each has its own")
        assert values(await read([first, second], 6)) == [0, 1, 3, 4, 5, 7]
        await send(cluster, "configured", range(16, 17))
        (message,) = await first.getmany(1)
        await first.reconsume_later(message)
        assert values(await read([first, second], 1)) == [16]


async def test_refusals(cluster: DevCluster) -> None:
    await create(cluster, "refusals")
    where = {"bootstrap_servers": cluster.bootstrap}
    with pytest.raises(InvalidGroupNameError):
        AsyncGroupConsumer("refusals", group="no spaces", **where)  # type: ignore[arg-type]
    with pytest.raises(UnknownTopicError):
        await AsyncGroupConsumer("nowhere", group="lost", **where).start()  # type: ignore[arg-type]
    async with AsyncGroupConsumer("refusals", group="strategists", **where):  # type: ignore[arg-type]
        other = AsyncGroupConsumer("refusals", group="strategists", strategy="circle", **where)  # type: ignore[arg-type]
        with pytest.raises(GroupConflictError, match="average"):
            await other.start()
    async with AsyncAdmin(cluster.bootstrap) as admin:
        with pytest.raises(InvalidTopicNameError):
            await admin.create_topic("%RETRY%strategists")
    async with AsyncProducer(cluster.bootstrap) as producer:
        with pytest.raises(InvalidTopicNameError, match="reserved"):
            await producer.send("%RETRY%strategists", b"forged")


async def test_a_member_seeks_and_what_was_acknowledged_stays_so(cluster: DevCluster) -> None:
    await create(cluster, "sought")
    await send(cluster, "sought", range(40))

    def member() -> AsyncGroupConsumer:
        return AsyncGroupConsumer("sought", group="seekers", bootstrap_servers=cluster.bootstrap)

    async with member() as consumer:
        await read([consumer], 40)
        await consumer.acknowledge()
        await consumer.seek("sought", 1, 5)
        assert values(await read([consumer], 5)) == [21, 25, 29, 33, 37]
        await consumer.seek("sought", 2, 0)
    async with member() as other:  # sought back, and gone before it came there again: what was told stands
        assert await other.getmany(timeout_ms=500) == []
        assert other.position("sought", 2) == 10


async def test_what_is_sought_past_counts_as_finished(cluster: DevCluster) -> None:
    await create(cluster, "passed")
    await send(cluster, "passed", range(40))

    def member() -> AsyncGroupConsumer:
        return AsyncGroupConsumer("passed", group="hurried", bootstrap_servers=cluster.bootstrap)

    async with member() as consumer:
        await until(lambda: len(user_queues(consumer)) == QUEUES, "it has all queues")
        for queue in range(QUEUES):
            await consumer.seek("passed", queue, 9)
        assert values(await read([consumer], 4)) == [36, 37, 38, 39]
    async with member() as other:
        assert await other.getmany(timeout_ms=500) == []


async def test_nothing_is_handed_out_of_a_queue_that_is_paused(cluster: DevCluster) -> None:
    await create(cluster, "halted")
    group = AsyncGroupConsumer("halted", group="halting", bootstrap_servers=cluster.bootstrap)
    plain = AsyncConsumer("halted", bootstrap_servers=cluster.bootstrap)
    async with group, plain:
        await until(lambda: len(user_queues(group)) == QUEUES, "it has all queues")
        for consumer in (group, plain):
            consumer.pause(("halted", 0), ("halted", 3))
            assert consumer.paused == [("halted", 0), ("halted", 3)]
        await send(cluster, "halted", range(20))
        of_others = [value for value in range(20) if value % QUEUES in (1, 2)]
        assert values(await read([group], 10)) == of_others
        assert values(await read_plain(plain, 10)) == of_others
        for consumer in (group, plain):
            assert await consumer.getmany(timeout_ms=300) == []
            assert consumer.position("halted", 3) == 0
            consumer.resume(("halted", 3))
        assert {message.queue for message in await read([group], 5)} == {3}
        assert {message.queue for message in await read_plain(plain, 5)} == {3}
        for consumer in (group, plain):
            consumer.resume()
            assert consumer.paused == []
        assert {message.queue for message in await read([group], 5)} == {0}
        assert {message.queue for message in await read_plain(plain, 5)} == {0}


async def test_a_member_pauses_and_seeks_only_queues_of_its_own(cluster: DevCluster) -> None:
    await create(cluster, "foreign")
    async with AsyncGroupConsumer("foreign", group="owners", bootstrap_servers=cluster.bootstrap) as consumer:
        await until(lambda: len(user_queues(consumer)) == QUEUES, "it has all queues")
        with pytest.raises(InvalidArgumentError, match="This member does not own queue"):
            consumer.pause(("foreign", QUEUES))
        with pytest.raises(InvalidArgumentError, match="This member does not own queue"):
            await consumer.seek("elsewhere", 0, 0)
        with pytest.raises(InvalidArgumentError, match=r"offset is -1: it must be a whole number from 0"):
            await consumer.seek("foreign", 0, -1)


async def test_a_member_goes_to_a_time(cluster: DevCluster) -> None:
    await create(cluster, "timed")
    await send(cluster, "timed", range(20))
    async with AsyncGroupConsumer("timed", group="travellers", bootstrap_servers=cluster.bootstrap) as consumer:
        messages = await read([consumer], 20)
        third = [message for message in messages if message.queue == 2][2]
        found = await consumer.offsets_for_times({("timed", 2): third.append_time_ms})
        (offset,) = found.values()
        await consumer.seek("timed", 2, offset)
        again = await read([consumer], 5 - offset)
        assert third.value in [message.value for message in again]


async def read_plain(consumer: AsyncConsumer, count: int) -> list[Message]:
    messages: list[Message] = []
    async with asyncio.timeout(30):
        while len(messages) < count:
            messages += await consumer.getmany(timeout_ms=100)
    return messages
