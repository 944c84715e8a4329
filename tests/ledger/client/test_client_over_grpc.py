"""Tests the clients over real gRPC with fake nodes that lose answers, refuse requests, or stop answering."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

import ledgermq
from ledger.client.connection import answer_watch, cluster_client
from ledger.errors import (
    BufferFullError,
    BusyError,
    ClosedError,
    DeliveryTimeoutError,
    DiskFullError,
    InvalidArgumentError,
    InvalidTopicNameError,
    MessageTooLargeError,
    NoLeaderError,
    OffsetBeyondEndError,
    TopicExistsError,
    UnavailableError,
    UnknownQueueError,
    UnknownTopicError,
)
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster

pytestmark = pytest.mark.real


@pytest.fixture
async def brokers() -> AsyncIterator[list[FakeBroker]]:
    cluster = FakeCluster()
    cluster.create("t", 1)
    cluster.create("wide", 3)
    brokers = [FakeBroker(node, cluster) for node in (1, 2)]
    for broker in brokers:
        await broker.start()
    yield brokers
    for broker in brokers:
        await broker.stop()


@pytest.fixture
def cluster(brokers: list[FakeBroker]) -> FakeCluster:
    return brokers[0].cluster


def producer(cluster: FakeCluster, **settings: Any) -> ledgermq.AsyncProducer:
    return ledgermq.AsyncProducer(list(cluster.addresses.values()), **settings)


def consumer(cluster: FakeCluster, *topics: str, **settings: Any) -> ledgermq.AsyncConsumer:
    settings = {"max_wait_ms": 20, **settings}
    return ledgermq.AsyncConsumer(*topics, bootstrap_servers=list(cluster.addresses.values()), **settings)


# --- starting --------------------------------------------------------------------------------------------------------


async def test_an_error_says_what_went_wrong_at_each_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in (silent, closed)]
        with pytest.raises(UnavailableError) as refusal:
            await ledgermq.AsyncAdmin(addresses).start()
    assert f"{addresses[0]} (" in str(refusal.value), "the words are those of gRPC"
    assert f"{addresses[1]} (Connection refused)" in str(refusal.value)


# --- producing -------------------------------------------------------------------------------------------------------


async def test_a_message_gets_its_place(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        await one.send("t", b"a")
        metadata = await one.send("t", b"b", key="k", tag="x", headers={"h": b"1"}, timestamp_ms=7)
    assert metadata == ledgermq.RecordMetadata("t", 0, 1, 5, 1, duplicate=False)
    assert cluster.values("t", 0) == [b"a", b"b"]


async def test_sends_of_one_turn_share_a_batch_and_keep_their_order(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        await one.send("t", b"first")
        found = await asyncio.gather(*(one.send("t", b"%03d" % number) for number in range(100)))
        assert [metadata.offset for metadata in found] == list(range(1, 101))
    assert cluster.appends == 2


async def test_messages_for_a_topic_not_known_yet_keep_their_order(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        futures = [one.send_nowait("t", b"%d" % number) for number in range(3)]
        last = await one.send("t", b"last")
        assert [(await future).offset for future in futures] == [0, 1, 2]
    assert last.offset == 3


async def test_many(cluster: FakeCluster) -> None:
    values = [b"%05d" % number for number in range(10_000)]
    async with producer(cluster, batch_bytes=4096) as one:
        ranges = await one.send_many("wide", values)
        assert await one.send_many("wide", []) == []
        await one.send_many("wide", iter([b"x", b"y"]), queue=2)
        await one.flush()
    found: list[bytes] = []
    for part in ranges:
        stored = cluster.values("wide", part.queue)
        found += stored[part.first_offset : part.first_offset + part.count]
    assert found == values
    assert {part.queue for part in ranges} == {0, 1, 2}
    assert cluster.values("wide", 2)[-2:] == [b"x", b"y"]


async def test_a_follower_sends_the_producer_to_the_leader(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        await one.send("t", b"a")
        cluster.leader, cluster.term = 2, 2
        assert (await one.send("t", b"b")).offset == 1


async def test_a_lost_answer_leads_to_no_second_copy(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        await one.send("t", b"a")
        cluster.troubles = ["lose", "lose"]
        metadata = await one.send("t", b"b")
        assert (metadata.offset, metadata.duplicate) == (1, True)
        await one.send("t", b"c")
    assert cluster.values("t", 0) == [b"a", b"b", b"c"]


async def test_order_survives_trouble_in_the_middle(cluster: FakeCluster) -> None:
    values = [b"%04d" % number for number in range(2000)]
    async with producer(cluster, batch_bytes=1000, retry_backoff_ms=1) as one:
        await one.send("t", b"first")
        cluster.troubles = ["lose", BusyError("busy"), "ok", NoLeaderError("no"), "lose", "ok", BusyError("busy")]
        ranges = await one.send_many("t", values)
    assert not cluster.troubles
    assert cluster.values("t", 0) == [b"first", *values]
    assert sum(part.count for part in ranges) == len(values)


async def test_a_silent_node_is_left_when_another_leads(brokers: list[FakeBroker], cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        await one.send("t", b"a")
        brokers[0].silent = True
        sending = one.send_nowait("t", b"b")
        await asyncio.sleep(0.05)
        cluster.leader, cluster.term = 2, 2
        assert (await asyncio.wait_for(sending, 10)).offset == 1


async def test_a_call_leaves_a_silent_node_when_another_leads(
    brokers: list[FakeBroker], cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_watch, "STALL_S", 0.1)
    async with ledgermq.AsyncAdmin(list(cluster.addresses.values())) as admin:
        brokers[0].silent = True
        creating = asyncio.create_task(admin.create_topic("new", queues=1))
        await asyncio.sleep(0.05)
        cluster.leader, cluster.term = 2, 2
        async with asyncio.timeout(4):  # an attempt would take 5 s
            assert (await creating).name == "new"


async def test_a_node_that_does_not_answer_leaves_the_send_unknown(
    brokers: list[FakeBroker], cluster: FakeCluster
) -> None:
    async with producer(cluster, delivery_timeout_ms=300) as one:
        await one.send("t", b"a")
        brokers[0].silent = True
        with pytest.raises(DeliveryTimeoutError) as raised:
            await one.send("t", b"b")
        assert raised.value.maybe_committed
        await one.flush()


async def test_without_a_leader_a_send_fails_and_is_not_there(cluster: FakeCluster) -> None:
    async with producer(cluster, delivery_timeout_ms=1_000) as one:
        await one.send("t", b"a")
        cluster.troubles = [BusyError("busy")] * 100
        with pytest.raises(DeliveryTimeoutError) as raised:
            await one.send("t", b"b")
        assert not raised.value.maybe_committed
        cluster.troubles = []
        await one.send("t", b"c")
    assert cluster.values("t", 0) == [b"a", b"c"]


async def test_wrong_sends(cluster: FakeCluster) -> None:
    async with producer(cluster, request_timeout_ms=2000) as one:
        with pytest.raises(UnknownTopicError, match='no topic "nothing"'):
            await one.send("nothing", b"a")
        with pytest.raises(UnknownTopicError):
            await one.send_many("nothing", [b"a"])
        with pytest.raises(InvalidTopicNameError):
            await one.send("..", b"a")
        with pytest.raises(UnknownQueueError):
            await one.send("t", b"a", queue=1)
        arguments: list[dict[str, Any]] = [{"topic": 5}, {"topic": "t", "queue": "0"}, {"topic": "later", "queue": "0"}]
        for wrong in arguments:
            with pytest.raises((InvalidArgumentError, InvalidTopicNameError), match="must be a"):
                await one.send(value=b"a", **wrong)
            with pytest.raises((InvalidArgumentError, InvalidTopicNameError), match="must be a"):
                await one.send_many(wrong["topic"], [b"a"], queue=wrong.get("queue"))
        with pytest.raises(MessageTooLargeError):
            await one.send("t", bytes(10_001))
        with pytest.raises(MessageTooLargeError):
            await one.send_many("t", [b"fine", bytes(10_001)])
        assert cluster.values("t", 0) == []
        cluster.create("nothing", 1)
        await one.send("nothing", b"a")
    with pytest.raises(ClosedError, match="is closed"):
        await one.send("t", b"a")


async def test_a_full_buffer_refuses_or_waits(brokers: list[FakeBroker], cluster: FakeCluster) -> None:
    async with producer(cluster, buffer_bytes=1000, delivery_timeout_ms=500) as one:
        await one.send("t", b"a")
        brokers[0].silent = True
        first = one.send_nowait("t", bytes(900))
        with pytest.raises(BufferFullError):
            one.send_nowait("t", bytes(900))
        # On a slow machine the first of these gets the room of `first`, which runs out of time. The last never does.
        errors = await asyncio.gather(*(one.send("t", bytes(900)) for _ in range(5)), return_exceptions=True)
        assert isinstance(errors[-1], DeliveryTimeoutError)
        assert "buffer" in errors[-1].message
        assert not errors[-1].maybe_committed
        with pytest.raises(DeliveryTimeoutError):
            await first


async def test_a_full_buffer_keeps_the_order_of_the_sends(cluster: FakeCluster) -> None:
    async with producer(cluster, buffer_bytes=1000, batch_bytes=400) as one:
        sends = []
        for number in range(600):
            sends.append(asyncio.create_task(one.send("t", bytes(10 if number % 4 else 500))))
            # The next send must be able to come in any turn of the event loop, so this does not wait for an event.
            while sum(not send.done() for send in sends[-6:]) > 2 + number % 3:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert [(await send).offset for send in sends] == list(range(600))


async def test_a_timeout_says_what_went_wrong(cluster: FakeCluster) -> None:
    async with producer(cluster, delivery_timeout_ms=300, buffer_bytes=1000) as one:
        await one.send("t", b"a")
        cluster.troubles = [DiskFullError("the disk of this node is full: /log.")] * 1000
        sends = [one.send("t", bytes(900)), one.send("t", bytes(900))]
        for error in await asyncio.gather(*sends, return_exceptions=True):
            assert isinstance(error, DeliveryTimeoutError)
            assert "; the last error was: the disk of this node is full: /log. " in error.message
            assert isinstance(error.__cause__, DiskFullError)
        cluster.troubles = []


async def test_a_partly_failed_send_many_says_what_was_acknowledged(cluster: FakeCluster) -> None:
    async with producer(cluster, batch_bytes=20_000) as one:
        await one.send("t", b"first")

        def values() -> Iterator[bytes]:
            yield from [bytes(100)] * 20_000
            raise MessageTooLargeError("drawn no further")

        with pytest.raises(MessageTooLargeError) as raised:
            await one.send_many("t", values())
        acknowledged = vars(raised.value)["acknowledged"]
        assert [part.first_offset for part in acknowledged] == sorted(part.first_offset for part in acknowledged)
        assert sum(part.count for part in acknowledged) == len(cluster.values("t", 0)) - 1 == 16_384
        assert raised.value.__notes__ == ["Of the first 16384 messages, 16384 were acknowledged: see `acknowledged`."]
        with pytest.raises(InvalidTopicNameError) as refused:
            await one.send_many("..", [b"a"])
        assert vars(refused.value)["acknowledged"] == []


async def test_an_error_of_the_program_in_send_many_comes_when_all_messages_have_results(cluster: FakeCluster) -> None:
    def values() -> Iterator[bytes]:
        yield from [b"x"] * 40_000
        raise KeyError("no more")

    async with producer(cluster) as one:
        with pytest.raises(KeyError) as raised:
            await one.send_many("t", values())
    acknowledged = vars(raised.value)["acknowledged"]
    assert sum(each.count for each in acknowledged) == len(cluster.values("t", 0)) > 16_000


@pytest.mark.parametrize("count", [10, 5_000])
async def test_to_stop_delivers_what_was_handed_over(cluster: FakeCluster, count: int) -> None:
    one = producer(cluster)
    await one.start()
    futures = [one.send_nowait("t", b"%d" % number) for number in range(count)]
    await one.stop()
    assert all(future.done() for future in futures)
    assert len(cluster.values("t", 0)) == count
    await one.stop()


async def test_who_hears_first_can_send_again_before_all_have_heard(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        await one.send("t", b"first")
        futures = [one.send_nowait("t", b"%d" % number) for number in range(2_000)]
        await futures[0]
        assert not futures[-1].done()
        await asyncio.gather(*futures)
    assert [future.result().offset for future in futures] == list(range(1, 2_001))
    assert cluster.appends == 2


async def test_a_flush_ends_when_all_have_heard(cluster: FakeCluster) -> None:
    async with producer(cluster, batch_bytes=16_384) as one:
        await one.send("t", b"first")
        futures = [one.send_nowait("t", b"%d" % number) for number in range(5_000)]
        await one.flush()
        assert all(future.done() for future in futures)


async def test_where_no_node_answers_there_is_no_start() -> None:
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1"):
        await ledgermq.AsyncProducer("127.0.0.1:1").start()


# --- consuming -------------------------------------------------------------------------------------------------------


async def test_messages_come_back_in_order(cluster: FakeCluster) -> None:
    values = [b"%05d" % number for number in range(3000)]
    async with producer(cluster, batch_bytes=4096) as one, consumer(cluster, "t") as reader:
        await one.send_many("t", values)
        found: list[ledgermq.Message] = []
        async for message in reader:
            found.append(message)
            if len(found) == 10:
                break
        assert reader.position("t", 0) == 10
        while len(found) < len(values):
            found += await reader.getmany(700)
        assert [message.value for message in found] == values
        assert [message.offset for message in found] == list(range(len(values)))
        assert await reader.getmany(timeout_ms=10) == []
        for wrong in (-1, 1 << 63, 1.5):
            with pytest.raises(InvalidArgumentError, match=r"offset is .* a whole number"):
                await reader.seek("t", 0, cast(int, wrong))
        await reader.seek("t", 0, 2999)
        assert [message.value for message in await reader.getmany()] == [values[-1]]
        assert (await reader.beginning_offsets(), await reader.end_offsets()) == ({("t", 0): 0}, {("t", 0): 3000})


async def test_a_topic_may_be_deleted_while_a_consumer_asks_for_offsets(cluster: FakeCluster) -> None:
    async with consumer(cluster, "t", "wide") as reader:
        asked = asyncio.ensure_future(reader.end_offsets())
        await asyncio.sleep(0)  # it waits for the offsets of the first topic
        del reader._client.routes.table.topics["wide"]
        reader._topic_changed("wide")
        assert set(await asked) == {("t", 0), ("wide", 0), ("wide", 1), ("wide", 2)}


async def test_starts(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        await one.send_many("t", [b"a", b"b", b"c"])
        async with consumer(cluster, "t", start="latest") as latest, consumer(cluster, "t", start=1) as second:
            assert (latest.position("t", 0), second.position("t", 0)) == (3, 1)
            assert [message.value for message in await second.getmany()] == [b"b", b"c"]
            await one.send("t", b"d")
            assert [message.value for message in await latest.getmany()] == [b"d"]


async def test_tags_queues_and_batches(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        await one.send("wide", b"a", queue=1, tag="x")
        await one.send("wide", b"b", queue=1, tag="y")
        await one.send("wide", b"c", queue=2, tag="x")
    async with consumer(cluster, "wide", tags=["x"], queues=[1]) as reader:
        assert [message.value for message in await reader.getmany(timeout_ms=200)] == [b"a"]
        assert await reader.getmany(timeout_ms=50) == []
    async with consumer(cluster, "wide", queues=[1, 2]) as reader:
        batches = [batch for _ in range(2) for batch in await reader.getbatches(timeout_ms=200)]
        assert sorted((queue, offset, batch.values()) for queue, offset, batch in batches) == [
            (1, 0, [b"a"]),
            (1, 1, [b"b"]),
            (2, 0, [b"c"]),
        ]


async def test_an_offset_beyond_the_end_is_told_until_the_reader_seeks(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        await one.send("t", b"a")
    async with consumer(cluster, "t", start=9) as reader:
        for _ in range(2):
            with pytest.raises(OffsetBeyondEndError) as raised:
                await reader.getmany()
            assert raised.value.end_offset == 1
        await reader.seek("t", 0, 0)
        assert [message.value for message in await reader.getmany()] == [b"a"]


async def test_reading_says_so_when_nobody_answers_for_too_long(
    brokers: list[FakeBroker], cluster: FakeCluster
) -> None:
    async with consumer(cluster, "t", request_timeout_ms=300) as reader:
        for broker in brokers:
            await broker.stop()
        with pytest.raises((UnavailableError, NoLeaderError)):
            await asyncio.wait_for(reader.getmany(), 10)


async def test_wrong_readers(cluster: FakeCluster) -> None:
    with pytest.raises(UnknownTopicError):
        await consumer(cluster, "nothing").start()
    with pytest.raises(UnknownQueueError):
        await consumer(cluster, "t", queues=[1]).start()
    with pytest.raises(InvalidArgumentError, match="max_wait_ms is -1"):
        consumer(cluster, "t", max_wait_ms=-1)
    with pytest.raises(InvalidArgumentError, match="node 9"):
        await consumer(cluster, "t", node=9).start()


# --- administration --------------------------------------------------------------------------------------------------


async def test_topics(cluster: FakeCluster) -> None:
    async with ledgermq.AsyncAdmin(list(cluster.addresses.values())) as admin:
        assert (await admin.create_topic("new", queues=2)).queues == 2
        with pytest.raises(TopicExistsError):
            await admin.create_topic("new", queues=2)
        assert [topic.name for topic in await admin.list_topics()] == ["new", "t", "wide"]
        described = await admin.describe_topic("new")
        assert described.offsets == (ledgermq.QueueOffsets(0, 0, 0), ledgermq.QueueOffsets(1, 0, 0))


async def test_a_topic_whose_answer_was_lost_is_made_once(cluster: FakeCluster) -> None:
    async with ledgermq.AsyncAdmin(list(cluster.addresses.values())) as admin:
        cluster.troubles = ["lose"]
        assert (await admin.create_topic("new", queues=2)).name == "new"


async def test_a_call_that_waits_long_says_what_it_waits_for(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster_client, "_WARN_AFTER_SECONDS", 0.0)
    async with ledgermq.AsyncAdmin(list(cluster.addresses.values())) as admin:
        cluster.troubles = [BusyError("Shard 0 is busy.")] * 3
        await admin.create_topic("new", queues=2)
    assert [record.getMessage() for record in caplog.records if record.name == "ledgermq.client.calls"] == [
        "Shard 0 is busy. Trying again for 30 s more."
    ]


async def test_nodes_that_do_not_answer_are_shown_as_such(brokers: list[FakeBroker], cluster: FakeCluster) -> None:
    async with ledgermq.AsyncAdmin(list(cluster.addresses.values())) as admin:
        await brokers[1].stop()
        first, second = await admin.cluster()
    assert (first.node, first.reachable, first.shards[0].role) == (1, True, "leader")
    assert (second.node, second.reachable) == (2, False)
    assert cluster.addresses[2] in second.error


# --- the synchronous clients -----------------------------------------------------------------------------------------


async def test_synchronous_twins(cluster: FakeCluster) -> None:
    addresses = list(cluster.addresses.values())

    def work() -> list[bytes]:
        with ledgermq.Admin(addresses) as admin, ledgermq.Producer(addresses) as one:
            admin.create_topic("sync", queues=1)
            one.send("sync", b"a")
            handed_over = one.send_nowait("sync", b"b")
            assert handed_over.result().offset == 1
            assert one.send_many("sync", [b"c", b"d"])[0].count == 2
            one.flush()
        with ledgermq.Consumer("sync", bootstrap_servers=addresses, max_wait_ms=20) as reader:
            first = next(reader)
            assert reader.position("sync", 0) == 1
            rest = [first.value, *(message.value for message in reader.getmany())]
            reader.seek("sync", 0, 3)
            assert next(reader).value == b"d"
            assert reader.end_offsets() == {("sync", 0): 4}
        with pytest.raises(ClosedError):
            one.send("sync", b"e")
        return rest

    assert await asyncio.to_thread(work) == [b"a", b"b", b"c", b"d"]
