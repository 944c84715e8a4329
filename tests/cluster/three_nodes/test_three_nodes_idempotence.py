"""Tests a producer that loses answers and sends the same bytes again: it gets the first offset, and the log has one
copy. The test calls gRPC itself, so that the test decides which answers are dropped and which requests are repeated.
"""

from __future__ import annotations

import asyncio

from ledger.errors import NoLeaderError, NotLeaderError
from ledger.v1 import broker_pb2
from ledgermq import AsyncConsumer
from tests.cluster.fleet import Fleet, MakeFleet, error_of, sample_batch
from tests.cluster.gated_disk import GatedDisk
from tests.cluster.scrape import scrape
from tests.cluster.waiter import eventually

VALUES = [b"one", b"two", b"three"]


async def gated(make_fleet: MakeFleet) -> tuple[Fleet, dict[int, GatedDisk], int]:
    """Start three nodes whose disks the test can hold, so that followers do not acknowledge. Create a topic."""
    disks = {node: GatedDisk() for node in (1, 2, 3)}
    fleet = make_fleet(disks=disks, flush="sync")
    await fleet.start()
    await fleet.leader()
    topic = await fleet.create_topic()
    await fleet.level()
    return fleet, disks, topic


async def sent_and_dropped(fleet: Fleet, node: int, *batches: bytes) -> None:
    """Send the batches to this node, wait until each is an entry of its log, and drop the stream before the
    answers."""
    before = (await fleet.status(node)).last_index
    stream = fleet.stream(node)
    await stream.send(*batches)

    async def appended() -> bool:
        return (await fleet.status(node)).last_index == before + len(batches)

    await eventually(appended, "the batches are appended")
    stream.drop()


async def every_copy(fleet: Fleet, topic: int) -> list[list[bytes]]:
    """Return all values of queue 0 from each running node."""
    await fleet.level()
    copies = []
    for node in fleet.running:
        end = (await fleet.fetch(node, topic, 0)).end_offset
        async with AsyncConsumer("topic", bootstrap_servers=fleet.bootstrap, node=node) as consumer:
            copies.append([(await anext(consumer)).value for _ in range(end)])
    return copies


def is_repeat_of(answer: broker_pb2.ProduceResult, first: broker_pb2.ProduceResult) -> bool:
    same = (answer.base_offset, answer.term, answer.append_time_ms)
    return answer.duplicate and same == (first.base_offset, first.term, first.append_time_ms)


