"""Tests how a producer sends messages with delivery times, over real gRPC with fake nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

import ledgermq
from ledger.batch import Batch, BatchHeader, TimedColumn, timed_column
from ledger.client.connection.environment import PROCESS
from ledger.client.connection.lifetime import within
from ledger.client.producer import cancelling
from ledger.client.producer.outgoing import OutgoingMessage
from ledger.client.producer.producer import AsyncProducer
from ledger.errors import BusyError, InternalError, InvalidArgumentError, LedgerError
from ledger.history import Cancel, OperationOutcome, Schedule, Send, read_history
from ledger.timed import TIMED_TOPIC, TimedHandle, moment
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster

pytestmark = pytest.mark.real

NOW_MS = 1_800_000_000_000
HOUR = timedelta(hours=1)
IN_AN_HOUR = NOW_MS + 3_600_000
AT_NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)
NOON_MS = NOW_MS + 4 * 3_600_000


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Two nodes. Node 1 leads shard 0, node 2 leads shard 1. Queues 0 and 2 of `orders` are in shard 0, 1 and 3 in
    shard 1."""
    cluster = FakeCluster(others={1: 2})
    cluster.create("orders", 4, [0, 1, 0, 1])
    brokers = [FakeBroker(node, cluster) for node in (1, 2)]
    for broker in brokers:
        await broker.start()
    yield cluster
    for broker in brokers:
        await broker.stop()


def producer(cluster: FakeCluster, **settings: Any) -> AsyncProducer:
    simulated = within(replace(PROCESS, now_ms=lambda: NOW_MS), AsyncProducer)
    return simulated(list(cluster.addresses.values()), **settings)


def waiting(cluster: FakeCluster, shard: int) -> list[tuple[bytes, int, int]]:
    """Return (value, target queue, delivery time) of each message that waits in a shard, by its identity."""
    return [
        (value, column.queue, time_ms)
        for column, batch in stored(cluster, shard)
        for value, time_ms in zip(batch.values(), column.times_ms.tolist(), strict=True)
    ]


def stored(cluster: FakeCluster, shard: int) -> list[tuple[TimedColumn, Batch]]:
    topic = cluster.topics[TIMED_TOPIC]
    found = []
    for each in cluster.queues[topic.topic_id, list(topic.shards).index(shard)]:
        column = timed_column(each.body)
        assert column is not None
        assert column.topic_id == cluster.topics["orders"].topic_id
        found.append((column, Batch(each.body)))
    return found


