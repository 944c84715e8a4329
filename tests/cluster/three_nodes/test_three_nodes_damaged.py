"""Tests startup repair: a log that was damaged while its node was down is repaired from the other nodes, byte for
byte."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ledger.errors import StorageFailedError
from ledgermq import AsyncProducer
from store import Header
from tests.cluster.acknowledged_load import Load
from tests.cluster.fleet import SEGMENT_BYTES, Fleet, MakeFleet, error_of
from tests.cluster.scrape import not_ready, scrape
from tests.cluster.spoiler import FIELDS, assert_same_bytes, flip, headers, killed, log_directory, segment, values_on
from tests.cluster.waiter import eventually

MESSAGES = 100
VALUE_BYTES = 50_000


def value(number: int) -> bytes:
    return b"%d " % number + bytes(VALUE_BYTES)


@pytest_asyncio.fixture
async def fleet(make_fleet: MakeFleet) -> AsyncIterator[Fleet]:
    """Three nodes with three segments, the last one in use. Each message is an entry."""
    fleet = make_fleet(3)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic()
    await send(fleet, range(MESSAGES))
    await fleet.level()
    yield fleet


async def send(fleet: Fleet, numbers: range) -> None:
    async with AsyncProducer(fleet.bootstrap, linger_ms=0) as producer:
        for number in numbers:
            await producer.send("topic", value(number))


async def assert_whole(fleet: Fleet, messages: int = MESSAGES) -> None:
    """Check that all nodes have the same log, and that no acknowledged message is missing."""
    await fleet.leader()
    status = await fleet.level()
    assert not any(each.suspect for each in (await fleet.statuses()).values())
    for node in fleet.nodes:
        assert await values_on(fleet, node, "topic") == [value(number) for number in range(messages)]
    assert_same_bytes(fleet, fleet.nodes, status.end_position)


async def not_suspect(fleet: Fleet, node: int) -> bool:
    status = await fleet.status(node)
    return status.role in ("follower", "leader") and not status.suspect and status.leader > 0


@pytest.mark.parametrize("stop", ["in order", "by a kill"])
@pytest.mark.parametrize("place", ["sealed", "active", "last"])
async def test_one_flipped_bit(fleet: Fleet, place: str, stop: str) -> None:
    node = await fleet.follower()
    for field in FIELDS:
        await fleet.stop(node)
        found = headers(fleet, node)
        flip(fleet, node, {"sealed": found[10], "active": found[-5], "last": found[-1]}[place], field)
        if stop == "by a kill":
            killed(fleet, node)
        await fleet.start(node)
        await fleet.level()
        await eventually(lambda: not_suspect(fleet, node), "it counts again")
        assert place == "last" or (await scrape(fleet.http(node)))["ledgermq_log_repaired_bytes_total"] > 0
    await assert_whole(fleet)


@pytest.mark.parametrize("change", ["removed", "cut short", "an old copy", "blank"])
async def test_a_whole_segment_file(fleet: Fleet, change: str) -> None:
    node = await fleet.follower()
    await fleet.stop(node)
    path = segment(fleet, node, SEGMENT_BYTES)
    data = path.read_bytes()
    if change == "removed":
        path.unlink()
    else:
        old = data[: headers(fleet, node)[60].position - SEGMENT_BYTES]
        path.write_bytes({"cut short": data[:100_000], "an old copy": old.ljust(len(data), b"\0")}.get(change, b""))
    if change == "blank":
        path.write_bytes(bytes(len(data)))
    killed(fleet, node)
    await fleet.start(node)
    assert (await fleet.status(node)).role == "damaged"
    await assert_whole(fleet)


async def test_a_log_that_is_gone_but_for_its_last_segment(fleet: Fleet) -> None:
    node = await fleet.follower()
    await fleet.stop(node)
    for path in sorted(log_directory(fleet, node).iterdir())[:2]:
        path.unlink()
    await fleet.start(node)
    await assert_whole(fleet)


async def test_under_load(fleet: Fleet) -> None:
    node = await fleet.follower()
    async with Load(",".join(fleet.bootstrap), "topic", random.Random(1)) as load:
        for place in (10, -10):
            await fleet.stop(node)
            flip(fleet, node, headers(fleet, node)[place], "body")
            await load.more(200)
            await fleet.start(node)
            await load.more(200)
    status = await fleet.level()
    acknowledged = [load.acknowledged[0, offset] for offset in sorted(of for _, of in load.acknowledged)]
    for each in fleet.nodes:
        assert (await values_on(fleet, each, "topic"))[MESSAGES:] == acknowledged
    assert_same_bytes(fleet, fleet.nodes, status.end_position)


async def test_behind_a_cut_nothing_is_looked_for_and_the_rest_comes_as_to_any_follower(fleet: Fleet) -> None:
    """Startup repair does not request entries after the end of a cut log: replication sends them, as to any
    follower. Otherwise a log that grows faster than a repair would never be whole."""
    node = await fleet.follower()
    await fleet.stop(node)
    last = headers(fleet, node)[-1]
    killed(fleet, node)
    (fleet.data(node) / "shard-0" / "checkpoint").unlink()
    os.truncate(log_directory(fleet, node) / f"{last.position // SEGMENT_BYTES * SEGMENT_BYTES:020}", 200_000)
    await fleet.start(node)
    await eventually(lambda: not_suspect(fleet, node), "it counts again")
    await assert_whole(fleet)
    assert (await scrape(fleet.http(node)))["ledgermq_log_repaired_bytes_total"] == 0


async def test_two_nodes_that_are_damaged_at_different_places_while_the_third_is_down(fleet: Fleet) -> None:
    """Neither node can start without the other. Each node sends the entries that are whole in its own log."""
    await fleet.stop()
    found = headers(fleet, 1)
    flip(fleet, 1, found[20], "body")
    flip(fleet, 2, found[70], "size")
    await fleet.start(1, 2)
    await fleet.leader()
    await send(fleet, range(MESSAGES, MESSAGES + 5))
    await fleet.start(3)
    await assert_whole(fleet, MESSAGES + 5)


async def test_a_node_that_lost_its_last_entry_is_suspect_until_a_leader_has_given_it_back(fleet: Fleet) -> None:
    """No whole entry follows the damage, so the node may have acknowledged more entries than it finds."""
    await fleet.stop()
    killed(fleet, 1)
    (fleet.data(1) / "shard-0" / "checkpoint").unlink()
    flip(fleet, 1, headers(fleet, 1)[-1], "crc")
    await fleet.start(1, 2)

    async def is_suspect() -> bool:
        return (await fleet.status(1)).suspect

    await eventually(is_suspect, "it neither votes nor counts")
    assert not (fleet.data(1) / "shard-0" / "repair").exists()
    assert (await fleet.status(2)).role != "leader"  # alone
    await fleet.start(3)
    await fleet.leader()
    await eventually(lambda: not_suspect(fleet, 1), "it counts again")
    await assert_whole(fleet)


async def spoil_all(fleet: Fleet) -> Header:
    """Stop all nodes, and damage the same entry on each, in the last segment. Keep a copy of the third node's
    undamaged log."""
    await fleet.stop()
    header = headers(fleet, 1)[-10]
    shutil.copytree(log_directory(fleet, 3), whole_copy(fleet))
    for node in fleet.nodes:
        killed(fleet, node)
        flip(fleet, node, header, "body")
    return header


def whole_copy(fleet: Fleet) -> Path:
    return log_directory(fleet, 3).with_name("whole")


async def restore(fleet: Fleet) -> None:
    """Put the undamaged copy of the log back on the third node, as an operator would."""
    await fleet.stop(3)
    shutil.rmtree(log_directory(fleet, 3))
    whole_copy(fleet).rename(log_directory(fleet, 3))
    await fleet.start(3)


async def test_what_is_damaged_on_all_of_them_is_refused_by_its_place_until_one_has_it(fleet: Fleet) -> None:
    header = await spoil_all(fleet)
    for node in fleet.nodes:
        (fleet.data(node) / "shard-0" / "checkpoint").unlink()
    before = {node: segment(fleet, node, header.position).read_bytes() for node in fleet.nodes}
    await fleet.start()

    async def all_refuse() -> bool:
        reasons = [await not_ready(fleet.http(node)) for node in fleet.nodes]
        where = f"is damaged after entry {header.index - 1}"
        return all(where in reason and where in reason.split("(")[-1] for reason in reasons)

    await eventually(all_refuse, "each says where, and that the others have the same")
    assert [(await fleet.status(node)).role for node in fleet.nodes] == ["damaged"] * 3
    assert (await scrape(fleet.http(1)))["ledgermq_log_damaged"] == 1
    assert {node: segment(fleet, node, header.position).read_bytes() for node in fleet.nodes} == before
    await restore(fleet)
    await assert_whole(fleet)


async def test_all_else_can_be_read_where_a_checkpoint_lies_behind_the_damage(fleet: Fleet) -> None:
    header = await spoil_all(fleet)
    await fleet.start()

    async def all_serve() -> bool:
        reasons = [await not_ready(fleet.http(node)) for node in fleet.nodes]
        return all(f"Entries {header.index} to {header.index} cannot be read" in reason for reason in reasons)

    await eventually(all_serve, "each says what it does not serve")
    assert {status.role for status in (await fleet.statuses()).values()} == {"follower"}
    for node in fleet.nodes:
        refused = error_of(await fleet.fetch(node, header.topic_id, header.base_offset))
        assert isinstance(refused, StorageFailedError)
        for offset in (0, header.base_offset - 1, header.base_offset + 1, MESSAGES - 1):
            assert (await fleet.fetch(node, header.topic_id, offset)).batches[0].base_offset == offset
    await restore(fleet)
    await assert_whole(fleet)
