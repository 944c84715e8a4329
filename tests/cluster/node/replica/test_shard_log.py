"""The log of a shard: after a crash of the machine, the setting `flush` of the run that crashed says whether the node
is a suspect.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from prometheus_client import CollectorRegistry

from cluster.node.metrics.node_metrics import Meters
from cluster.node.replica.shard_files import ShardFiles
from cluster.node.resources import NodeResources
from cluster.node.runtime import Runtime
from cluster.node.settings import NodeSettings
from ledger.broker.node_events import NodeEvents
from raft.core.catch_up import CatchUpLimit
from raft.transport.control_streams import ControlStreams
from raft.transport.grpc_transport import GrpcTransport
from store import MemoryDisk, NodeDirectory, Suspect
from tests.store.sample_log import append

Flush = Literal["async", "sync"]
BOOT = Path("/data/shard-0/boot")


@dataclass
class Run:
    """One run of a node with one shard, until the process is killed."""

    disk: MemoryDisk
    boot_id: str
    flush: Flush

    def __post_init__(self) -> None:
        settings = NodeSettings(
            node=1, cluster="test", data=Path("/data"), peers={1: "127.0.0.1:1"}, http="",
            segment_bytes=2 << 20, max_message_bytes=64 << 10, flush=self.flush,
        )  # fmt: skip
        self.directory = NodeDirectory.open(self.disk, settings.data, cluster="test", node=1)
        streams = ControlStreams("test", 1)
        runtime = Runtime(
            lambda me, peers, receiver: GrpcTransport(me, peers, receiver, streams), boot_id=lambda: self.boot_id
        )
        meters, events = Meters(CollectorRegistry(), "test", 1), NodeEvents(runtime.now_ms)
        node = NodeResources(settings, self.disk, self.directory, meters, runtime, events, CatchUpLimit())
        snapshots = self.directory.snapshots(0)
        self.log = ShardFiles.open(0, node, snapshots, lambda seconds: None, reads_again=True).opened.log

    @property
    def suspect(self) -> Suspect | None:
        return self.directory.marks(0).suspect()

    def then(self, boot_id: str, flush: Flush) -> Run:
        """Append an entry, kill the process and start it again."""
        append(self.log, 20)
        return Run(self.disk.after_kill(), boot_id, flush)


@pytest.fixture
def before() -> MemoryDisk:
    """Return the disk of a node whose first run ended in order."""
    run = Run(MemoryDisk(), "a", "async")
    append(run.log, 20)
    run.log.sync()
    run.directory.marks(0).write_clean_mark(run.log.clean_mark())
    return run.disk.after_kill()


@pytest.mark.parametrize("after", ["async", "sync"])
@pytest.mark.parametrize(("crashed", "suspect"), [("async", True), ("sync", False)])
def test_the_run_that_lost_power_says_whether_the_node_is_a_suspect(
    before: MemoryDisk, crashed: Flush, suspect: bool, after: Flush
) -> None:
    again = Run(before, "a", crashed).then("b", after)
    assert (again.suspect is not None) is suspect


def test_after_a_kill_the_new_setting_counts_because_the_start_flushes_the_log(before: MemoryDisk) -> None:
    again = Run(before, "a", "async").then("a", "sync")
    assert again.suspect is None
    assert again.then("b", "async").suspect is None


def test_a_record_of_an_earlier_version_counts_as_async(before: MemoryDisk) -> None:
    run = Run(before, "a", "sync")
    run.disk.unlink(BOOT)
    run.disk.create(BOOT, 0).write(0, b'{"boot_id": "a"}\n')
    assert run.then("b", "sync").suspect is not None


@pytest.mark.parametrize(("flush", "suspect"), [("async", True), ("sync", False)])
def test_the_setting_is_known_after_a_failed_sync(before: MemoryDisk, flush: Flush, suspect: bool) -> None:
    run = Run(before, "a", flush)
    run.directory.marks(0).distrust_page_cache()
    again = run.then("a", "async")
    assert (again.suspect is not None) is suspect
    assert again.directory.marks(0).last_flush() == "async"
    assert not again.disk.exists(BOOT.with_name("distrusted"))
