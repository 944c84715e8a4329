"""Sends requests that only a leader can serve to followers, or while no node leads: the answer is a retriable error
in time, which names the leader if it is known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ledger.errors import (
    DeliveryTimeoutError,
    LedgerError,
    NoLeaderError,
    NotLeaderError,
    ReplicaBehindError,
    UnavailableError,
)
from ledger.v1 import broker_pb2, error_pb2
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from tests.cluster.fleet import Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.gated_disk import GatedDisk
from tests.cluster.waiter import eventually


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """Three running nodes with one topic."""
    fleet = Fleet(tmp_path_factory.mktemp("three-nodes"))
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    await fleet.level()
    yield fleet
    await fleet.close()


@pytest.mark.asyncio(loop_scope="module")
class TestWithALeader:
    async def test_a_follower_names_the_leader_and_its_address(self, fleet: Fleet) -> None:
        leader = await fleet.leader()
        for follower in (node for node in fleet.nodes if node != leader):
            broker = fleet.broker(follower)
            answers = [
                await fleet.produce(follower, sample_batch(1)),
                await broker.CreateTopic(broker_pb2.CreateTopicRequest(name="x", queues=1), timeout=5),
                await broker.ListOffsets(broker_pb2.ListOffsetsRequest(topic_id=1, linearizable=True), timeout=5),
                await broker.GetRoute(broker_pb2.GetRouteRequest(linearizable=True), timeout=5),
            ]
            for answer in answers:
                error = error_of(answer)
                assert type(error) is NotLeaderError
                assert answer.error.code == error_pb2.NOT_LEADER
                assert (error.leader, error.leader_address) == (leader, fleet.address(leader))
                assert fleet.address(leader) in error.message
                assert error.retriable

    async def test_a_follower_gives_what_it_has_applied(self, fleet: Fleet) -> None:
        leader = await fleet.leader()
        sent = await fleet.produce(leader, sample_batch(1, producer_id=2))
        await fleet.level()
        for node in fleet.nodes:
            fetched = await fleet.fetch(node, 1, sent.base_offset)
            assert error_of(fetched) is None
            assert fetched.batches[0].body == sample_batch(1, producer_id=2)
            assert fetched.end_offset == sent.base_offset + 2

    async def test_beyond_the_end_of_a_follower_it_is_behind(self, fleet: Fleet) -> None:
        follower = await fleet.follower()
        end = (await fleet.fetch(follower, 1, 0)).end_offset
        fetched = await fleet.fetch(follower, 1, end + 1, max_wait_ms=10_000)
        error = error_of(fetched)
        assert type(error) is ReplicaBehindError
        assert fetched.error.code == error_pb2.REPLICA_BEHIND
        assert f"only up to offset {end}," in error.message
        assert error.retriable

    async def test_a_topic_that_a_follower_does_not_know_may_only_not_have_come_yet(self, fleet: Fleet) -> None:
        follower = await fleet.follower()
        error = error_of(await fleet.fetch(follower, 999, 0))
        assert type(error) is ReplicaBehindError
        assert "topic 999" in error.message

    async def test_a_fetch_that_waits_at_a_follower_is_woken_by_what_is_applied_there(self, fleet: Fleet) -> None:
        leader, follower = await fleet.leader(), await fleet.follower()
        await fleet.level()
        end = (await fleet.fetch(follower, 1, 0)).end_offset
        waiting = asyncio.create_task(fleet.fetch(follower, 1, end, max_wait_ms=9_000))
        started = time.monotonic()
        assert error_of(await fleet.produce(leader, sample_batch(1, producer_id=3))) is None
        fetched = await waiting
        assert fetched.batches[0].base_offset == end
        assert time.monotonic() - started < 8

    async def test_clients_find_the_leader_from_a_follower_alone(self, fleet: Fleet) -> None:
        address = fleet.address(await fleet.follower())
        async with AsyncProducer(address) as producer, AsyncConsumer("topic", bootstrap_servers=address) as consumer:
            sent = await producer.send("topic", b"by way of a follower")
            await consumer.seek("topic", 0, sent.offset)
            assert (await anext(consumer)).value == b"by way of a follower"


async def two_of_three_stopped(fleet: Fleet) -> int:
    """Stop the two followers. Return the remaining node, once it no longer leads."""
    leader = await fleet.leader()
    await fleet.stop(*(node for node in fleet.nodes if node != leader))

    async def leaderless() -> bool:
        return (await fleet.status(leader)).leader == 0

    await eventually(leaderless, "a leader without a majority steps down")
    return leader


async def test_without_a_majority_everything_is_refused_at_once_or_in_time(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    await fleet.start()
    await fleet.leader()
    topic = await fleet.create_topic()
    async with (
        AsyncProducer(fleet.bootstrap, delivery_timeout_ms=1000) as producer,
        AsyncAdmin(fleet.bootstrap, request_timeout_ms=1000) as admin,
    ):
        await producer.send("topic", b"before")
        alone = await two_of_three_stopped(fleet)

        broker = fleet.broker(alone)
        for answer in (
            await fleet.produce(alone, sample_batch(topic)),
            await broker.CreateTopic(broker_pb2.CreateTopicRequest(name="x", queues=1), timeout=5),
            await broker.ListOffsets(broker_pb2.ListOffsetsRequest(topic_id=topic, linearizable=True), timeout=5),
        ):
            assert type(error_of(answer)) is NoLeaderError
            assert answer.error.code == error_pb2.NO_LEADER
        assert error_of(await fleet.fetch(alone, topic, 0)) is None  # what is applied can be read

        async with asyncio.timeout(5):
            with pytest.raises(LedgerError) as refused:
                await admin.create_topic("other")
            assert isinstance(refused.value, (NoLeaderError, UnavailableError))
            assert refused.value.retriable
            with pytest.raises(DeliveryTimeoutError) as timed_out:
                await producer.send("topic", b"nobody took it")
        assert "1000 ms" in str(timed_out.value)

        await fleet.start(*(node for node in fleet.nodes if node != alone))
        await fleet.leader()
        sent = await producer.send("topic", b"after")  # the same producer goes on
    values = await read_all(fleet, sent.offset + 1)
    if not timed_out.value.maybe_committed:
        assert values == [b"before", b"after"]
    assert values in ([b"before", b"after"], [b"before", b"nobody took it", b"after"])


async def test_what_was_never_sent_is_surely_not_committed(make_fleet: MakeFleet) -> None:
    """The producer never knows a leader, so none of its batches is sent."""
    fleet = make_fleet()
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    await fleet.level()
    await two_of_three_stopped(fleet)
    async with AsyncProducer(fleet.bootstrap, delivery_timeout_ms=1000) as producer:
        with pytest.raises(LedgerError) as refused:  # not even the topic can be looked up, or no leader is found
            await producer.send("topic", b"never sent")
    assert refused.value.retriable or not getattr(refused.value, "maybe_committed", True)


async def test_what_was_appended_without_a_majority_is_unknown(make_fleet: MakeFleet) -> None:
    """The leader appends the batch and finds no majority. The send times out with an unknown result, and the batch
    is committed later."""
    disks = {node: GatedDisk() for node in (1, 2, 3)}
    fleet = make_fleet(disks=disks, flush="sync")
    await fleet.start()
    leader = await fleet.leader()
    followers = [node for node in fleet.nodes if node != leader]
    await fleet.create_topic()
    status = await fleet.level()
    async with AsyncProducer(fleet.bootstrap, delivery_timeout_ms=1500) as producer:
        for node in followers:
            disks[node].hold()
        sending = asyncio.create_task(producer.send("topic", b"appended"))

        async def appended() -> bool:
            return (await fleet.status(leader)).last_index > status.last_index

        await eventually(appended, "the leader has appended it")
        with pytest.raises(DeliveryTimeoutError) as timed_out:
            async with asyncio.timeout(5):
                await sending
        assert timed_out.value.maybe_committed
        assert "read the queue before you send them again" in str(timed_out.value)
        for node in followers:
            disks[node].release()
        assert (await producer.send("topic", b"later")).offset == 1  # behind the other, whose fate is settled by now
    assert await read_all(fleet, 2) == [b"appended", b"later"]


async def test_a_new_leader_does_not_take_a_consumer_for_one_that_is_ahead(make_fleet: MakeFleet) -> None:
    """The old leader delivered a message to a consumer. The new leader has the message, but does not know yet that
    it is committed. Therefore the new leader answers an offset after its known end with a retriable error."""
    disks = {node: GatedDisk() for node in (1, 2, 3)}
    # Heartbeats are rare, so followers hear of a commit late.
    fleet = make_fleet(disks=disks, flush="sync", heartbeat_ticks=20, election_ticks=40)
    await fleet.start()
    old = await fleet.leader()
    topic = await fleet.create_topic()
    await fleet.level()
    sent = await fleet.produce(old, sample_batch(topic))
    others = [node for node in fleet.nodes if node != old]
    for node in others:
        disks[node].hold()
    await fleet.stop(old)
    try:

        async def elected() -> int:
            statuses = {node: await fleet.status(node) for node in others}
            return next((node for node, status in statuses.items() if status.role == "leader"), 0)

        new = await eventually(elected, "one of the other two is elected")
        status = await fleet.status(new)
        assert status.applied < status.last_index  # its no-op is not committed
        error = error_of(await fleet.fetch(new, topic, sent.base_offset + 2))
        assert error is None or error.retriable
        error = error_of(await fleet.fetch(new, topic + 1, 0))
        assert error is None or error.retriable
    finally:
        for node in others:
            disks[node].release()
    await fleet.level()
    assert (await fleet.fetch(new, topic, 0)).end_offset == sent.base_offset + 2


async def read_all(fleet: Fleet, count: int) -> list[bytes]:
    async with asyncio.timeout(10), AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap, queues=[0]) as consumer:
        return [(await anext(consumer)).value for _ in range(count)]
