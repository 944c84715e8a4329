"""The scrub and its repair, with a log in memory and without threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.node.repair import scrub, scrub_repairer
from cluster.node.repair.entry_source import EntryReader
from cluster.node.repair.scrub import Scrub
from cluster.node.repair.scrub_repairer import ScrubRepairer
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from ledger.broker.node_events import NodeEvents
from raft.configuration_entry import ConfiguredMember, ShardConfiguration
from raft.v1 import raft_pb2
from store import CommitLog, Flaw, LogDamagedError, LogReader, MemoryDisk, OutOfFilesError, StoreError
from store.log.tail import EMPTY
from store.repair.scrub_repair import ScrubRepair
from tests.store.sample_log import DIRECTORY, SEGMENT, append, open_log

ENTRIES = 20
SETTINGS = NodeSettings(node=1, cluster="test", data=Path("/data"), peers={1: "127.0.0.1:1", 2: "127.0.0.1:2"})


class Beside:
    """Implements `scrub.Beside` in the event loop, and records the log lines of failures."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    async def __call__(self, work: Callable[[], object], when_failed: str) -> None:
        try:
            work()
        except StoreError:
            self.failed.append(when_failed)


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def log(disk: MemoryDisk) -> CommitLog:
    """Return a log of several segments, of which the start read nothing."""
    log = open_log(disk)
    append(log, *[100] * ENTRIES)
    log.sync()
    log.unread_up_to = log.last_index
    return log


def flip(disk: MemoryDisk, log: CommitLog, index: int) -> None:
    position = log.reading.position(index)
    disk.flip(DIRECTORY / f"{position - position % SEGMENT:020}", position % SEGMENT + 90)


def flaws(disk: MemoryDisk, log: CommitLog) -> list[Flaw]:
    files = log.reading.segment_files(log.last_index)
    reader = LogReader(disk, files, segment_bytes=SEGMENT, start=EMPTY)
    return [found for found in reader if isinstance(found, Flaw)]


async def test_a_scrub_that_could_not_read_for_a_moment_begins_again(
    disk: MemoryDisk, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "AGAIN_S", 0.0)
    monkeypatch.setattr(scrub, "PAUSE_S", 0.0)
    flip(disk, log, ENTRIES - 2)
    told, beside = list[Flaw](), Beside()

    async def found(flaw: Flaw) -> None:
        told.append(flaw)

    disk.fail("open", OutOfFilesError(DIRECTORY), times=1)
    await Scrub(disk, log, SEGMENT, found).run(beside)
    assert [flaw.index for flaw in told] == [ENTRIES - 2]
    assert beside.failed == [scrub.NOT_READ]


class Source:
    """Implements `EntrySource`: node 2, which has the same log without damage."""

    def __init__(self, whole: CommitLog) -> None:
        self._whole = EntryReader("test", 0, 2, SEGMENT, whole.reading, whole.last_index, is_damaged=False)

    async def read(self, node: int, request: raft_pb2.ReadEntriesRequest) -> raft_pb2.ReadEntriesResponse:
        return self._whole.answer(request)

    async def close(self) -> None:
        pass


async def test_repaired_entries_are_read_again_in_pieces_between_which_the_event_loop_goes_on(
    disk: MemoryDisk, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The damaged entries can fill a segment of 1 GiB."""
    monkeypatch.setattr(scrub_repairer, "CHECK_BYTES", 300)
    other = open_log(disk.after_kill())
    first, end = log.reading.position(2), log.reading.position(6)
    for index in range(2, 6):
        flip(disk, log, index)
    turn, checks = 0, list[tuple[int, range]]()
    check_whole = ScrubRepair.check_whole

    def checked(repair: ScrubRepair, entries: range) -> None:
        checks.append((turn, entries))
        check_whole(repair, entries)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(ScrubRepair, "check_whole", checked)
    configuration = ShardConfiguration(
        "test",
        {node: ConfiguredMember(b"%016d" % node, SETTINGS.peers[node]) for node in (1, 2)},
        segment_bytes=SEGMENT,
        max_entry_bytes=500,
    )
    failed: list[LogDamagedError] = []
    driver = SimpleNamespace(fail=failed.append, repaired=failed.remove, failure=None)
    replica: Any = SimpleNamespace(shard=0, log=log, driver=driver, newest_configuration=lambda: configuration)
    runtime = Runtime(cast(Any, None), entry_source=lambda _: Source(other))
    repairer = ScrubRepairer(replica, SETTINGS, SEGMENT, runtime, NodeEvents(), lambda count: None)
    turns = asyncio.create_task(count_turns())
    flaw = flaws(disk, log)[0]
    await repairer.repair(Flaw(flaw.kind, flaw.path, first, 2, flaw.reason, end), Beside())
    turns.cancel()
    assert [index for _, entries in checks for index in entries] == [2, 3, 4, 5]
    assert len({turn for turn, _ in checks}) == len(checks) >= 2
    assert failed == []
    assert flaws(disk, log) == []