async def test_again_to_the_same_leader(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    await fleet.start()
    leader = await fleet.leader()
    topic = await fleet.create_topic()
    batches = [sample_batch(topic, VALUES, first_sequence=3 * number) for number in range(4)]
    await sent_and_dropped(fleet, leader, *batches)

    stream = fleet.stream(leader)
    for _ in range(3):
        await stream.send(*batches)
        answers = await stream.answer()
        assert [answer.base_offset for answer in answers] == [0, 3, 6, 9]
        assert all(answer.duplicate for answer in answers)
    fresh = await stream.produce(sample_batch(topic, VALUES, first_sequence=12))
    stream.drop()
    assert (fresh.base_offset, fresh.duplicate) == (12, False)
    assert await every_copy(fleet, topic) == [VALUES * 5] * 3


async def test_again_after_each_of_several_changes_of_leader(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    await fleet.start()
    leader = await fleet.leader()
    topic = await fleet.create_topic()
    batch = sample_batch(topic, VALUES)
    first = await fleet.produce(leader, batch)
    assert not first.duplicate
    for change in range(3):
        old = leader
        await fleet.stop(old)
        leader = await fleet.leader()
        again = await fleet.produce(leader, batch)
        assert error_of(again) is None
        assert is_repeat_of(again, first)
        next_one = await fleet.produce(leader, sample_batch(topic, VALUES, first_sequence=3 * (change + 1)))
        assert (next_one.base_offset, next_one.duplicate) == (3 * (change + 1), False)
        await fleet.start(old)
    assert await every_copy(fleet, topic) == [VALUES * 4] * 3


async def test_again_after_a_restart_of_all(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    await fleet.start()
    leader = await fleet.leader()
    topic = await fleet.create_topic()
    first = await fleet.produce(leader, sample_batch(topic, VALUES))
    await fleet.stop()
    await fleet.start()
    again = await fleet.produce(await fleet.leader(), sample_batch(topic, VALUES))
    assert is_repeat_of(again, first)


async def test_again_while_the_first_is_not_committed_yet(make_fleet: MakeFleet) -> None:
    fleet, disks, topic = await gated(make_fleet)
    leader = await fleet.leader()
    followers = [node for node in fleet.nodes if node != leader]
    before = (await fleet.status(leader)).last_index
    for node in followers:
        disks[node].hold()
    batch = sample_batch(topic, VALUES)
    await sent_and_dropped(fleet, leader, batch)
    streams = [fleet.stream(leader) for _ in range(3)]
    waiting = [asyncio.create_task(stream.produce(batch)) for stream in streams]

    async def all_have_come_in() -> bool:
        return (await scrape(fleet.http(leader)))["ledgermq_produce_duplicates_total"] == len(streams)

    await eventually(all_have_come_in, "the leader has seen all repeats")
    assert not any(task.done() for task in waiting)  # what is not committed may still be lost
    assert (await fleet.status(leader)).last_index == before + 1
    for node in followers:
        disks[node].release()
    answers = await asyncio.gather(*waiting)
    assert {(answer.base_offset, answer.duplicate) for answer in answers} == {(0, True)}
    for stream in streams:
        stream.drop()
    assert await every_copy(fleet, topic) == [VALUES] * 3


async def test_again_after_the_leader_died_with_it_uncommitted_on_all(make_fleet: MakeFleet) -> None:
    """The followers have written the batch but not acknowledged it. The next leader commits the batch and
    recognises the repeated batch."""
    fleet, disks, topic = await gated(make_fleet)
    old = await fleet.leader()
    others = [node for node in fleet.nodes if node != old]
    for node in others:
        disks[node].hold()
    batch = sample_batch(topic, VALUES)
    await sent_and_dropped(fleet, old, batch)
    index = (await fleet.status(old)).last_index

    async def everywhere() -> bool:
        return all([(await fleet.status(node)).last_index == index for node in others])

    await eventually(everywhere, "the others have it written")
    await fleet.stop(old)
    for node in others:
        disks[node].release()
    again = await fleet.produce(await fleet.leader(), batch)
    assert error_of(again) is None
    assert (again.base_offset, again.duplicate) == (0, True)
    await fleet.start(old)
    assert await every_copy(fleet, topic) == [VALUES] * 3


async def test_again_after_the_leader_died_with_the_only_copy(make_fleet: MakeFleet) -> None:
    """Only the old leader has the batch. For the next leader the repeated batch is new, and the old leader's copy
    is cut."""
    fleet = make_fleet()
    await fleet.start()
    old = await fleet.leader()
    others = [node for node in fleet.nodes if node != old]
    topic = await fleet.create_topic()
    committed = await fleet.produce(old, sample_batch(topic, VALUES))
    await fleet.level()
    await fleet.stop(*others)
    batch = sample_batch(topic, [b"once", b"only"], first_sequence=3)
    stream = fleet.stream(old)
    refused = await stream.produce(batch)  # it lost its majority, and says so: the batch may still commit or not
    assert isinstance(error_of(refused), (NotLeaderError, NoLeaderError))
    stream.drop()
    await fleet.stop(old)

    await fleet.start(*others)
    again = await fleet.produce(await fleet.leader(), batch)
    assert error_of(again) is None
    assert (again.base_offset, again.duplicate) == (committed.base_offset + 3, False)
    await fleet.start(old)
    assert await every_copy(fleet, topic) == [[*VALUES, b"once", b"only"]] * 3
    repeat = await fleet.produce(await fleet.leader(), batch)
    assert is_repeat_of(repeat, again)
