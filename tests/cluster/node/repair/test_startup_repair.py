"""Startup repair while the event loop serves other shards: helper threads read the files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from cluster.node.metrics.node_metrics import Meters
from cluster.node.replica.opening import Opening
from cluster.node.replica.shard_files import ShardFiles
from cluster.node.resources import NodeResources
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from ledger.broker.node_events import NodeEvents
from raft.core.catch_up import CatchUpLimit
from raft.v1 import raft_pb2
from store import MemoryDisk, NodeDirectory
from tests.cluster.node.watched_disk import WatchedDisk
from tests.store.sample_log import append

SETTINGS = NodeSettings(
    node=1,
    cluster="test",
    data=Path("/data"),
    peers={1: "127.0.0.1:1", 2: "127.0.0.1:2"},
    http="",
    segment_bytes=2 << 20,
    max_message_bytes=64 << 10,
)
ENTRIES, DAMAGED = 20, 10
NO_ENTRY = raft_pb2.ReadEntriesResponse(first_index=1, commit=ENTRIES)
DIFFERS = raft_pb2.ReadEntriesResponse(first_index=1, commit=ENTRIES, differs=True)
REFUSES = raft_pb2.ReadEntriesResponse(refusal="node 2 cannot read the entries")
BEGINS_LATER = raft_pb2.ReadEntriesResponse(first_index=ENTRIES + 5, commit=ENTRIES + 9)


class Source:
    """Implements `EntrySource` with answers that the test gives. The last answer is repeated."""

    def __init__(self, answers: list[raft_pb2.ReadEntriesResponse]) -> None:
        self.answers = answers

    async def read(self, node: int, request: raft_pb2.ReadEntriesRequest) -> raft_pb2.ReadEntriesResponse:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def close(self) -> None:
        pass


def resources(disk: MemoryDisk, *answers: raft_pb2.ReadEntriesResponse) -> NodeResources:
    def source(_: Mapping[int, str]) -> Source:
        return Source([*answers])

    directory = NodeDirectory.open(disk, SETTINGS.data, cluster="test", node=1)
    no_transport: Any = None
    runtime = Runtime(no_transport, boot_id=lambda: "boot", entry_source=source)
    meters = Meters(CollectorRegistry(), "test", 1)
    return NodeResources(SETTINGS, disk, directory, meters, runtime, NodeEvents(runtime.now_ms), CatchUpLimit())


@pytest.fixture
def damaged() -> WatchedDisk:
    return damaged_in(DAMAGED)


def damaged_in(entry: int) -> WatchedDisk:
    """Return the disk of a node that was stopped in order, with a log that is damaged in this entry."""
    disk = MemoryDisk()
    node = resources(disk)
    log = ShardFiles.open(0, node, node.directory.snapshots(0), lambda seconds: None, reads_again=True).opened.log
    append(log, *[100] * ENTRIES)
    log.sync()
    node.directory.marks(0).write_clean_mark(log.clean_mark())
    position = log.reading.position(entry)
    found = WatchedDisk.of(disk.after_kill())
    found.flip(node.directory.log_directory(0) / f"{0:020}", position + 90)
    return found


@pytest.mark.parametrize(
    ("entry", "answers"),
    [
        pytest.param(DAMAGED, [NO_ENTRY, BEGINS_LATER], id="the other node first has no entry to give"),
        pytest.param(DAMAGED, [DIFFERS, REFUSES, BEGINS_LATER], id="the other log first differs"),
        pytest.param(ENTRIES, [BEGINS_LATER], id="no entry follows the damage"),
    ],
)
async def test_the_event_loop_reads_no_file_during_a_startup_repair(
    entry: int, answers: list[raft_pb2.ReadEntriesResponse]
) -> None:
    """At last the other log begins after the damage. Then this log is cut, and the whole log is read again."""
    disk = damaged_in(entry)
    opening = Opening(0, resources(disk, *answers), lambda seconds: None)
    disk.in_the_loop.clear()
    files = await opening.finish()
    assert disk.in_the_loop == []
    assert opening.repair is None
    assert files.opened.log.last_index == entry - 1
    files.close()


async def test_the_events_of_the_opening_are_events_of_the_node(damaged: WatchedDisk) -> None:
    node = resources(damaged, BEGINS_LATER)
    files = await Opening(0, node, lambda seconds: None).finish()
    assert [event.kind for event in node.events.after(0)] == ["damage", "repair", "suspect"]
    files.close()


async def test_files_that_open_while_the_node_stops_can_be_closed(damaged: WatchedDisk) -> None:
    node = resources(damaged, BEGINS_LATER)
    opening = Opening(0, node, lambda seconds: None)
    assert opening.repair is not None
    await opening.repair.run()
    damaged.is_opening.clear()
    damaged.gate.clear()
    finishing = asyncio.create_task(opening._open_beside(reads_again=True))
    await asyncio.to_thread(damaged.is_opening.wait, 30)
    assert opening.repair is not None, "until the files are open, other nodes are answered from the repaired log"
    finishing.cancel()
    await asyncio.sleep(0)
    assert not finishing.done()
    damaged.gate.set()
    await asyncio.wait([finishing])
    assert finishing.cancelled()
    assert opening.files is not None
    opening.files.close()
    assert node.directory.marks(0).clean_mark() is not None
