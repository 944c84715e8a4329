"""The present program reads what earlier programs wrote: every file, the replayed state, and the messages.

`check_replica` replays the log with the present rules, and compares the result with the checkpoint and the snapshot of
the old program. So a rule that changes an older feature level fails here.
"""

from __future__ import annotations

import json
import struct
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cluster.node.runtime import now_ms
from ledger.state import State
from ledger.state.encoding import VERSION_0, VERSION_1, VERSION_2, VERSION_3, VERSION_4
from ledger.state.feature_levels import LATEST_LEVEL, MESSAGE_IDS, SHARED_GROUPS, TIMED, TRANSACTIONS
from ledger.topics import TopicType
from ledger.validation.replica_check import Checked, check_replica
from ledger.validation.sources.place import places_of
from ledgermq import AsyncProducer
from raft.configuration_entry import decode_configuration
from store import Checkpoint, PosixReadOnlyDisk, Snapshot
from store.directory.vote_file import examined
from store.disk.disk import read_file
from tests.cluster.fleet import Fleet
from tests.cluster.waiter import eventually
from tests.golden.content import read
from tests.golden.make import HERE, PROGRAMS, SETTINGS

LEVELS = sorted(int(path.name.split("-")[1].split(".")[0]) for path in HERE.glob("level-*.tar.xz"))
STATE_VERSIONS = {0: VERSION_0, 1: VERSION_1, 2: VERSION_2, 3: VERSION_3, 4: VERSION_4, 5: 11}
DISK = PosixReadOnlyDisk()


def unpack(level: int, directory: Path) -> dict[str, Any]:
    """Unpack the data directory of the level, `node-1`, and return what the old program read from it."""
    with tarfile.open(HERE / f"level-{level}.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    content: dict[str, Any] = json.loads((directory / "content.json").read_text())
    return content


def test_every_finished_level_has_a_golden_directory() -> None:
    """A level is finished when the next one begins: make its directory then, with the last program that knows it."""
    assert set(range(LATEST_LEVEL)) <= set(LEVELS), "python -m tests.golden.make LEVEL COMMIT"
    assert set(PROGRAMS) == set(LEVELS) == set(STATE_VERSIONS)


@pytest.mark.parametrize("level", LEVELS)
def test_every_file_is_read_and_the_replayed_state_is_that_of_the_old_program(level: int, tmp_path: Path) -> None:
    unpack(level, tmp_path)
    (place,) = places_of(tmp_path / "node-1")
    checked = Checked()
    assert list(check_replica(place, checked)) == []
    assert (checked.entries > 40, checked.units > 40, checked.keys >= 40) == (True, True, True), checked

    shard = tmp_path / "node-1" / "shard-0"
    vote, flaws = examined(DISK, shard / "vote")
    assert vote is not None
    assert (vote.voted_for, flaws) == (1, [])
    checkpoint = Checkpoint.decode(read_file(DISK, shard / "checkpoint"))
    begin = Snapshot.decode(read_file(DISK, shard / "snapshot"))
    assert checkpoint.index == checked.last_index, "the orderly stop took a checkpoint of the last entry"
    assert 0 < begin.index < checkpoint.index
    for snapshot in (begin, checkpoint.snapshot):
        assert decode_configuration(snapshot.configuration).cluster == "golden"
        state = State.decode(snapshot.state)
        assert state.feature_level == level
        assert struct.unpack_from("<I", snapshot.state, 4) == (STATE_VERSIONS[level],)
        assert state.encode() == snapshot.state, "a state of an old level is written as the old program wrote it"


@pytest.mark.parametrize("level", LEVELS)
def test_a_snapshot_has_what_its_level_brought(level: int, tmp_path: Path) -> None:
    unpack(level, tmp_path)
    checkpoint = Checkpoint.decode(read_file(DISK, tmp_path / "node-1" / "shard-0" / "checkpoint"))
    state = State.decode(checkpoint.snapshot.state)
    assert state.topics.named("orders") is not None
    assert state.topics.named("gone") is None
    assert [hold.name for hold in state.holds] == ["archive"]
    assert sorted(state.access.users) == (["admin", "billing"] if level >= 2 else [])
    if level >= 2:
        assert {(rule.action, rule.resource, rule.deny) for rule in state.access.rules("billing")} == {
            ("subscribe", "topic:orders", False),
            ("subscribe", "topic:secret-*", True),
        }
    # Of two waiting messages, one was canceled.
    assert state.timed_end() == (2 if level >= TIMED else 0)
    assert [half.group for half in state.transactions.waiting.values()] == ["checkout"] * (level >= TRANSACTIONS)
    assert len(state.transactions.outcomes) == (level >= TRANSACTIONS)
    assert [mode.consumer_group for mode in state.shared.modes] == ["couriers"] * (level >= SHARED_GROUPS)
    steps = state.topics.named("steps")
    assert (steps is not None and steps.type is TopicType.FIFO) == (level >= 5)
    assert bool(state.message_ids.encoded()) == (level >= MESSAGE_IDS)


@pytest.mark.real
@pytest.mark.parametrize("days", [0, 400])
@pytest.mark.parametrize("level", LEVELS)
async def test_a_node_starts_on_the_data_and_goes_on(level: int, days: int, tmp_path: Path) -> None:
    """So many days from now on: the archives are read for years."""
    # The messages are as old as the archive.
    fleet = Fleet(tmp_path, 1, clocks={1: lambda: now_ms() + days * 86_400_000}, **SETTINGS, retention_hours=0)
    expected = unpack(level, tmp_path)
    try:
        await fleet.start()
        await _reads_the_same(fleet, expected)
    finally:
        await fleet.close()


async def _reads_the_same(fleet: Fleet, expected: dict[str, Any]) -> None:
    async def reached() -> bool:
        return (await fleet.status(1)).feature_level == LATEST_LEVEL

    await eventually(reached, "the level rises")
    found = json.loads(json.dumps(await read(fleet.address(1))))
    for topic, messages in expected["messages"].items():
        # The waiting message is delivered to queue 0 when its time has come, weeks after the archive was made.
        assert [each for each in found["messages"][topic] if each in messages] == messages
        assert len(found["messages"][topic]) - len(messages) in ((0, 1) if topic == "orders" else (0,))
    assert found["billing"] == expected["billing"]
    assert set(found["holds"]) <= set(expected["holds"]), "a hold ends after 40 days"
    assert all(topic in found["topics"] for topic in expected["topics"])
    ends = [offset for queue, offset, *_ in found["messages"]["orders"] if queue == 1]
    async with AsyncProducer(fleet.bootstrap) as producer:
        assert (await producer.send("orders", b"after the upgrade", queue=1)).offset == max(ends) + 1
