"""A removed replica is stopped and deleted while the event loop serves other shards."""

from __future__ import annotations

import pytest

from cluster.node.formation.first_voters import FirstVoters
from cluster.node.replica import discarding
from cluster.node.replica.discarding import DiscardedReplicas
from store import MemoryDisk
from tests.cluster.node.formation.test_node_first_start_kills import SETTINGS, begin
from tests.cluster.node.watched_disk import WatchedDisk
from tests.cluster.waiter import until

SHARD = 2
ALONE = FirstVoters((SETTINGS.node,), lambda node: SETTINGS.peers[node])


async def test_the_event_loop_flushes_and_writes_nothing_for_files_that_are_deleted_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discarding, "GRACE_S", 0.0)
    disk = WatchedDisk()
    shard = await begin(disk, SHARD, ALONE)
    replica = shard.replica
    assert replica is not None
    await until(lambda: replica.knows_the_end and replica.driver.applied > 0, "the replica leads and has applied")
    directory, steps = shard._node.directory, list[str]()
    discarded = DiscardedReplicas(
        directory,
        shard._node.runtime,
        lambda number: steps.append(f"take out {number}"),
        lambda number: steps.append(f"deleted {number}"),
    )
    disk.in_the_loop.clear()
    await discarded.discard(shard, lambda: True)
    assert disk.in_the_loop == []
    assert steps == [f"take out {SHARD}", f"deleted {SHARD}"]
    assert directory.discard_marks(SHARD).was_discarded
    assert directory.shards() == []


async def test_a_replica_that_is_abandoned_can_be_opened_again() -> None:
    """For example, the disk fails before its files are deleted. The next start treats the end as a kill."""
    disk = MemoryDisk()
    shard = await begin(disk, SHARD, ALONE)
    await shard.abandon()
    assert shard._node.directory.marks(SHARD).clean_mark() is None
    again = await begin(disk.after_kill(), SHARD, ALONE)
    assert again.suspect() is None
    await again.stop()
