"""The scrub finds damage that the start did not read. The node stops leading, refuses reads of the damaged entries, and
repairs them from the other nodes."""

from __future__ import annotations

from functools import partial

import pytest

from ledger.errors import StorageFailedError
from ledger.v1 import inspection_pb2
from ledgermq import AsyncAdmin, AsyncProducer
from store.log import recovery
from store.log.entry import Header
from tests.cluster.fleet import SEGMENT_BYTES, Fleet, MakeFleet, error_of
from tests.cluster.scrape import get, is_ready, not_ready, scrape
from tests.cluster.spoiler import FIELDS, assert_same_bytes, flip, headers, segment
from tests.cluster.waiter import eventually, until

pytestmark = pytest.mark.real

MESSAGES = 200


@pytest.fixture(autouse=True)
def little_is_read_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "READ_AGAIN_ENTRIES", 3)
    monkeypatch.setattr("cluster.node.repair.scrub.PIECE_ENTRIES", 10)


async def stopped_with_messages(make_fleet: MakeFleet, nodes: int = 1) -> Fleet:
    fleet = make_fleet(nodes)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    async with AsyncProducer(fleet.bootstrap, linger_ms=0) as producer:
        for number in range(MESSAGES):
            await producer.send("topic", b"%d" % number, key=f"key-{number}")
    await fleet.level()
    await fleet.stop()
    return fleet


def spoiled(fleet: Fleet, *nodes: int, field: str = "body") -> Header:
    """Damage one entry in the middle of the log on `nodes`. Return its header."""
    header = headers(fleet, 1)[MESSAGES // 2]
    for node in nodes:
        flip(fleet, node, header, field)
    return header


async def test_damage_that_a_start_did_not_look_for_is_found(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = await stopped_with_messages(make_fleet)
    path = segment(fleet, 1, spoiled(fleet, 1).position)
    await fleet.start()

    async def gives_up() -> bool:
        return str(path) in caplog.text and (await fleet.status(1)).role == "follower"

    await eventually(gives_up, "the node has found the damage, and leads no more")
    assert str(path) in await not_ready(fleet.http(1))


async def test_a_log_without_damage_is_read_to_where_the_start_went_on(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = await stopped_with_messages(make_fleet)
    caplog.set_level("INFO")
    await fleet.start()
    await fleet.leader()

    async def told() -> bool:
        return "the log was read up to entry" in caplog.text

    await eventually(told, "all of it was read")
    assert "damaged" not in caplog.text


@pytest.mark.parametrize("field", FIELDS)
async def test_it_is_repaired_in_its_place_while_the_node_works(
    make_fleet: MakeFleet, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = await stopped_with_messages(make_fleet, 3)
    before = segment(fleet, 2, 0).read_bytes()
    header = spoiled(fleet, 2, field=field)
    assert segment(fleet, 2, 0).read_bytes() != before
    await fleet.start()
    repaired = f"entry {header.index} is repaired"
    await until(lambda: repaired in caplog.text, "the node has repaired what it found")
    assert segment(fleet, 2, 0).read_bytes()[: header.end] == before[: header.end]
    await fleet.leader()
    status = await fleet.level()
    assert_same_bytes(fleet, fleet.nodes, status.end_position)
    await eventually(lambda: is_ready(fleet.http(2)), "it is a node as any other")
    assert (await scrape(fleet.http(2)))["ledgermq_log_damaged"] == 0
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.transfer_leadership(to=2)  # which ends when it leads


async def test_damage_that_a_read_finds_later_is_repaired_too(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start has read the whole log, so the scrub reads nothing."""
    monkeypatch.setattr(recovery, "READ_AGAIN_ENTRIES", 20_000)
    fleet = await stopped_with_messages(make_fleet, 3)
    await fleet.start()
    await fleet.leader()
    header = headers(fleet, 1)[MESSAGES // 2]
    request = inspection_pb2.ListEntriesRequest(shard=0, last=header.index, count=1)
    for node in (2, 3):
        caplog.clear()
        flip(fleet, node, header, "magic")
        if node == 2:
            refused = error_of(await fleet.stub(node).ListEntries(request))
        else:
            refused = error_of(await fleet.fetch(node, header.topic_id, header.base_offset))
        assert isinstance(refused, StorageFailedError)
        await until(lambda: f"entry {header.index} is repaired" in caplog.text, "the node has repaired what it found")
        assert str(segment(fleet, node, header.position)) in caplog.text
        await eventually(partial(is_ready, fleet.http(node)), "it is a node as any other")
        (entry,) = (await fleet.stub(node).ListEntries(request)).entries
        assert entry.index == header.index
    status = await fleet.level()
    assert_same_bytes(fleet, fleet.nodes, status.end_position)


async def test_what_is_damaged_on_all_nodes_is_not_read_and_all_else_is(make_fleet: MakeFleet) -> None:
    fleet = await stopped_with_messages(make_fleet, 3)
    header = spoiled(fleet, *fleet.nodes)
    whole = segment(fleet, 3, 0).read_bytes()
    await fleet.start()

    async def all_say_so() -> bool:
        reasons = [await not_ready(fleet.http(node)) for node in fleet.nodes]
        return all(f"Entries {header.index} to {header.index} cannot be read" in reason for reason in reasons)

    await eventually(all_say_so, "each node has found the damage, and says where it is")
    assert {status.role for status in (await fleet.statuses()).values()} == {"follower"}
    for node in fleet.nodes:
        refused = error_of(await fleet.fetch(node, header.topic_id, header.base_offset))
        assert isinstance(refused, StorageFailedError)
        assert f"offset {header.base_offset} of queue 0" in refused.message
        before = await fleet.fetch(node, header.topic_id, header.base_offset - 1)
        assert [batch.base_offset for batch in before.batches] == [header.base_offset - 1]
        behind = await fleet.fetch(node, header.topic_id, header.base_offset + 1)
        assert len(behind.batches) == MESSAGES - header.base_offset - 1
        assert (await get(fleet.http(node), f"/shards/0/segments/{0:020}"))[0] == 503
    await fleet.stop(3)
    assert segment(fleet, 3, 0).read_bytes() == whole  # nothing was changed
    flip(fleet, 3, header, "body")
    await fleet.start(3)
    await fleet.leader()
    status = await fleet.level()
    assert_same_bytes(fleet, fleet.nodes, status.end_position)


async def test_a_log_that_begins_later_is_not_taken_for_damaged(
    make_fleet: MakeFleet, caplog: pytest.LogCaptureFixture
) -> None:
    """The log starts in a file whose kept part is blank; the first entry is in the next file."""
    fleet = make_fleet(1, retention_bytes=SEGMENT_BYTES)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.send_many("topic", [bytes(50_000)] * (4 * SEGMENT_BYTES // 50_000))
    first_segment = fleet.data(1) / "shard-0" / "log" / f"{0:020}"
    await until(lambda: not first_segment.exists(), "the log begins later")
    await fleet.stop()
    fleet.override(1, retention_bytes=0)
    caplog.set_level("INFO")
    await fleet.start()
    await until(lambda: "the log was read up to entry" in caplog.text, "all of it was read")
    assert "damaged" not in caplog.text
    await fleet.leader()
