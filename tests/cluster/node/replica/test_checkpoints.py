"""A checkpoint that fails is tried again, with everything that belongs to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from cluster.node.replica import upkeep
from cluster.node.replica.checkpoints import CheckpointDraft, Checkpoints
from cluster.node.replica.local_replica import LocalReplica
from cluster.node.replica.shard_files import ShardFiles
from ledger.broker.broker_replica import BrokerReplica
from store import Checkpoint, DiskFailedError, MemoryDisk, NoSpaceError, OutOfFilesError, StoreError
from tests.cluster.node.formation.test_node_first_start_kills import begin
from tests.cluster.waiter import until

PATH = Path("/data")
TOPIC = 9


class Running:
    """A running replica of shard 0, whose checkpoints the test writes."""

    def __init__(self, disk: MemoryDisk, shard: LocalReplica) -> None:
        assert shard.replica is not None
        assert shard._opening.files is not None
        self.disk = disk
        self.replica: BrokerReplica = shard.replica
        self.files: ShardFiles = shard._opening.files
        self.checkpoints: Checkpoints = self.files.checkpoints
        self._queues = shard._node.directory.queues_directory(0)

    def write(self) -> None:
        draft = self.checkpoints.draft(self.replica)
        assert draft is not None
        self.checkpoints.write(draft, self.replica.log.sync)

    def fail(self, error: StoreError) -> None:
        """Write a checkpoint, and let the last step fail, in which the new checkpoint replaces the old one."""
        self.disk.fail("rename", error, times=1)
        with pytest.raises(type(error)):
            self.write()

    def queue_files(self) -> list[str]:
        return [*self.disk.list(self._queues / f"{TOPIC}-0")]


@pytest_asyncio.fixture
async def running() -> AsyncIterator[Running]:
    disk = MemoryDisk()
    shard = await begin(disk)
    made = Running(disk, shard)
    await until(lambda: made.replica.knows_the_end and made.replica.driver.applied > 0, "the replica leads")
    yield made
    await shard.stop()


async def test_a_checkpoint_that_had_no_room_is_tried_again_without_a_new_entry(running: Running) -> None:
    running.fail(NoSpaceError(PATH))
    running.write()
    assert running.checkpoints.draft(running.replica) is None


async def test_the_files_of_a_deleted_queue_go_with_the_next_checkpoint_if_one_fails(running: Running) -> None:
    """For example, the disk is full, so an operator deletes a topic."""
    running.files.queues.get(TOPIC, 0).put(0, 100, 50, None, 3)
    running.files.queues.drop(TOPIC)
    running.fail(NoSpaceError(PATH))
    assert running.queue_files() != []
    running.write()
    assert running.queue_files() == []


async def test_a_checkpoint_is_not_tried_again_on_a_disk_that_has_failed(running: Running) -> None:
    running.fail(DiskFailedError(PATH, "Input/output error"))
    assert running.checkpoints.draft(running.replica) is None


async def test_a_checkpoint_of_a_log_that_was_replaced_meanwhile_removes_no_files(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop wipes the indexes of the old log at the same time."""
    running.files.queues.get(TOPIC, 0).put(0, 100, 50, None, 3)
    running.files.queues.drop(TOPIC)
    snapshots = running.files.opened.snapshots
    save = snapshots.save

    def replaced_after(checkpoint: Checkpoint, log_number: int) -> None:
        save(checkpoint, log_number)
        snapshots._log_number += 1

    monkeypatch.setattr(snapshots, "save", replaced_after)
    running.write()
    assert running.queue_files() != []


async def test_a_last_checkpoint_that_cannot_be_drafted_does_not_hold_up_the_orderly_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = MemoryDisk()
    shard = await begin(disk)
    monkeypatch.setattr(Checkpoints, "draft", Draft(times=1))
    await shard.stop()
    assert shard._node.directory.marks(0).clean_mark() is not None
    assert "the last checkpoint could not be written" in caplog.text


async def test_a_checkpoint_that_cannot_be_drafted_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upkeep, "INTERVAL_S", 0.01)
    draft = Draft(times=2)
    monkeypatch.setattr(Checkpoints, "draft", draft)
    disk = MemoryDisk()
    shard = await begin(disk)
    try:
        assert shard._opening.files is not None
        snapshots = shard._opening.files.opened.snapshots
        await until(lambda: snapshots.checkpoint() is not None, "a checkpoint is written")
    finally:
        await shard.stop()
    assert draft.times == 0
    assert upkeep.NO_CHECKPOINT in caplog.text


class Draft:
    """Implements `Checkpoints.draft`, and finds too many open files so many times first."""

    def __init__(self, times: int) -> None:
        self.times = times
        self._draft = Checkpoints.draft

    def __get__(self, checkpoints: Checkpoints, kind: type) -> Callable[[BrokerReplica], CheckpointDraft | None]:
        def draft(replica: BrokerReplica) -> CheckpointDraft | None:
            if self.times:
                self.times -= 1
                raise OutOfFilesError(PATH)
            return self._draft(checkpoints, replica)

        return draft
