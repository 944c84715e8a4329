"""Tests queries of messages by key and by position, and of offsets by time, after the leader has died and on every
replica."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster.local.processes import DevCluster, DevError
from ledger.errors import (
    InvalidArgumentError,
    InvalidTopicNameError,
    OffsetBeyondEndError,
    OffsetTooLowError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledger.timed import TIMED_TOPIC
from ledgermq import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncGroupConsumer,
    AsyncProducer,
    Consumer,
    OutgoingMessage,
    TopicQueue,
)
from raft.log_start import log_start_draft
from store import Header
from tests.cluster.acknowledged_load import level
from tests.cluster.fleet import MakeFleet, sample_batch
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import eventually

QUEUES = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    cluster = DevCluster(tmp_path_factory.mktemp("queries"))
    cluster.start(3, base_port=free_base_port(3))
    yield cluster
    cluster.purge()


async def leader(cluster: DevCluster) -> int:
    async def known() -> int | None:
        try:
            return await asyncio.to_thread(cluster.leader)
        except DevError:
            return None

    return await eventually(known, "there is a leader")


async def test_what_was_acknowledged_is_found_by_key_after_the_leader_was_killed(cluster: DevCluster) -> None:
    async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as producer:
        await admin.create_topic("orders", QUEUES)
        sent = []
        for number in range(60):
            key = f"customer-{number % 3}"
            receipt = await producer.send("orders", b"%d" % number, key=key, queue=number % QUEUES)
            sent.append((key, receipt))
            if number == 30:
                victim = await leader(cluster)
                await asyncio.to_thread(cluster.kill, victim)
        found = await admin.query_messages("orders", "customer-1")
        expected = [receipt for key, receipt in reversed(sent) if key == "customer-1"]
        assert [(one.queue, one.offset) for one in found] == [(each.queue, each.offset) for each in expected]
        assert [one.append_time_ms for one in found] == [each.timestamp_ms for each in expected]
        assert [one.value for one in found] == [b"%d" % number for number in reversed(range(1, 60, 3))]
        assert await admin.query_messages("orders", "customer-1", max_messages=5) == found[:5]
        middle = found[7].append_time_ms
        later = [one for one in found if one.append_time_ms >= middle]
        assert await admin.query_messages("orders", b"customer-1", begin_ms=middle) == later
        assert await admin.query_messages("orders", b"customer-1", end_ms=middle) == found[len(later) :]
        assert await admin.query_messages("orders", "nobody") == []
        assert await admin.get_message("orders", found[3].queue, found[3].offset) == found[3]

        await asyncio.to_thread(cluster.restart, victim)
        await level(cluster)
        for node in (1, 2, 3):  # the one that was killed has built its index anew
            assert await admin.query_messages("orders", "customer-1", node=node) == found


async def test_a_message_is_found_by_each_of_its_look_up_keys(cluster: DevCluster) -> None:
    keys = [f"order-{number}" for number in range(15)]
    async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap, compression="zstd") as producer:
        await admin.create_topic("payments", QUEUES)
        first = await producer.send("payments", b"one", key="account-7", tag="paid", look_up_keys=[*keys, "ann"])
        messages: list[Any] = [
            b"plain",
            ("account-8", b"pair"),
            OutgoingMessage(b"own", tag="paid", look_up_keys=["order-3", b"\xff"]),
            OutgoingMessage(b"none", look_up_keys=[]),
        ]
        await producer.send_many("payments", messages, look_up_keys=["import-3"])
        waiting = await producer.send(
            "payments", b"later", delay=timedelta(seconds=2), look_up_keys=["ann", "order-99"]
        )
        waits = await admin.waiting_message(waiting.handle)
        assert waits is not None
        assert waits.look_up_keys == (b"ann", b"order-99")

        with pytest.raises(InvalidTopicNameError, match="is internal: its messages wait there"):
            await admin.query_messages(TIMED_TOPIC, "ann")
        async with AsyncConsumer(TIMED_TOPIC, bootstrap_servers=cluster.bootstrap) as consumer:
            with pytest.raises(InvalidTopicNameError, match="consumers receive them from their own topics"):
                await anext(consumer)

        async def values(key: str | bytes, **asked: int) -> list[bytes]:
            return [message.value for message in await admin.query_messages("payments", key, **asked)]

        for key in (*keys, "account-7"):
            assert b"one" in await values(key)
        assert await values("order-3") == [b"own", b"one"]
        assert await values(b"\xff") == [b"own"]
        assert sorted(await values("import-3")) == [b"pair", b"plain"]
        assert len(await values("import-3", max_messages=1)) == 1
        assert await values("order-999") == []
        (found,) = await admin.query_messages("payments", "account-7")
        assert found.look_up_keys == (*(key.encode() for key in keys), b"ann")
        assert (found.queue, found.offset) == (first.queue, first.offset)

        victim = await leader(cluster)
        await asyncio.to_thread(cluster.kill, victim)

        async def delivered() -> bool:
            return await values("ann") == [b"later", b"one"]

        await eventually(delivered, "the waiting message is delivered and found by its look-up key")
        await asyncio.to_thread(cluster.restart, victim)
        await level(cluster)
        for node in (1, 2, 3):
            assert await values("order-99", node=node) == [b"later"]
            assert await values("order-3", node=node) == [b"own", b"one"]
    async with AsyncConsumer("payments", bootstrap_servers=cluster.bootstrap, tags=["paid"]) as consumer:
        received = {message.value: message.look_up_keys for message in [await anext(consumer) for _ in range(2)]}
    assert received == {b"one": found.look_up_keys, b"own": (b"order-3", b"\xff")}


async def test_a_message_keeps_its_look_up_keys_among_the_retries_and_dead_letters(cluster: DevCluster) -> None:
    async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as producer:
        await admin.create_topic("invoices", 1)
        await producer.send("invoices", b"broken", look_up_keys=["invoice-1"])
        consumer = AsyncGroupConsumer("invoices", group="billing", bootstrap_servers=cluster.bootstrap)
        async with consumer:
            await consumer.give_up(await anext(consumer))
        (dead,) = await admin.query_messages("%DLQ%billing", "invoice-1")
        assert (dead.value, dead.look_up_keys) == (b"broken", (b"invoice-1",))


async def test_a_batch_of_one_key_is_found_whole_and_other_messages_are_left_out(cluster: DevCluster) -> None:
    async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap, linger_ms=50) as producer:
        await admin.create_topic("mixed", 1)
        values = [b"%d" % number for number in range(5_000)]
        await producer.send_many("mixed", values, key="same")
        await asyncio.gather(*(producer.send("mixed", b"%d" % i, key=f"key-{i % 7}") for i in range(100)))
        found = await admin.query_messages("mixed", "same", max_messages=10_000)
        assert [one.value for one in found] == values[::-1]
        assert [one.offset for one in await admin.query_messages("mixed", "same", max_messages=3)] == [4999, 4998, 4997]
        found = await admin.query_messages("mixed", "key-3")
        assert sorted(int(one.value) for one in found) == list(range(3, 100, 7))
        assert [one.offset for one in found] == sorted((one.offset for one in found), reverse=True)


async def test_offsets_for_times_agree_with_the_append_times(cluster: DevCluster) -> None:
    async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as producer:
        await admin.create_topic("times", QUEUES)
        receipts = [await producer.send("times", b"%d" % i, queue=i % 2) for i in range(40)]
        end = [20, 20, 0]
        for time in sorted({each.timestamp_ms + more for each in receipts for more in (0, 1)}):
            at_time = await admin.offsets_for_times({TopicQueue("times", queue): time for queue in range(QUEUES)})
            for queue in range(QUEUES):
                later = [each.offset for each in receipts if each.queue == queue and each.timestamp_ms >= time]
                assert at_time[TopicQueue("times", queue)] == min(later, default=end[queue])
        future = receipts[-1].timestamp_ms + 3_600_000
        assert await admin.offsets_for_times({("times", 1): future, ("times", 2): 0}) == {
            ("times", 1): 20,
            ("times", 2): 0,
        }

        moment = datetime.fromtimestamp(receipts[25].timestamp_ms / 1000, UTC)
        expected = [each for each in receipts if each.timestamp_ms >= receipts[25].timestamp_ms]
        async with AsyncConsumer("times", bootstrap_servers=cluster.bootstrap, start=moment) as consumer:
            seen = [await anext(consumer) for _ in expected]
            assert {(one.queue, one.offset) for one in seen} == {(each.queue, each.offset) for each in expected}
            assert all(one.append_time_ms >= receipts[25].timestamp_ms for one in seen)
            (at,) = (await consumer.offsets_for_times({("times", 0): receipts[0].timestamp_ms})).values()
            await consumer.seek("times", 0, at)
            assert (await anext(consumer)).offset == at == 0


async def test_what_is_not_there_is_named(cluster: DevCluster) -> None:
    async with AsyncAdmin(cluster.bootstrap, request_timeout_ms=5_000) as admin:
        await admin.create_topic("empty", 1)
        with pytest.raises(UnknownTopicError):
            await admin.query_messages("never", "key")
        with pytest.raises(UnknownTopicError):
            await admin.offsets_for_times({("never", 0): 0})
        with pytest.raises(UnknownQueueError, match="its queues are 0 to 0"):
            await admin.offsets_for_times({("empty", 1): 0})
        with pytest.raises(UnknownQueueError, match="its queues are 0 to 0"):
            await admin.get_message("empty", 1, 0)
        with pytest.raises(OffsetBeyondEndError, match="has no messages"):
            await admin.get_message("empty", 0, 0)
        for wrong in ({"max_messages": 0}, {"begin_ms": -1}, {"end_ms": 1.5}):
            with pytest.raises(InvalidArgumentError):
                await admin.query_messages("empty", "key", **wrong)
        with pytest.raises(InvalidArgumentError, match="not indexed"):
            await admin.query_messages("empty", None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="time zone"):
        AsyncConsumer("empty", bootstrap_servers=cluster.bootstrap, start=datetime.now())


def test_the_synchronous_twins(cluster: DevCluster) -> None:
    async def prepare() -> None:
        async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as producer:
            await admin.create_topic("twins", 1)
            await producer.send("twins", b"value", key="key")

    asyncio.run(prepare())
    with Admin(cluster.bootstrap) as admin:
        (found,) = admin.query_messages("twins", "key")
        assert admin.get_message("twins", 0, 0) == found
        assert found.id == "twins:0:0"
        assert admin.offsets_for_times({("twins", 0): found.append_time_ms + 1}) == {("twins", 0): 1}
    before = datetime.now(UTC) - timedelta(hours=1)
    with Consumer("twins", bootstrap_servers=cluster.bootstrap, start=before) as consumer:
        assert next(consumer) == found
        assert consumer.offsets_for_times({("twins", 0): 0}) == {("twins", 0): 0}


class Move:
    """A proposal that moves the log start (implements `raft.interfaces.Proposal`)."""

    def __init__(self, index: int) -> None:
        self.draft = log_start_draft(index)
        self.committed = asyncio.get_running_loop().create_future()

    def appended(self, header: Header) -> None:
        """Do nothing: the log start moves when the entry is applied."""

    def settled(self, committed: bool) -> None:
        assert committed
        self.committed.set_result(None)


async def test_where_the_log_begins_later_older_messages_are_not_found(make_fleet: MakeFleet) -> None:
    """The log of a single node begins after a snapshot, as after retention."""
    fleet = make_fleet(1, max_message_bytes=300 << 10)
    await fleet.start()
    topic_id = await fleet.create_topic()
    for number in range(20):
        batch = sample_batch(topic_id, [bytes(250 << 10)], first_sequence=number, keys=[b"key"])
        assert (await fleet.produce(1, batch)).base_offset == number
    shard = fleet.running[1]._shards.first
    assert shard is not None
    replica = shard.replica
    assert replica is not None
    async with AsyncAdmin(fleet.bootstrap) as admin:
        assert [one.offset for one in await admin.query_messages("topic", "key")] == list(range(19, -1, -1))
        log_start = replica.driver.log_start
        assert log_start is not None
        move = Move(log_start.candidates()[-1])
        replica.driver.propose(move)
        await move.committed
        first = (await admin.describe_topic("topic")).offsets[0].first_offset
        assert 0 < first < 20
        assert [one.offset for one in await admin.query_messages("topic", "key")] == list(range(19, first - 1, -1))
        assert await admin.offsets_for_times({("topic", 0): 0}) == {("topic", 0): first}
        with pytest.raises(OffsetTooLowError):
            await admin.get_message("topic", 0, first - 1)


async def test_a_key_index_that_was_harmed_while_the_node_was_down_is_built_anew(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(1)
    await fleet.start()
    topic_id = await fleet.create_topic()
    keys = [b"%d" % (number % 5_000) for number in range(20_000)]  # more than the first file holds
    for number in range(0, len(keys), 1_000):
        batch = sample_batch(topic_id, [b""] * 1_000, first_sequence=number, keys=keys[number : number + 1_000])
        assert (await fleet.produce(1, batch)).base_offset == number
    directory = fleet.data(1) / "shard-0" / "keys"
    harms: list[Callable[[Path], object]] = [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:-7]),
        lambda path: path.write_bytes(path.read_bytes() + b"\xff" * 100),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\xff"),
    ]
    for harm in harms:
        await fleet.stop()
        paths = sorted(path for path in directory.iterdir() if path.name != "stranger")
        assert len(paths) == 3, "two files, and the slots of the first"
        for path in paths:
            harm(path)
        (directory / "stranger").write_bytes(b"not ours")
        await fleet.start()
        async with AsyncAdmin(fleet.bootstrap) as admin:
            for key in (0, 999, 4_999):
                found = await admin.query_messages("topic", b"%d" % key)
                assert [one.offset for one in found] == [key + 15_000, key + 10_000, key + 5_000, key]
