"""Tests to which queue a producer sends a message: queue selectors, slow shards and failing shards.

The tests use real gRPC and two fake nodes. Each node leads one of two shards.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import ledgermq
from ledger.errors import BusyError, DeliveryTimeoutError, InvalidArgumentError, UnknownQueueError
from ledger.v1 import broker_pb2
from ledgermq import UnplacedMessage
from tests.ledger.client.fake_broker import FakeBroker, FakeCluster

pytestmark = pytest.mark.real


@pytest.fixture
async def brokers() -> AsyncIterator[list[FakeBroker]]:
    cluster = FakeCluster(others={1: 2})
    cluster.create("wide", 3)
    cluster.create("spread", 4, shards=[0, 1, 0, 1])
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


def total(cluster: FakeCluster, topic: str, *queues: int) -> int:
    return sum(len(cluster.values(topic, queue)) for queue in queues)


# --- queue selectors -------------------------------------------------------------------------------------------------


async def test_the_selector_is_given_the_message_and_the_number_of_queues(cluster: FakeCluster) -> None:
    asked = []

    def selector(message: UnplacedMessage, queues: int) -> int:
        asked.append((message, queues))
        return 2

    async with producer(cluster, queue_selector=selector) as one:
        placed = await one.send("wide", b"a", key="k", tag="x", headers={"h": b"1"})
        bare = await one.send("wide", b"b")
    assert (placed.queue, bare.queue) == (2, 2)
    assert asked == [
        (UnplacedMessage("wide", b"a", b"k", "x", (("h", b"1"),)), 3),
        (UnplacedMessage("wide", b"b"), 3),
    ]


async def test_send_many_asks_for_each_message_and_keeps_its_answer_in_order(cluster: FakeCluster) -> None:
    values = [b"%d" % number for number in range(100)]
    async with producer(cluster, queue_selector=lambda message, queues: int(message.value) % queues) as one:
        ranges = await one.send_many("wide", values)
    assert [(each.queue, each.first_offset, each.count) for each in ranges] == [(n % 3, n // 3, 1) for n in range(100)]
    assert cluster.values("wide", 1) == values[1::3]
    assert cluster.appends < 50, "messages still share batches"


async def test_a_queue_that_is_named_goes_before_the_selector(cluster: FakeCluster) -> None:
    async with producer(cluster, queue_selector=lambda message, queues: 0) as one:
        assert (await one.send("wide", b"a", queue=1)).queue == 1
        assert {each.queue for each in await one.send_many("wide", [b"b", b"c"], queue=2)} == {2}


async def test_a_queue_that_no_node_told_of_so_far_is_asked_for(
    brokers: list[FakeBroker], cluster: FakeCluster
) -> None:
    """The client requests the route again before it refuses an unknown queue. The first answers are stale: the topic
    has got its third queue since.
    """
    for broker in brokers:
        broker.applied = [broker_pb2.TopicRoute(name="wide", topic_id=cluster.topics["wide"].topic_id, shards=[0, 0])]
    async with producer(cluster) as one:
        assert (await one.send("wide", b"a", queue=2)).queue == 2
        with pytest.raises(UnknownQueueError, match="its queues are 0 to 2"):
            await one.send("wide", b"a", queue=3)


async def test_a_new_client_uses_the_newest_answer_about_a_topic(
    brokers: list[FakeBroker], cluster: FakeCluster
) -> None:
    """The node that answers first is behind: the topic that it reports was deleted, and created again."""
    behind, leader = brokers
    behind.applied = [broker_pb2.TopicRoute(name="wide", topic_id=99, shards=[0])]
    leader.applied = list(cluster.topics.values())
    leader.route_late_s = 0.02
    async with producer(cluster) as one:
        await one.send("wide", b"a")
    assert total(cluster, "wide", 0, 1, 2) == 1


async def test_a_selector_without_a_wish_leaves_the_usual_choice(cluster: FakeCluster) -> None:
    async with producer(cluster) as plain, producer(cluster, queue_selector=lambda message, queues: None) as one:
        usual = (await plain.send("wide", b"a", key="customer")).queue
        assert (await one.send("wide", b"a", key="customer")).queue == usual
        assert {(await one.send("wide", b"b")).queue for _ in range(6)} == {0, 1, 2}


@pytest.mark.parametrize("chosen", [3, -1, "1", 1.0])
async def test_a_choice_that_is_no_queue_fails_the_send_and_nothing_else(cluster: FakeCluster, chosen: Any) -> None:
    wishes = iter([chosen, 1])
    async with producer(cluster, queue_selector=lambda message, queues: next(wishes)) as one:
        with pytest.raises(InvalidArgumentError, match=r'queue_selector chose .* of topic "wide", .* queues 0 to 2'):
            await one.send("wide", b"a")
        assert (await one.send("wide", b"b")).queue == 1
    assert total(cluster, "wide", 0, 1, 2) == 1


async def test_a_selector_that_raises_fails_the_send_with_its_error_as_the_cause(cluster: FakeCluster) -> None:
    def selector(message: UnplacedMessage, queues: int) -> int:
        raise KeyError("no such customer")

    async with producer(cluster, queue_selector=selector) as one:
        with pytest.raises(InvalidArgumentError, match="queue_selector raised KeyError") as failed:
            await one.send("wide", b"a")
        assert isinstance(failed.value.__cause__, KeyError)
        with pytest.raises(InvalidArgumentError, match="queue_selector raised"):
            await one.send_many("wide", [b"a", b"b"])
        assert (await one.send("wide", b"b", queue=0)).offset == 0


def test_the_synchronous_twin_takes_it_too(tmp_path: Any) -> None:
    async def served() -> None:
        cluster = FakeCluster()
        cluster.create("wide", 3)
        broker = FakeBroker(1, cluster)
        await broker.start()

        def use() -> int:
            with ledgermq.Producer(
                cluster.addresses[1], queue_selector=lambda message, queues: 2, retries=3, latency_faults=True
            ) as one:
                return one.send("wide", b"a").queue

        assert await asyncio.to_thread(use) == 2
        await broker.stop()

    asyncio.run(served())


# --- another shard ---------------------------------------------------------------------------------------------------


async def test_what_a_shard_refuses_goes_to_another_one(brokers: list[FakeBroker], cluster: FakeCluster) -> None:
    brokers[1].refusal = BusyError("full")
    async with producer(cluster, delivery_timeout_ms=5_000) as one:
        receipts = [await one.send("spread", b"%d" % number) for number in range(8)]
        with pytest.raises(DeliveryTimeoutError):
            async with producer(cluster, delivery_timeout_ms=300) as other:
                await other.send("spread", b"bound", queue=1)
    assert {receipt.queue for receipt in receipts} == {0, 2}
    assert total(cluster, "spread", 1, 3) == 0
    assert total(cluster, "spread", 0, 2) == 8


async def test_it_goes_back_once_that_answers(brokers: list[FakeBroker], cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        brokers[1].refusal = BusyError("full")
        for number in range(4):
            await one.send("spread", b"%d" % number)
        brokers[1].refusal = None

        async def comes_back() -> None:
            while not total(cluster, "spread", 1, 3):
                await one.send("spread", b"more")

        await asyncio.wait_for(comes_back(), 10)


# --- late answers ----------------------------------------------------------------------------------------------------


async def late_share(brokers: list[FakeBroker], cluster: FakeCluster, late_s: float, **settings: Any) -> int:
    """Send twenty messages one after another. Returns how many messages go to the shard that answers late."""
    brokers[1].late_s = late_s
    async with producer(cluster, **settings) as one:
        for number in range(20):
            await one.send("spread", b"%d" % number)
    return total(cluster, "spread", 1, 3)


async def test_a_shard_that_answers_late_is_passed_over_where_that_is_wished(
    brokers: list[FakeBroker], cluster: FakeCluster
) -> None:
    assert await late_share(brokers, cluster, 0.6, latency_faults=[(500, 60_000)]) == 1


async def test_and_not_where_it_is_not(brokers: list[FakeBroker], cluster: FakeCluster) -> None:
    assert await late_share(brokers, cluster, 0.03) == 10


async def test_retries_are_checked(cluster: FakeCluster) -> None:
    for wrong in (-1, 1.5, True, "3"):
        with pytest.raises(InvalidArgumentError, match="retries is"):
            producer(cluster, retries=wrong)


async def test_retries_end_a_send_long_before_its_deadline(brokers: list[FakeBroker], cluster: FakeCluster) -> None:
    brokers[0].refusal = BusyError("full")
    async with producer(cluster, retries=2, retry_backoff_ms=1) as one:
        with pytest.raises(DeliveryTimeoutError, match=r"by 3 attempt\(s\)") as failed:
            await one.send("wide", b"a", key="k")
    assert not failed.value.maybe_committed
    assert cluster.requests == 3


async def test_a_request_carries_no_more_batches_than_a_broker_takes(cluster: FakeCluster) -> None:
    """2,048 queues have one small batch each. The producer must split these batches over several requests."""
    for name in ("first", "second"):
        cluster.create(name, 1024)
    async with producer(cluster) as one:
        await one.send_many("first", [b"x"])
        await one.send_many("second", [b"x"])
        futures = [one.send_nowait(name, b"x", queue=queue) for name in ("first", "second") for queue in range(1024)]
        await asyncio.gather(*futures)
    assert 1 < cluster.largest_request <= 1024
