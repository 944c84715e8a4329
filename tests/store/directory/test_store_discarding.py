"""The files of a removed replica are deleted, also after a kill in the middle, and the marks say so."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from store import MemoryDisk, NodeDirectory
from store.disk.memory_disk import Killed

DATA, INDEXES = Path("/data"), Path("/indexes")


def opened(disk: MemoryDisk) -> NodeDirectory:
    return NodeDirectory.open(disk, DATA, cluster="dev", node=1, indexes=INDEXES)


def filled() -> MemoryDisk:
    disk = MemoryDisk()
    directory = opened(disk)
    for shard in (0, 3):
        for parent in (
            directory.log_directory(shard),
            directory.queues_directory(shard) / "7",
            directory.keys_directory(shard),
        ):
            disk.make_directory(parent)
            disk.create(parent / "file", 3)
        disk.create(directory.vote_path(shard), 3)
    directory.close()
    return disk


def files(disk: MemoryDisk, shard: int) -> list[str]:
    return sorted(str(path) for path in disk._files if f"shard-{shard}" in path.parts)


def test_only_the_mark_stays_and_the_shard_is_not_here_any_more() -> None:
    disk = filled()
    others = files(disk, 0)
    directory = opened(disk)
    assert directory.shards() == [0, 3]
    assert not directory.discard_marks(3).was_discarded
    directory.discard_marks(3).discard()
    assert files(disk, 3) == ["/data/shard-3/discarded"]
    assert files(disk, 0) == others
    assert directory.shards() == [0]
    assert directory.discard_marks(3).was_discarded


def test_a_new_replica_is_here_and_the_node_still_knows_that_it_discarded_one() -> None:
    disk = filled()
    directory = opened(disk)
    directory.discard_marks(3).discard()
    disk.create(directory.vote_path(3), 3)
    assert directory.shards() == [0, 3]
    assert directory.discard_marks(3).was_discarded
    directory.discard_marks(3).discard()
    assert files(disk, 3) == ["/data/shard-3/discarded"]


def test_a_deletion_that_was_killed_at_any_step_is_completed_at_the_next_start() -> None:
    steps, was_killed = 0, True
    while was_killed:
        disk = filled()
        marks = opened(disk).discard_marks(3)
        disk.kill_after(steps)
        with suppress(Killed):
            marks.discard()
        was_killed = disk.is_dead
        again = opened(disk.after_kill())
        had_begun = "/data/shard-3/vote" not in files(disk, 3) or "/data/shard-3/discarding" in files(disk, 3)
        assert again.shards() == ([0] if had_begun else [0, 3]), f"killed after {steps} steps"
        steps += 1
    assert steps > 5
