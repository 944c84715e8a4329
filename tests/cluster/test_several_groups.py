"""Three nodes with four groups: topics spread, requests find their group, each group is led by another node in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from ledger import AsyncAdmin, AsyncConsumer, AsyncProducer
from ledger.errors import InvalidArgumentError, NotLeaderError, UnknownQueueError, UnknownTopicError
from ledger.v1 import operations_pb2
from ledger.v1.operations_pb2_grpc import OperationsStub
from tests.cluster.fleet import Fleet, error_of, sample_batch
from tests.cluster.led_groups import NODES, all_lead_in_turn, leaders
from tests.cluster.scrape import get, is_ready, scrape
from tests.cluster.waiter import eventually

GROUPS = 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("groups"), groups=GROUPS)
    await fleet.start()
    yield fleet
    await fleet.close()


@pytest_asyncio.fixture(loop_scope="module")
async def admin(fleet: Fleet) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        yield admin


pytestmark = pytest.mark.asyncio(loop_scope="module")


# --- topics


async def test_a_topic_spreads_over_the_groups_and_can_be_used_at_once(fleet: Fleet, admin: AsyncAdmin) -> None:
    made = await admin.create_topic("spread", 8)
    assert sorted(made.groups) == sorted([*range(GROUPS)] * 2)
    for queue in range(8):  # no more than one attempt: what create_topic has answered is so
        leader = (await leaders(admin))[made.groups[queue]]
        assert error_of(await fleet.produce(leader, sample_batch(made.topic_id, queue=queue))) is None
    assert [offsets.end_offset for offsets in (await admin.describe_topic("spread")).offsets] == [2] * 8


async def test_topics_go_where_there_are_fewest_queues(admin: AsyncAdmin) -> None:
    before = [group for topic in await admin.list_topics() for group in topic.groups]
    for number in range(5):
        await admin.create_topic(f"few-{number}", 3)
    placed = [group for topic in await admin.list_topics() for group in topic.groups]
    counts = [placed.count(group) for group in range(GROUPS)]
    assert len(placed) == len(before) + 15
    assert max(counts) - min(counts) <= 1


async def test_many_topics_at_once(admin: AsyncAdmin) -> None:
    made = await asyncio.gather(*(admin.create_topic(f"once-{number}", 4) for number in range(12)))
    assert len({topic.topic_id for topic in made}) == 12
    assert all(len(topic.groups) == 4 for topic in made)


async def test_keys_and_queues_times_and_places(fleet: Fleet, admin: AsyncAdmin) -> None:
    """Each question finds the group of its queue; answers of several groups are put together."""
    await admin.create_topic("asked", GROUPS)
    async with AsyncProducer(fleet.bootstrap) as producer:
        sent = [await producer.send("asked", b"%d" % number, key=f"key-{number}") for number in range(40)]
        twins = [await producer.send("asked", b"twin", queue=queue, key="twin") for queue in range(GROUPS)]
    assert {receipt.queue for receipt in sent} == set(range(GROUPS))
    for number, receipt in enumerate(sent):
        (found,) = await admin.query_messages("asked", f"key-{number}")
        assert (found.value, found.queue, found.offset) == (b"%d" % number, receipt.queue, receipt.offset)
        assert await admin.get_message("asked", receipt.queue, receipt.offset) == found
    assert {message.queue for message in await admin.query_messages("asked", "twin")} == set(range(GROUPS))
    begin = await admin.offsets_for_times({("asked", queue): 0 for queue in range(GROUPS)})
    assert set(begin.values()) == {0}
    ends = {offsets.queue: offsets.end_offset for offsets in (await admin.describe_topic("asked")).offsets}
    assert ends == {receipt.queue: receipt.offset + 1 for receipt in twins}


async def test_a_consumer_reads_all_groups(fleet: Fleet, admin: AsyncAdmin) -> None:
    """From the leaders, and from any one node."""
    await admin.create_topic("read", GROUPS)
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
    """A producer that knew the topic with fewer takes them up."""
    await admin.create_topic("grows", 1)
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.send("grows", b"x")
        grown = await admin.alter_topic("grows", 5)
        receipts = [await producer.send("grows", b"x", queue=queue) for queue in range(5)]
        with pytest.raises(UnknownQueueError):
            await producer.send("grows", b"x", queue=5)
    assert [(receipt.queue, receipt.offset) for receipt in receipts] == [(0, 1), (1, 0), (2, 0), (3, 0), (4, 0)]
    assert len(grown.groups) == 5
    assert set(grown.groups) == set(range(GROUPS)), "they go where there are fewest"
    assert await admin.alter_topic("grows", 5) == grown
    with pytest.raises(InvalidArgumentError, match="has 5 queues: it can only be given more, not 4"):
        await admin.alter_topic("grows", 4)
    with pytest.raises(UnknownTopicError):
        await admin.alter_topic("nothing", 4)


# --- what a group has of its own


async def test_every_group_has_its_log_its_metrics_and_its_segments(fleet: Fleet) -> None:
    assert await is_ready(fleet.http(2))
    seen = await scrape(fleet.http(2))
    for group in range(GROUPS):
        assert seen.of("ledgermq_raft_members", group=str(group)) == len(NODES)
        assert seen.of("ledgermq_raft_last_index", group=str(group)) > 0
        assert f'"group": {group}' in (await get(fleet.http(2), f"/groups/{group}/segments"))[1]
        assert (fleet.data(2) / f"group-{group}" / "log").is_dir()
    assert (await get(fleet.http(2), f"/groups/{GROUPS}/segments"))[0] == 404


async def test_a_hold_is_of_all_groups_unless_one_is_named(admin: AsyncAdmin) -> None:
    await admin.hold_log("all")
    await admin.hold_log("one", group=2)
    held = {(hold.name, hold.group) for hold in await admin.log_holds()}
    assert held == {*(("all", group) for group in range(GROUPS)), ("one", 2)}
    cut = await admin.trim_log(keep_bytes=0, dry_run=True)
    assert [each.group for each in cut.by_group] == [*range(GROUPS)]
    assert cut.held_by == ("all", "one")
    assert await admin.release_log("all")
    assert {(hold.name, hold.group) for hold in await admin.log_holds()} == {("one", 2)}
    assert (await admin.trim_log(keep_bytes=0, group=1)).held_by == ()
    assert await admin.release_log("one")


async def test_there_is_no_such_group(admin: AsyncAdmin) -> None:
    calls: list[Callable[[], object]] = [
        lambda: admin.members(group=9),
        lambda: admin.hold_log("x", group=9),
        lambda: admin.transfer_leadership(group=9),
    ]
    for call in calls:
        with pytest.raises(InvalidArgumentError, match="no group 9: the last one is"):
            await call()  # type: ignore[misc]


async def test_a_node_says_so_of_a_group_that_is_nowhere(fleet: Fleet) -> None:
    stub: OperationsStub = fleet.broker(1)  # type: ignore[assignment]
    answer = await stub.GetMembers(operations_pb2.GetMembersRequest(group=9), timeout=5)
    assert "there is no group 9: the last one is" in answer.error.message


async def test_a_queue_is_written_by_the_leader_of_its_group_alone(fleet: Fleet, admin: AsyncAdmin) -> None:
    made = await admin.create_topic("led", GROUPS)
    leading = await leaders(admin)
    for queue, group in enumerate(made.groups):
        for node in NODES:
            error = error_of(await fleet.produce(node, sample_batch(made.topic_id, queue=queue, producer_id=node)))
            if node == leading[group]:
                assert error is None
            else:
                assert isinstance(error, NotLeaderError)
                assert error.leader == leading[group]


# --- who leads


async def test_each_group_is_led_by_another_node_in_turn(admin: AsyncAdmin) -> None:
    await eventually(lambda: all_lead_in_turn(admin, GROUPS), "every group is led by whose turn it is")
