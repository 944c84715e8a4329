"""Tests three nodes with four shards: queues are spread over the shards, requests reach the right shard, and the
shards have different leaders."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from ledger.errors import InvalidArgumentError, NotLeaderError, UnknownQueueError, UnknownTopicError
from ledger.v1 import operations_pb2
from ledger.v1.operations_pb2_grpc import OperationsStub
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from tests.cluster.fleet import Fleet, error_of, sample_batch
from tests.cluster.led_shards import NODES, all_lead_in_turn, leaders
from tests.cluster.scrape import get, is_ready, scrape
from tests.cluster.waiter import eventually

SHARDS = 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("shards"), shards=SHARDS)
    await fleet.start()
    await fleet.leader()
    yield fleet
    await fleet.close()


@pytest_asyncio.fixture(loop_scope="module")
async def admin(fleet: Fleet) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        yield admin


pytestmark = pytest.mark.asyncio(loop_scope="module")


# --- topics


async def test_a_topic_spreads_over_the_shards_and_can_be_used_at_once(fleet: Fleet, admin: AsyncAdmin) -> None:
    made = await admin.create_topic("spread", 8)
    assert sorted(made.shards) == sorted([*range(SHARDS)] * 2)
    for queue in range(8):  # no more than one attempt: what create_topic has answered is so
        leader = (await leaders(admin))[made.shards[queue]]
        assert error_of(await fleet.produce(leader, sample_batch(made.topic_id, queue=queue))) is None
    assert [offsets.end_offset for offsets in (await admin.describe_topic("spread")).offsets] == [2] * 8


async def test_topics_go_where_there_are_fewest_queues(admin: AsyncAdmin) -> None:
    before = [shard for topic in await admin.list_topics() for shard in topic.shards]
    for number in range(5):
        await admin.create_topic(f"few-{number}", 3)
    placed = [shard for topic in await admin.list_topics() for shard in topic.shards]
    counts = [placed.count(shard) for shard in range(SHARDS)]
    assert len(placed) == len(before) + 15
    assert max(counts) - min(counts) <= 1


async def test_many_topics_at_once(admin: AsyncAdmin) -> None:
    made = await asyncio.gather(*(admin.create_topic(f"once-{number}", 4) for number in range(12)))
    assert len({topic.topic_id for topic in made}) == 12
    assert all(len(topic.shards) == 4 for topic in made)


async def test_keys_and_queues_times_and_places(fleet: Fleet, admin: AsyncAdmin) -> None:
    """Each query reaches the shard of its queue. A query about several shards returns the results of all of them."""
    await admin.create_topic("asked", SHARDS)
    async with AsyncProducer(fleet.bootstrap) as producer:
        sent = [await producer.send("asked", b"%d" % number, key=f"key-{number}") for number in range(40)]
        twins = [await producer.send("asked", b"twin", queue=queue, key="twin") for queue in range(SHARDS)]
    assert {receipt.queue for receipt in sent} == set(range(SHARDS))
    for number, receipt in enumerate(sent):
        (found,) = await admin.query_messages("asked", f"key-{number}")
        assert (found.value, found.queue, found.offset) == (b"%d" % number, receipt.queue, receipt.offset)
        assert await admin.get_message("asked", receipt.queue, receipt.offset) == found
    assert {message.queue for message in await admin.query_messages("asked", "twin")} == set(range(SHARDS))
    begin = await admin.offsets_for_times({("asked", queue): 0 for queue in range(SHARDS)})
    assert set(begin.values()) == {0}
    ends = {offsets.queue: offsets.end_offset for offsets in (await admin.describe_topic("asked")).offsets}
    assert ends == {receipt.queue: receipt.offset + 1 for receipt in twins}


async def test_a_consumer_reads_all_shards(fleet: Fleet, admin: AsyncAdmin) -> None:
    """The consumer reads from the leaders, and then from one node after another."""
    await admin.create_topic("read", SHARDS)
    values = [b"%d" % number for number in range(300)]
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.send_many("read", values)
    for node in (None, *NODES):
        async with AsyncConsumer("read", bootstrap_servers=fleet.bootstrap, start="earliest", node=node) as consumer:
            found: list[bytes] = []
            while len(found) < len(values):
                found += [message.value for message in await consumer.getmany(1000, timeout_ms=10_000)]
        assert sorted(found) == sorted(values)


async def test_more_queues(fleet: Fleet, admin: AsyncAdmin) -> None:
    """A producer that knew the topic with fewer queues sends to the new queues."""
    await admin.create_topic("grows", 1)
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.send("grows", b"x")
        grown = await admin.alter_topic("grows", 5)
        receipts = [await producer.send("grows", b"x", queue=queue) for queue in range(5)]
        with pytest.raises(UnknownQueueError):
            await producer.send("grows", b"x", queue=5)
    assert [(receipt.queue, receipt.offset) for receipt in receipts] == [(0, 1), (1, 0), (2, 0), (3, 0), (4, 0)]
    assert len(grown.shards) == 5
    assert set(grown.shards) == set(range(SHARDS)), "they go where there are fewest"
    assert await admin.alter_topic("grows", 5) == grown
    with pytest.raises(InvalidArgumentError, match="has 5 queues, and queues cannot be removed"):
        await admin.alter_topic("grows", 4)
    with pytest.raises(UnknownTopicError):
        await admin.alter_topic("nothing", 4)


# --- what a shard has of its own


async def test_every_shard_has_its_log_its_metrics_and_its_segments(fleet: Fleet) -> None:
    assert await is_ready(fleet.http(2))
    seen = await scrape(fleet.http(2))
    for shard in range(SHARDS):
        assert seen.of("ledgermq_raft_members", shard=str(shard)) == len(NODES)
        assert seen.of("ledgermq_raft_last_index", shard=str(shard)) > 0
        assert f'"shard": {shard}' in (await get(fleet.http(2), f"/shards/{shard}/segments"))[1]
        assert (fleet.data(2) / f"shard-{shard}" / "log").is_dir()
    assert (await get(fleet.http(2), f"/shards/{SHARDS}/segments"))[0] == 404


async def test_a_hold_is_of_all_shards_unless_one_is_named(admin: AsyncAdmin) -> None:
    await admin.hold_log("all")
    await admin.hold_log("one", shard=2)
    held = {(hold.name, hold.shard) for hold in await admin.log_holds()}
    assert held == {*(("all", shard) for shard in range(SHARDS)), ("one", 2)}
    cut = await admin.trim_log(keep_bytes=0, dry_run=True)
    assert [each.shard for each in cut.by_shard] == [*range(SHARDS)]
    assert cut.held_by == ("all", "one")
    assert await admin.release_log("all")
    assert {(hold.name, hold.shard) for hold in await admin.log_holds()} == {("one", 2)}
    assert (await admin.trim_log(keep_bytes=0, shard=1)).held_by == ()
    assert await admin.release_log("one")


async def test_there_is_no_such_shard(admin: AsyncAdmin) -> None:
    calls: list[Callable[[], object]] = [
        lambda: admin.members(shard=9),
        lambda: admin.hold_log("x", shard=9),
        lambda: admin.transfer_leadership(shard=9),
    ]
    for call in calls:
        with pytest.raises(InvalidArgumentError, match="no shard 9: the last one is"):
            await call()  # type: ignore[misc]


async def test_a_node_says_so_of_a_shard_that_is_nowhere(fleet: Fleet) -> None:
    stub: OperationsStub = fleet.broker(1)  # type: ignore[assignment]
    answer = await stub.GetMembers(operations_pb2.GetMembersRequest(shard=9), timeout=5)
    assert "there is no shard 9: the last one is" in answer.error.message


async def test_a_queue_is_written_by_the_leader_of_its_shard_alone(fleet: Fleet, admin: AsyncAdmin) -> None:
    made = await admin.create_topic("led", SHARDS)
    leading = await leaders(admin)
    for queue, shard in enumerate(made.shards):
        for node in NODES:
            error = error_of(await fleet.produce(node, sample_batch(made.topic_id, queue=queue, producer_id=node)))
            if node == leading[shard]:
                assert error is None
            else:
                assert isinstance(error, NotLeaderError)
                assert error.leader == leading[shard]


# --- who leads


async def test_each_shard_is_led_by_another_node_in_turn(admin: AsyncAdmin) -> None:
    await eventually(lambda: all_lead_in_turn(admin, SHARDS), "every shard is led by whose turn it is")
