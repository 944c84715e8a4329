"""Shared groups on three nodes: each message is leased by itself, and a lease survives the end of a leader."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster
from ledger.errors import ClosedError, GroupConflictError, GroupNotEmptyError, InvalidArgumentError, UnknownGroupError
from ledger.retries import dead_letter_topic
from ledgermq import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncGroupConsumer,
    AsyncProducer,
    AsyncSharedConsumer,
    SharedConsumer,
    SharedMessage,
)
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import until

pytestmark = pytest.mark.real

QUEUES = 3
# A receive that finds nothing waits for so long.
SHORT_MS = 300


@pytest.fixture(scope="module", params=[1, 3], ids=["one shard", "three shards"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    cluster = DevCluster(tmp_path_factory.mktemp("shared"))
    cluster.start(3, base_port=free_base_port(3), shards=request.param)
    yield cluster
    cluster.purge()


@pytest.fixture
async def admin(cluster: DevCluster) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        yield admin


async def prepare(
    admin: AsyncAdmin, name: str, count: int = 0, *, order: str | None = None, max_attempts: int = 16
) -> None:
    """Create a topic and a shared group of this name, and send messages to the queues in turn."""
    await admin.create_topic(name, QUEUES)
    await admin.create_consumer_group(name, order=order, max_attempts=max_attempts)
    await send(admin, name, range(count))


async def send(admin: AsyncAdmin, name: str, values: range, tag: str | None = None) -> None:
    async with AsyncProducer(await addresses(admin)) as producer:
        for value in values:
            await producer.send(name, b"%d" % value, queue=value % QUEUES, tag=tag)


async def addresses(admin: AsyncAdmin) -> list[str]:
    return [status.address for status in await admin.cluster()]


def member(cluster: DevCluster, name: str, **settings: object) -> AsyncSharedConsumer[bytes]:
    return AsyncSharedConsumer(name, group=name, bootstrap_servers=cluster.bootstrap, **settings)  # type: ignore[arg-type]


async def drained(consumer: AsyncSharedConsumer[bytes]) -> list[SharedMessage[bytes]]:
    """Receive and acknowledge until there is nothing for a moment."""
    found: list[SharedMessage[bytes]] = []
    some: list[SharedMessage[bytes]] = []
    while some := await consumer.receive(32, ack=some, max_wait_ms=SHORT_MS):
        found += some
    return found


async def test_members_share_the_messages_of_every_queue(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "even", 120)
    async with member(cluster, "even") as one, member(cluster, "even") as two:
        first, second = await asyncio.gather(drained(one), drained(two))
        assert sorted(int(message.value) for message in first + second) == list(range(120))
        assert {message.attempt for message in first + second} == {1}
        assert first
        assert second
        assert await one.receive(max_wait_ms=0) == []
        await send(admin, "even", range(120, 123))
        got: list[SharedMessage[bytes]] = []
        while len(got) < 3:
            got += await one.receive(max_wait_ms=0)
        assert sorted(message.value for message in got) == [b"120", b"121", b"122"]


async def test_a_message_comes_back_when_its_lease_ends_and_not_before(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "ends", 1)
    async with member(cluster, "ends") as hung, member(cluster, "ends") as other:
        (message,) = await hung.receive(lease_ms=1_500)
        begun = time.monotonic()
        (again,) = await other.receive(max_wait_ms=10_000)
        assert 1.3 <= time.monotonic() - begun < 5
        assert (again.offset, again.attempt) == (message.offset, 2)
        assert await hung.ack(message) == 0, "another member has it"
        assert await other.ack(again) == 1
        assert await other.ack(again) == 0


async def test_a_late_acknowledgement_counts_if_nobody_has_the_message(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "late", 1)
    async with member(cluster, "late") as consumer:
        (message,) = await consumer.receive(lease_ms=1_000)
        await asyncio.sleep(1.2)
        assert await consumer.ack(message) == 1
        assert await consumer.receive(max_wait_ms=SHORT_MS) == []


async def test_nack_extend_and_a_wait_for_new_messages(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "nack", 1)
    async with member(cluster, "nack") as consumer:
        (message,) = await consumer.receive(lease_ms=1_000)
        assert await consumer.extend(message, lease_ms=60_000) == 1
        assert await consumer.receive(max_wait_ms=1_500) == []
        assert await consumer.nack(message, delay_ms=700) == 1
        begun = time.monotonic()
        (again,) = await consumer.receive()
        assert 0.6 <= time.monotonic() - begun < 5
        assert again.attempt == 2
        assert await consumer.ack([again]) == 1
        waiting = asyncio.create_task(consumer.receive())
        await asyncio.sleep(0.2)
        await send(admin, "nack", range(1, 2))
        begun = time.monotonic()
        assert [one.value for one in await waiting] == [b"1"]
        assert time.monotonic() - begun < 2


async def test_a_hung_member_delays_nobody(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "hung", 60)
    async with member(cluster, "hung") as hung, member(cluster, "hung") as other:
        held = await hung.receive(10, lease_ms=60_000)
        begun = time.monotonic()
        rest = await drained(other)
        assert time.monotonic() - begun < 10
        assert len(rest) == 60 - len(held)
        assert not {message.id for message in held} & {message.id for message in rest}
        described = await admin.describe_consumer_group("hung")
        assert (described.mode, described.consumers) == ("shared", 2)
        assert sum(one.leased or 0 for one in described.queues) == len(held)
        assert sum(one.lag or 0 for one in described.queues) == len(held)
        assert max(one.lease_left_s or 0 for one in described.queues) > 30


async def test_a_message_that_fails_too_often_goes_to_the_dead_letters(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "dead", 3, max_attempts=2)
    async with member(cluster, "dead") as consumer:
        seen: defaultdict[bytes, int] = defaultdict(int)
        while messages := await consumer.receive(max_wait_ms=SHORT_MS):
            for message in messages:
                seen[message.value] += 1
                assert message.attempt == seen[message.value]
                await (consumer.nack(message) if message.value == b"1" else consumer.ack(message))
        assert dict(seen) == {b"0": 1, b"1": 2, b"2": 1}
    async with AsyncConsumer(dead_letter_topic("dead"), bootstrap_servers=cluster.bootstrap) as reader:
        letter = await anext(reader)
    assert (letter.value, letter.origin) == (b"1", "dead:1:0")
    (summary,) = [one for one in await admin.list_consumer_groups() if one.name == "dead"]
    assert (summary.mode, summary.lag, summary.dead_letters) == ("shared", 0, 1)


async def test_modes_are_not_mixed(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "mixed", 1)
    with pytest.raises(GroupConflictError, match="is a shared group: read it with a SharedConsumer"):
        async with AsyncGroupConsumer("mixed", group="mixed", bootstrap_servers=cluster.bootstrap):
            pass
    async with AsyncGroupConsumer("mixed", group="owning", bootstrap_servers=cluster.bootstrap) as owner:
        assert await owner.getmany(timeout_ms=10_000)
        with pytest.raises(GroupConflictError, match="is a queue group"):
            await admin.create_consumer_group("owning")
    with pytest.raises(UnknownGroupError, match="ledgermq group create nobody --mode shared"):
        async with AsyncSharedConsumer("mixed", group="nobody", bootstrap_servers=cluster.bootstrap):
            pass
    with pytest.raises(GroupConflictError, match="the mode of a group cannot be changed"):
        await admin.create_consumer_group("mixed", max_attempts=3)
    with pytest.raises(GroupConflictError, match="has no order by key"):
        async with member(cluster, "mixed", order="key"):
            pass
    async with member(cluster, "mixed"):
        with pytest.raises(GroupNotEmptyError):
            await admin.delete_consumer_group("mixed")
    await admin.delete_consumer_group("mixed")
    async with AsyncGroupConsumer("mixed", group="mixed", bootstrap_servers=cluster.bootstrap) as owner:
        assert await owner.getmany(timeout_ms=10_000)


async def test_members_with_other_tags_are_refused_and_filtered_messages_are_settled(
    cluster: DevCluster, admin: AsyncAdmin
) -> None:
    await prepare(admin, "tags")
    await send(admin, "tags", range(6), tag="no")
    await send(admin, "tags", range(6, 9), tag="yes")
    await send(admin, "tags", range(9, 12), tag="no")
    async with member(cluster, "tags", tags="yes") as consumer:
        assert sorted(message.value for message in await drained(consumer)) == [b"6", b"7", b"8"]
        with pytest.raises(GroupConflictError, match="must want the same tags"):
            async with member(cluster, "tags"):
                pass
        described = await admin.describe_consumer_group("tags")
        assert sum(one.lag or 0 for one in described.queues) == 0


async def test_a_filter_selects_by_headers_tag_and_keys(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "filter")
    async with AsyncProducer(await addresses(admin)) as producer:
        for price in range(20):
            headers = [("price", b"%d" % price), ("region", b"EU" if price % 2 else b"US")]
            tag = "paid" if price % 3 else None
            await producer.send("filter", b"%d" % price, key=b"k%d" % price, headers=headers, tag=tag)
    where = "(price > 10 AND region = 'EU' AND TAGS = 'paid') OR __SHARDINGKEY = 'k2'"
    async with member(cluster, "filter", where=where) as consumer:
        assert sorted(message.value for message in await drained(consumer)) == [b"11", b"13", b"17", b"19", b"2"]
        described = await admin.describe_consumer_group("filter")
        assert sum(one.lag or 0 for one in described.queues) == 0
        with pytest.raises(GroupConflictError, match="must have the same filter"):
            async with member(cluster, "filter", where="price > 11"):
                pass
    with pytest.raises(InvalidArgumentError, match='mistake at character 7, "!= 10": write <> and not !='):
        async with member(cluster, "filter", where="price != 10"):
            pass


async def test_keys_are_handed_out_one_after_another_and_a_failing_key_holds_up_no_other(
    cluster: DevCluster, admin: AsyncAdmin
) -> None:
    await prepare(admin, "keys", order="key")
    async with AsyncProducer(cluster.bootstrap) as producer:
        for number in range(120):
            await producer.send("keys", b"%d" % number, key=b"key %d" % (number % 12))
    got: defaultdict[bytes, list[int]] = defaultdict(list)
    open_keys: set[bytes] = set()

    async def work(consumer: AsyncSharedConsumer[bytes]) -> None:
        while messages := await consumer.receive(4, max_wait_ms=SHORT_MS, lease_ms=60_000):
            for message in messages:
                assert message.key is not None
                assert message.key not in open_keys, "an earlier message of the key is not acknowledged"
                open_keys.add(message.key)
            await asyncio.sleep(0.005)
            for message in messages:
                assert message.key is not None
                if message.key == b"key 7":
                    continue  # never acknowledged
                got[message.key].append(int(message.value))
                open_keys.discard(message.key)
                assert await consumer.ack(message) == 1

    async with member(cluster, "keys", order="key") as one, member(cluster, "keys") as two:
        await asyncio.gather(work(one), work(two))
    assert len(got) == 11
    for number in set(range(12)) - {7}:
        assert got[b"key %d" % number] == list(range(number, 120, 12))


async def test_an_iteration_extends_its_leases_and_acknowledges(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "loop")
    await send(admin, "loop", range(0, 12, QUEUES))  # all in queue 0
    async with member(cluster, "loop", lease_ms=1_000, prefetch=4) as one, member(cluster, "loop") as other:
        values = []
        async for message in one:
            values.append(message.value)
            if len(values) == 1:
                assert await other.receive(max_wait_ms=2_500) == [], "the leases of the iteration are extended"
            if len(values) == 4:
                one.stop_reading()
    assert sorted(values) == [b"0", b"3", b"6", b"9"]
    async with member(cluster, "loop") as other:
        assert await other.receive(max_wait_ms=SHORT_MS) == []


async def test_a_listener_that_fails_gets_the_message_again(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "listener", 5)
    calls: list[tuple[bytes, int]] = []

    async with member(cluster, "listener") as consumer:

        async def listen(message: SharedMessage[bytes]) -> None:
            calls.append((message.value, message.attempt))
            if message.value == b"3" and message.attempt == 1:
                raise RuntimeError("the first attempt fails")
            if len(calls) == 6:
                consumer.stop_reading()

        async with asyncio.timeout(20):
            await consumer.consume(listen, concurrency=2, retry_delay_ms=100)
    assert sorted(calls) == [(b"0", 1), (b"1", 1), (b"2", 1), (b"3", 1), (b"3", 2), (b"4", 1)]


async def test_many_calls_at_a_time_hold_up_no_acknowledgement(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "many", 30)
    attempts: list[int] = []
    async with member(cluster, "many", lease_ms=2_000) as consumer:

        async def listen(message: SharedMessage[bytes]) -> None:
            attempts.append(message.attempt)
            await asyncio.sleep(0.1)

        consuming = asyncio.create_task(consumer.consume(listen, concurrency=200))
        await until(lambda: len(attempts) == 30, "all messages are handed out")
        await asyncio.sleep(3)  # longer than a lease
        consumer.stop_reading()
        await consuming
    assert attempts == [1] * 30


async def test_an_acknowledgement_does_not_wait_for_receives(cluster: DevCluster, admin: AsyncAdmin) -> None:
    """There are more receives than a node reads of one stream."""
    await prepare(admin, "receives", 6)
    async with member(cluster, "receives") as consumer:
        held: list[SharedMessage[bytes]] = []
        while len(held) < 6:
            held += await consumer.receive()
        waiting = [asyncio.create_task(consumer.receive(1)) for _ in range(100)]
        await asyncio.sleep(0.3)
        async with asyncio.timeout(5):
            assert await consumer.ack(held) == 6
        consumer.stop_reading()
        async with asyncio.timeout(5):
            ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(each == [] or isinstance(each, ClosedError) for each in ended)


async def test_what_a_consumer_does_not_hand_out_is_free_at_once(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "back", 8)
    async with member(cluster, "back", prefetch=8) as consumer:
        first = await anext(consumer)
    async with member(cluster, "back") as other:
        found = await drained(other)
    assert {message.attempt for message in found} == {1}
    assert len(found) >= 7 - (first.value not in {message.value for message in found})


async def test_a_reset_ends_the_leases(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "reset", 6)
    async with member(cluster, "reset") as consumer:
        held = await consumer.receive(2, lease_ms=60_000)
        assert len(await drained(consumer)) == 6 - len(held)
        await admin.reset_offsets("reset", "earliest")
        assert await consumer.ack(held) == 0
        assert len(await drained(consumer)) == 6


async def test_a_group_can_be_reset_before_it_begins(cluster: DevCluster, admin: AsyncAdmin) -> None:
    """It would have become a queue group in the queues of the reset, and no member would have got their messages."""
    await prepare(admin, "skips", 6)
    await admin.reset_offsets("skips", "latest", topic="skips")
    await admin.reset_offsets("skips", 0, topic="skips", queues=[0])
    async with member(cluster, "skips") as consumer:
        assert len(await drained(consumer)) == 2


async def test_limits_are_checked(cluster: DevCluster, admin: AsyncAdmin) -> None:
    await prepare(admin, "limits", 1)
    async with member(cluster, "limits") as consumer:
        for wrong in ({"max_messages": 0}, {"max_messages": 1_001}, {"lease_ms": 999}, {"max_wait_ms": 60_001}):
            with pytest.raises(InvalidArgumentError):
                await consumer.receive(**wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError):
            await consumer.nack([], delay_ms=-1)


def test_the_synchronous_twin(cluster: DevCluster) -> None:
    async def begin() -> None:
        async with AsyncAdmin(cluster.bootstrap) as admin:
            await prepare(admin, "twin", 7)

    asyncio.run(begin())
    with SharedConsumer("twin", group="twin", bootstrap_servers=cluster.bootstrap) as consumer:
        first = consumer.receive(3)
        assert consumer.extend(first) == len(first)
        assert consumer.nack(first[0]) == 1
        assert consumer.ack(first[1:]) == len(first) - 1
        left = {b"%d" % number for number in range(7)} - {message.value for message in first[1:]}
        for message in consumer:
            left.discard(message.value)
            if not left:
                break
    with SharedConsumer("twin", group="twin", bootstrap_servers=cluster.bootstrap, where="FALSE") as consumer:
        assert len(consumer.receive(max_wait_ms=SHORT_MS)) == 0


async def test_leases_survive_the_end_of_a_leader(tmp_path: Path) -> None:
    cluster = DevCluster(tmp_path)
    cluster.start(3, base_port=free_base_port(3), shards=1)
    lease_s, messages = 6.0, 400
    # By message: when it was received, and when that lease ended. After a failover, a member can get the answer of the
    # leader that died late, when a part of the lease has passed.
    received: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    acknowledged: set[str] = set()
    # By message: when an acknowledgement ended with fewer messages than it named. If the answer of the leader that died
    # is lost, the acknowledgement is sent again, and the new leader finds no lease of a message that is acknowledged.
    doubtful: dict[str, float] = {}
    try:
        async with AsyncAdmin(cluster.bootstrap) as admin:
            await prepare(admin, "survive", messages)

            async def work(hangs: bool) -> None:
                async with member(cluster, "survive", lease_ms=int(lease_s * 1000)) as consumer:
                    while len(acknowledged) < messages:
                        some = await consumer.receive(5, max_wait_ms=500)
                        now = time.monotonic()
                        for message in some:
                            received[message.id].append((now, message.ends_s))
                        await asyncio.sleep(0.05)
                        finished = [message for message in some if not (hangs and message.attempt == 1)]
                        if await consumer.ack(finished) == len(finished):
                            acknowledged.update(message.id for message in finished)
                        else:
                            doubtful.update((message.id, time.monotonic()) for message in finished)
                        # Such a message was acknowledged if it does not come back.
                        came = {id: times[-1][0] for id, times in received.items()}
                        long_ago = time.monotonic() - 2 * lease_s
                        acknowledged.update(id for id, at in doubtful.items() if came[id] <= at < long_ago)

            async def kill() -> None:
                await until(lambda: len(received) >= 60, "messages flow")
                victim = await asyncio.to_thread(cluster.leader)
                await asyncio.to_thread(cluster.kill, victim)
                await asyncio.sleep(3)
                await asyncio.to_thread(cluster.restart, victim)

            async with asyncio.timeout(60):
                await asyncio.gather(work(hangs=False), work(hangs=False), work(hangs=True), kill())
    finally:
        cluster.purge()
    assert len(received) == messages
    assert any(len(times) > 1 for times in received.values()), "the messages of the hung member came back"
    for times in received.values():
        for (_, ended), (later, _) in pairwise(times):
            assert later >= ended, "nobody gets a message within its lease"
