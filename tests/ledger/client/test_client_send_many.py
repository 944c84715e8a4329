"""send_many with keys, tags, headers and queues of each message, over real gRPC with a fake node."""

from __future__ import annotations

from typing import Any

import pytest

import ledgermq
from ledger.batch import Batch
from ledger.errors import DeliveryTimeoutError, InvalidArgumentError, NoLeaderError, UnknownQueueError
from ledger.hashing import queue_of
from ledgermq import OutgoingMessage, RecordRange
from tests.ledger.client.fake_broker import FakeCluster

pytestmark = pytest.mark.real

PAIRS = [(b"key %d" % (number % 50), b"%05d" % number) for number in range(5_000)]


def producer(cluster: FakeCluster, **settings: Any) -> ledgermq.AsyncProducer:
    return ledgermq.AsyncProducer(list(cluster.addresses.values()), **settings)


def batches(cluster: FakeCluster, topic: str, queue: int) -> list[Batch]:
    return [Batch(stored.body) for stored in cluster.queues[cluster.topics[topic].topic_id, queue]]


def stored(cluster: FakeCluster, topic: str, queue: int) -> list[tuple[bytes | None, bytes]]:
    return [pair for one in batches(cluster, topic, queue) for pair in zip(one.keys(), one.values(), strict=True)]


def check_indexes(cluster: FakeCluster, ranges: list[RecordRange], values: list[bytes]) -> None:
    """Check that the ranges say of every message where it is."""
    assert sorted(index for one in ranges for index in one.indexes) == list(range(len(values)))
    for one in ranges:
        there = cluster.values(one.topic, one.queue)[one.first_offset : one.first_offset + one.count]
        assert there == [values[index] for index in one.indexes]


@pytest.mark.parametrize("form", [list, iter])
async def test_pairs_go_to_the_queues_of_their_keys_in_order(cluster: FakeCluster, form: Any) -> None:
    async with producer(cluster, batch_bytes=8192) as one:
        ranges = await one.send_many("wide", form(PAIRS))
        assert (await one.send("wide", b"alone", key=PAIRS[7][0])).queue == queue_of(PAIRS[7][0], 3)
    for queue in range(3):
        expected = [pair for pair in PAIRS if queue_of(pair[0], 3) == queue]
        assert [pair for pair in stored(cluster, "wide", queue) if pair[1] != b"alone"] == expected
    check_indexes(cluster, ranges, [value for _, value in PAIRS])
    assert cluster.appends < 60, "messages share batches"


async def test_plain_values_have_indexes_too(cluster: FakeCluster) -> None:
    values = [b"%d" % number for number in range(3000)]
    async with producer(cluster, batch_bytes=4096) as one:
        check_indexes(cluster, await one.send_many("wide", values), values)


async def test_each_message_keeps_what_is_its_own(cluster: FakeCluster) -> None:
    messages = [
        OutgoingMessage(b"a", "k", "paid", {"h": b"1"}, timestamp_ms=7, queue=1),
        OutgoingMessage(b"b", tag="new", queue=1),
        OutgoingMessage(b"c", queue=1),
    ]
    async with producer(cluster) as one:
        await one.send_many("wide", messages, tag="usual")
    (batch,) = batches(cluster, "wide", 1)
    assert batch.values() == [b"a", b"b", b"c"]
    assert batch.keys() == [b"k", None, None]
    assert batch.tags() == ["paid", "new", "usual"]
    assert batch.headers() == [(("h", b"1"),), (), ()]
    assert batch.timestamps_ms() == [7, batch.header.base_timestamp_ms, batch.header.base_timestamp_ms]


async def test_a_message_without_key_and_queue_goes_to_some_queue(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        ranges = await one.send_many("wide", [(None, b"a"), ("k", b"b"), b"c"])
    check_indexes(cluster, ranges, [b"a", b"b", b"c"])


async def test_a_selector_chooses_for_pairs_too(cluster: FakeCluster) -> None:
    async with producer(cluster, queue_selector=lambda message, queues: int(message.value) % queues) as one:
        ranges = await one.send_many("wide", [("k", b"%d" % number) for number in range(30)])
    assert [each.queue for each in ranges] == [number % 3 for number in range(30)]


async def test_order_survives_trouble(cluster: FakeCluster) -> None:
    async with producer(cluster, batch_bytes=1000, retry_backoff_ms=1) as one:
        await one.send("t", b"first")
        cluster.troubles = ["lose", NoLeaderError("no"), "ok", "lose"]
        ranges = await one.send_many("t", PAIRS)
    assert cluster.values("t", 0) == [b"first", *(value for _, value in PAIRS)]
    assert sum(part.count for part in ranges) == len(PAIRS)


async def test_a_wrong_pair_is_refused_before_anything_is_sent(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        with pytest.raises(InvalidArgumentError):
            await one.send_many("wide", [*PAIRS, ("k", "text")])  # type: ignore[list-item]
        with pytest.raises(UnknownQueueError):
            await one.send_many("wide", [OutgoingMessage(b"a", queue=3)])
    assert cluster.appends == 0


async def test_an_error_says_which_pairs_were_acknowledged(cluster: FakeCluster) -> None:
    async with producer(cluster, delivery_timeout_ms=300, batch_bytes=4096, retry_backoff_ms=1) as one:
        await one.send("wide", b"first")
        cluster.troubles = ["ok", *["lose"] * 1000]
        with pytest.raises(DeliveryTimeoutError) as raised:
            await one.send_many("wide", PAIRS)
        cluster.troubles = []
    acknowledged = raised.value.acknowledged
    assert acknowledged
    for part in acknowledged:
        there = cluster.values("wide", part.queue)[part.first_offset : part.first_offset + part.count]
        assert there == [PAIRS[index][1] for index in part.indexes]
