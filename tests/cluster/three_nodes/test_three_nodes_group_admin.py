"""Tests the operations of `Admin` on consumer groups against three real nodes: list, describe, reset and delete."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from ledger.client.connection.channels import NodeStub
from ledger.errors import (
    GroupNotEmptyError,
    InvalidArgumentError,
    InvalidGroupNameError,
    OffsetBeyondEndError,
    UnknownGroupError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledger.v1 import consumer_group_operations_pb2
from ledgermq import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncGroupConsumer,
    AsyncProducer,
    Message,
    OffsetReset,
    QueueConsumption,
)
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.scrape import scrape
from tests.cluster.waiter import until

QUEUES = 2


@pytest.fixture(params=[1, 3], ids=["one shard", "three"])
async def fleet(make_fleet: MakeFleet, request: pytest.FixtureRequest) -> Fleet:
    fleet = make_fleet(retry_delays_s=[0.05], shards=request.param)
    await fleet.start()
    await fleet.leader()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("orders", QUEUES)
    return fleet


async def send(fleet: Fleet, *values: int) -> None:
    """Send the values to the queues in turn."""
    async with AsyncProducer(fleet.bootstrap) as producer:
        for value in values:
            await producer.send("orders", b"%d" % value, queue=value % QUEUES)


def member(fleet: Fleet, group: str = "billing") -> AsyncGroupConsumer:
    return AsyncGroupConsumer("orders", group=group, bootstrap_servers=fleet.bootstrap, auto_acknowledge=False)


async def read(consumer: AsyncGroupConsumer, count: int) -> list[Message]:
    """Read `count` messages, finish them, and acknowledge them."""
    messages: list[Message] = []
    async with asyncio.timeout(20):
        while len(messages) < count:
            messages += await consumer.getmany(count - len(messages), 200)
    consumer.finish(*messages)
    await consumer.acknowledge()
    return messages


def values(messages: list[Message]) -> list[int]:
    return sorted(int(message.value) for message in messages)


def of_orders(queues: tuple[QueueConsumption, ...]) -> list[QueueConsumption]:
    return [one for one in queues if one.topic == "orders"]


async def offsets(admin: AsyncAdmin) -> list[int | None]:
    described = await admin.describe_consumer_group("billing")
    return [one.offset for one in of_orders(described.queues)]


async def test_list_and_describe(fleet: Fleet) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        assert await admin.list_consumer_groups() == []
        await send(fleet, *range(10))
        async with member(fleet) as consumer, member(fleet, "audit") as other:
            await read(other, 10)
            seen = await read(consumer, 10)
            await send(fleet, *range(10, 16))
            later = [message for message in await consumer.getmany() if message.queue == 0]
            while not later:
                later = [message for message in await consumer.getmany() if message.queue == 0]
            await consumer.reconsume_later(later[-1])
            audit, billing = await admin.list_consumer_groups()
            assert (billing.name, billing.members, billing.strategy, billing.queues) == ("billing", 1, "average", 2)
            assert (audit.lag, audit.retries, audit.dead_letters) == (6, 0, 0)
            assert (billing.lag, billing.retries) == (5, 1)
            assert 0 < billing.lag_s < 60
            assert len(seen) == 10

            described = await admin.describe_consumer_group("billing")
            (one,) = described.members
            assert (one.member, described.strategy) == (consumer.member, "average")
            assert [place for place in one.queues if place.topic == "orders"] == [("orders", 0), ("orders", 1)]
            zero, first = of_orders(described.queues)
            assert (zero.owner, zero.next_owner, zero.offset, zero.end_offset) == (one.member, one.member, 5, 8)
            assert (zero.settled, zero.lag, first.lag, first.settled) == (1, 2, 3, 0)
            assert first.lag_s is not None
            assert first.lag_s > 0
            assert zero.epoch > 0
        (zero, first) = of_orders((await admin.describe_consumer_group("audit")).queues)
        assert (zero.owner, zero.offset, zero.lag) == ("", 5, 3)
        after = [one for one in await admin.list_consumer_groups() if one.name == "audit"]
        assert (after[0].members, after[0].strategy, after[0].lag) == (0, "", 6)


def dry_run(bootstrap: list[str]) -> list[OffsetReset]:
    """Reset the offsets with `dry_run`, by the synchronous client."""
    with Admin(bootstrap) as admin:
        (one,) = admin.list_consumer_groups()
        assert len(of_orders(admin.describe_consumer_group(one.name).queues)) == QUEUES
        return admin.reset_offsets(one.name, "earliest", dry_run=True)


async def test_a_consumer_group_without_members_is_reset(fleet: Fleet) -> None:
    await send(fleet, *range(10))
    async with member(fleet) as consumer:
        await read(consumer, 10)
    between = datetime.now(UTC)
    await send(fleet, *range(10, 14))
    would = await asyncio.to_thread(dry_run, fleet.bootstrap)
    assert [(one.topic, one.queue, one.before, one.after) for one in would] == [
        ("orders", 0, 5, 0),
        ("orders", 1, 5, 0),
    ]
    async with AsyncAdmin(fleet.bootstrap) as admin:
        assert await offsets(admin) == [5, 5]
        await admin.reset_offsets("billing", 3, topic="orders", queues=[1])
        async with member(fleet) as consumer:
            assert values(await read(consumer, 6)) == [7, 9, *range(10, 14)]
        assert [one.after for one in await admin.reset_offsets("billing", between)] == [5, 5]
        async with member(fleet) as consumer:
            assert values(await read(consumer, 4)) == list(range(10, 14))
        await admin.reset_offsets("billing", "earliest")
        await admin.reset_offsets("billing", "latest")
        async with member(fleet) as consumer:
            assert await consumer.getmany(timeout_ms=500) == []


async def test_members_go_on_where_their_shard_is_reset_to_although_they_have_nothing_to_do(fleet: Fleet) -> None:
    await send(fleet, *range(10))
    async with member(fleet) as first, member(fleet) as second, AsyncAdmin(fleet.bootstrap) as admin:
        members = (first, second)
        await until(
            lambda: all(sum(place.topic == "orders" for place in each.assignment) == 1 for each in members),
            "each member has a queue",
        )
        assert values([*await read(first, 5), *await read(second, 5)]) == list(range(10))
        await admin.reset_offsets("billing", 2, topic="orders")
        again = [*await read(first, 3), *await read(second, 3)]
        assert values(again) == list(range(4, 10))
        await until(
            lambda: all(sum(place.topic == "orders" for place in each.assignment) == 1 for each in members),
            "each member has its queue still",
        )
        assert await offsets(admin) == [5, 5]


async def test_a_consumer_group_is_deleted_once_it_has_no_members(fleet: Fleet) -> None:
    await send(fleet, *range(4))
    async with AsyncAdmin(fleet.bootstrap) as admin:
        async with member(fleet) as consumer:
            await read(consumer, 4)
            with pytest.raises(GroupNotEmptyError, match="stop its consumers first"):
                await admin.delete_consumer_group("billing")
        assert await admin.delete_consumer_group("billing") >= QUEUES
        assert await admin.list_consumer_groups() == []
        with pytest.raises(UnknownGroupError):
            await admin.delete_consumer_group("billing")
        async with member(fleet) as consumer:  # as one that has never been
            assert values(await read(consumer, 4)) == list(range(4))


async def test_dead_letters_are_counted(fleet: Fleet) -> None:
    await send(fleet, 0)
    async with AsyncAdmin(fleet.bootstrap) as admin, member(fleet) as consumer:
        (message,) = await consumer.getmany()
        await consumer.give_up(message)
        (billing,) = await admin.list_consumer_groups()
        assert (billing.lag, billing.dead_letters) == (0, 1)
        async with AsyncConsumer("%DLQ%billing", bootstrap_servers=fleet.bootstrap) as dead_letters:
            assert (await anext(dead_letters)).origin == "orders:0:0"


async def test_what_cannot_be_is_refused_and_changes_nothing(fleet: Fleet) -> None:
    await send(fleet, *range(4))
    async with AsyncAdmin(fleet.bootstrap) as admin:
        with pytest.raises(UnknownGroupError, match='no consumer group "billing"'):
            await admin.describe_consumer_group("billing")
        async with member(fleet) as consumer:
            await read(consumer, 4)
        for to, fields, refusal in (
            (3, {"topic": "orders"}, OffsetBeyondEndError),
            (0, {}, InvalidArgumentError),
            ("soon", {}, InvalidArgumentError),
            (datetime(2026, 1, 1), {}, InvalidArgumentError),
            ("earliest", {"queues": [0]}, InvalidArgumentError),
            ("earliest", {"topic": "orders", "queues": [2]}, UnknownQueueError),
            ("earliest", {"topic": "nowhere"}, UnknownTopicError),
        ):
            with pytest.raises(refusal):
                await admin.reset_offsets("billing", to, **fields)  # type: ignore[arg-type]
        with pytest.raises(InvalidGroupNameError):
            await admin.reset_offsets("no spaces", "earliest")
        with pytest.raises(UnknownGroupError):
            await admin.reset_offsets("another", "earliest")
        assert await offsets(admin) == [2, 2]


@pytest.mark.parametrize("fleet", [1], indirect=True)  # where all lags are told by one node
async def test_metrics_tell_lags_moves_rebalances_and_refusals(fleet: Fleet) -> None:
    await send(fleet, *range(6))
    node = await fleet.leader()
    async with member(fleet) as consumer:
        messages: list[Message] = []
        while len(messages) < 6:
            messages += await consumer.getmany()
        zero, one, *rest = sorted(messages, key=lambda message: int(message.value))
        await consumer.reconsume_later(zero)
        await consumer.give_up(one)
        consumer.finish(*(message for message in rest if message.queue == 1))
        await consumer.acknowledge()
        now = await scrape(fleet.http(node))

        def of(name: str, **labels: str) -> float:
            return now.of(f"ledgermq_consumer_group_{name}", consumer_group="billing", **labels)

        assert of("lag_messages", topic="orders", queue="0") == 2
        assert of("lag_messages", topic="orders", queue="1") == 0
        assert 0 < of("lag_seconds", topic="orders", queue="0") < 60
        assert of("lag_seconds", topic="orders", queue="1") == 0
        assert (of("members"), of("retries_total"), of("dead_letters_total")) == (1, 1, 1)
        assert now["ledgermq_consumer_group_lags_left_out"] == 0
        assert now["ledgermq_consumer_group_rebalances_total"] >= 1
        refusals = "ledgermq_consumer_refusals_total"
        assert (refusals, (("code", "CONSUMER_FENCED"),)) not in now.samples

        await fence(fleet, node)
        consumer.finish(*rest)
        await consumer.acknowledge()
        now = await scrape(fleet.http(node))
        assert now.of(refusals, code="CONSUMER_FENCED") == 1
    follower = await scrape(fleet.http(await fleet.follower()))
    assert not [name for name, _ in follower.samples if name.startswith("ledgermq_consumer_group_lag_")]


async def fence(fleet: Fleet, node: int) -> None:
    """Fence the owner of queue 0 by a reset of its offset at the shard, without the coordinator."""
    async with AsyncAdmin(fleet.bootstrap) as admin:
        topic_id = (await admin.describe_topic("orders")).topic_id
    queue = consumer_group_operations_pb2.QueueReset(topic_id=topic_id, queue=0, offset=1)
    request = consumer_group_operations_pb2.ResetOffsetsRequest(consumer_group="billing", queues=[queue])
    stub = fleet.broker(node)
    assert isinstance(stub, NodeStub)
    assert not (await stub.ResetOffsets(request, timeout=10)).HasField("error")