async def test_a_message_waits_in_the_shard_of_its_target_queue(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        first = await one.send("orders", b"a", queue=3, delay=HOUR)
        second = await one.send("orders", b"b", queue=2, deliver_at=AT_NOON, key="k", tag="t", headers={"h": "1"})
        assert (await one.send("orders", b"at once", queue=2)).handle == ""
    assert waiting(cluster, 1) == [(b"a", 3, IN_AN_HOUR)]
    assert waiting(cluster, 0) == [(b"b", 2, NOON_MS)]
    assert cluster.values("orders", 2) == [b"at once"]
    assert (first.topic, first.queue, first.offset, first.deliver_at) == ("orders", 3, -1, moment(IN_AN_HOUR))
    topic_id = cluster.topics["orders"].topic_id
    assert TimedHandle.parse(first.handle) == TimedHandle(topic_id, 1, 0, IN_AN_HOUR)
    assert TimedHandle.parse(second.handle) == TimedHandle(topic_id, 0, 0, NOON_MS)
    assert cluster.preparations == 1
    ((_, batch),) = stored(cluster, 0)
    assert (batch.keys(), batch.tags(), batch.headers()) == ([b"k"], ["t"], [(("h", b"1"),)])


async def test_messages_for_one_queue_share_batches_whatever_their_times(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        await one.send("orders", b"first", queue=1, delay=HOUR)
        sends = [
            one.send("orders", b"%02d" % number, queue=1 + number % 2 * 2, delay=number * HOUR) for number in range(40)
        ]
        receipts = await asyncio.gather(*sends)
    batches = stored(cluster, 1)
    assert [len(batch) for _, batch in batches] == [1, 20, 20]
    found = waiting(cluster, 1)
    for number, receipt in enumerate(receipts):
        identity = TimedHandle.parse(receipt.handle).identity
        assert found[identity] == (b"%02d" % number, 1 + number % 2 * 2, NOW_MS + number * 3_600_000)
    assert len({BatchHeader.parse(each.body).producer_id for each in cluster.queues[2, 1]}) == 2


async def test_retries_keep_the_order_and_store_nothing_twice(cluster: FakeCluster) -> None:
    values = [b"%04d" % number for number in range(1000)]
    async with producer(cluster, batch_bytes=2000, retry_backoff_ms=1) as one:
        await one.send("orders", b"first", queue=1, delay=HOUR)
        cluster.troubles = ["lose", BusyError("busy"), "ok", "lose", BusyError("busy")]
        ranges = await one.send_many("orders", values, queue=1, delay=HOUR)
    assert not cluster.troubles
    assert [value for value, _, _ in waiting(cluster, 1)] == [b"first", *values]
    identities = [TimedHandle.parse(handle).identity for each in ranges for handle in each.handles]
    assert identities == list(range(1, 1001))


async def test_a_list_may_mix_messages_that_wait_and_messages_that_do_not(cluster: FakeCluster) -> None:
    messages: list[Any] = [
        b"plain",
        OutgoingMessage(b"own", delay=HOUR, queue=1),
        ("k", b"pair"),
        OutgoingMessage(b"x", queue=0),
    ]
    async with producer(cluster) as one:
        mixed = await one.send_many("orders", messages)
        late = await one.send_many("orders", messages, deliver_at=AT_NOON)
    assert waiting(cluster, 1)[0] == (b"own", 1, IN_AN_HOUR)
    by_index = {index: each for each in mixed for index in each.indexes}
    assert sorted(by_index) == [0, 1, 2, 3]
    assert by_index[1].deliver_at == [moment(IN_AN_HOUR)]
    assert by_index[1].first_offset == -1
    assert all(not each.handles and not each.deliver_at for index, each in by_index.items() if index != 1)
    times = {index: time for each in late for index, time in zip(each.indexes, each.deliver_at, strict=True)}
    assert times == {0: AT_NOON, 1: moment(IN_AN_HOUR), 2: AT_NOON, 3: AT_NOON}
    assert sorted(value for shard in (0, 1) for value, _, _ in waiting(cluster, shard)) == sorted(
        [b"own", b"plain", b"own", b"pair", b"x"]
    )


async def test_a_selector_chooses_the_target_queue(cluster: FakeCluster) -> None:
    async with producer(cluster, queue_selector=lambda message, queues: queues - 1) as one:
        receipt = await one.send("orders", b"a", delay=HOUR)
        await one.send_many("orders", [b"b", b"c"], delay=HOUR)
    assert receipt.queue == 3
    assert [(value, queue) for value, queue, _ in waiting(cluster, 1)] == [(b"a", 3), (b"b", 3), (b"c", 3)]


async def test_a_shard_that_is_new_gets_a_queue_of_waiting_messages(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        await one.send("orders", b"a", queue=0, delay=HOUR)
        cluster.others[2] = 1
        orders = cluster.topics["orders"]
        orders.shards.append(2)
        cluster.queues[orders.topic_id, 4] = []
        receipt = await one.send("orders", b"b", queue=4, delay=HOUR)
    assert cluster.preparations == 2
    assert waiting(cluster, 2) == [(b"b", 4, IN_AN_HOUR)]
    assert TimedHandle.parse(receipt.handle).shard == 2


async def test_a_wrong_time_fails_before_anything_is_sent(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        with pytest.raises(InvalidArgumentError, match="not both"):
            await one.send("orders", b"a", delay=HOUR, deliver_at=AT_NOON)
        with pytest.raises(InvalidArgumentError, match="no time zone"):
            one.send_nowait("orders", b"a", deliver_at=datetime(2027, 1, 15))
        with pytest.raises(InvalidArgumentError, match=r"41\.0 days ahead"):
            await one.send_many("orders", [b"a"], delay=timedelta(days=41))
        with pytest.raises(InvalidArgumentError, match=r"41\.0 days ahead"):
            await one.send_many("orders", [b"a", OutgoingMessage(b"b", delay=timedelta(days=41))])
    assert cluster.appends == 0


async def test_nodes_without_delivery_times_are_named(cluster: FakeCluster) -> None:
    cluster.knows_timed = False
    async with producer(cluster) as one:
        with pytest.raises(InvalidArgumentError, match="older version of ledgermq, which has no delivery times"):
            await one.send("orders", b"a", delay=HOUR)
        await one.send("orders", b"a")


async def test_the_history_has_messages_that_wait_with_their_times_and_identities(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    path = tmp_path / "history"
    async with producer(cluster, history=path, history_process=7) as one:
        receipt = await one.send("orders", b"waits", queue=3, delay=HOUR)
        await one.send("orders", b"at once", queue=3)
        await one.send_many("orders", [b"a", OutgoingMessage(b"bb", delay=2 * HOUR)], queue=3, delay=HOUR)
    first, second = (each for each in read_history(path) if isinstance(each, Schedule))
    handle, timed = TimedHandle.parse(receipt.handle), cluster.topics[TIMED_TOPIC]
    assert (first.process, first.outcome, first.topic, first.queue) == (7, OperationOutcome.OK, "orders", 3)
    assert (first.shard, first.identity) == (handle.shard, handle.identity) == (1, 0)
    assert (first.waits_in, first.clock_ms) == (list(timed.shards).index(1), NOW_MS)
    assert first.start <= first.end <= second.end
    (_, batch), *_ = stored(cluster, 1)
    numbers = (f"{batch.header.producer_id:016x}", batch.header.epoch, batch.header.first_sequence)
    assert (first.producer, first.epoch, first.sequence) == numbers
    assert (second.identity, second.sequence, second.sizes) == (1, 1, [1, 2])
    assert second.times_ms == [IN_AN_HOUR, IN_AN_HOUR + 3_600_000]
    assert second.crcs == [google_crc32c.value(b"a"), google_crc32c.value(b"bb")]
    assert [each.sizes for each in read_history(path) if isinstance(each, Send)] == [[7]]


async def test_the_history_has_messages_that_could_not_wait(cluster: FakeCluster, tmp_path: Path) -> None:
    path = tmp_path / "history"
    async with producer(cluster, history=path) as one:
        with pytest.raises(LedgerError):
            await one.send("nothing", b"waits", delay=HOUR)
    (told,) = (each for each in read_history(path) if isinstance(each, Schedule))
    assert (told.outcome, told.shard, told.waits_in, told.identity) == (OperationOutcome.FAIL, -1, -1, None)
    assert (told.producer, told.sequence, told.error) == ("", -1, "UnknownTopicError")


async def test_the_history_has_the_result_of_each_cancel(cluster: FakeCluster, tmp_path: Path) -> None:
    path = tmp_path / "history"
    async with producer(cluster, history=path) as one:
        receipt = await one.send("orders", b"a", queue=3, delay=HOUR)
        assert await one.cancel_many([receipt.handle, receipt.handle]) == [True, False]
        with pytest.raises(InvalidArgumentError):
            await one.cancel_many([receipt.handle, "t1_"])
        cluster.cancel_error = InternalError("The node is in trouble.")
        with pytest.raises(LedgerError):
            await one.cancel(receipt.handle)
    told = [each for each in read_history(path) if isinstance(each, Cancel)]
    assert [each.outcome for each in told] == [OperationOutcome.OK, OperationOutcome.FAIL, OperationOutcome.UNKNOWN]
    assert {(each.shard, each.identity, each.time_ms) for each in told} == {(1, 0, IN_AN_HOUR)}
    assert all(each.start <= each.end for each in told)


async def test_the_synchronous_producer_has_the_same_arguments(cluster: FakeCluster) -> None:
    def send() -> None:
        before = datetime.now(UTC)
        with ledgermq.Producer(list(cluster.addresses.values())) as one:
            receipt = one.send("orders", b"a", queue=1, delay=HOUR)
            later = one.send_nowait("orders", b"b", queue=1, deliver_at=before + HOUR)
            ranges = one.send_many("orders", [b"c"], queue=1, delay=HOUR)
            with pytest.raises(InvalidArgumentError, match="not both"):
                one.send_nowait("orders", b"d", deliver_at=before, delay=HOUR)
            assert receipt.deliver_at is not None
            assert timedelta(0) <= receipt.deliver_at - before - HOUR < timedelta(minutes=1)
            assert TimedHandle.parse(later.result(30).handle).identity == 1
            assert TimedHandle.parse(ranges[0].handles[0]).identity == 2

    await asyncio.to_thread(send)
    assert [value for value, _, _ in waiting(cluster, 1)] == [b"a", b"b", b"c"]


# --- cancelling


async def test_the_leader_of_the_shard_cancels_what_the_handle_names(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        await one.send("orders", b"a", queue=3, delay=HOUR)
        receipt = await one.send("orders", b"b", queue=3, delay=HOUR)
        assert await one.cancel(receipt.handle)
        assert not await one.cancel(receipt.handle)
    assert cluster.cancelled[0] == (1, cluster.topics["orders"].topic_id, 1, IN_AN_HOUR)

    def cancel() -> bool:
        with ledgermq.Producer(list(cluster.addresses.values())) as other:
            return other.cancel(receipt.handle)

    assert not await asyncio.to_thread(cancel)


async def test_many_messages_are_cancelled_by_shard_in_full_requests(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "MAX_HANDLES", 3)
    async with producer(cluster) as one:
        first = await one.send_many("orders", [b"a"] * 4, queue=0, delay=HOUR)
        second = await one.send_many("orders", [b"a"] * 4, queue=3, delay=HOUR)
        handles = [*first[0].handles, *second[0].handles, first[0].handles[1]]
        assert await one.cancel_many(handles) == [True] * 8 + [False]
        assert await one.cancel_many([]) == []
    asked = [(shard, identity) for shard, _, identity, _ in cluster.cancelled]
    assert sorted(asked) == sorted([*((0, each) for each in (0, 1, 2, 3, 1)), *((1, each) for each in range(4))])
    assert sorted(cluster.cancel_requests) == [1, 2, 3, 3]

    def cancel() -> list[bool]:
        with ledgermq.Producer(list(cluster.addresses.values())) as other:
            return other.cancel_many(iter(handles[:2]))

    assert await asyncio.to_thread(cancel) == [False, False]


async def test_one_wrong_handle_keeps_the_others(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        receipt = await one.send("orders", b"a", delay=HOUR)
        with pytest.raises(InvalidArgumentError, match="is not the handle"):
            await one.cancel_many([receipt.handle, "t1_"])
    assert not cluster.cancelled


async def test_what_is_no_handle_is_not_asked_for(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        for handle in ("", "t1_", "orders:3:1", f"t1_{'A' * 36}"):
            with pytest.raises(InvalidArgumentError, match="is not the handle"):
                await one.cancel(handle)
    assert not cluster.cancelled
