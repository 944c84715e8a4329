"""The snapshots of a shard: candidates for its log start, the log start itself, and a snapshot from another node."""

from __future__ import annotations

from pathlib import Path

import google_crc32c
import pytest

from store import Checkpoint, DiskFailedError, MemoryDisk, NoSpaceError, OutOfFilesError, Snapshot, SnapshotOffer
from store.snapshot.snapshots import Snapshots
from tests.store.sample_log import each_kill

SHARD = Path("/data/shard-0")


def snapshot(index: int) -> Snapshot:
    return Snapshot(index, 2, index * 100, index * 7, 1000 + index, b"configuration", b"state %d" % index * 50)


def checkpoint(index: int) -> Checkpoint:
    return Checkpoint(snapshot(index), 0, False, ())


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(SHARD)
    return disk


def kept(disk: MemoryDisk, *indexes: int) -> Snapshots:
    snapshots = Snapshots(disk, SHARD)
    for index in indexes:
        snapshots.keep(snapshot(index))
    return snapshots


def test_candidates_stay_until_the_log_begins_behind_them(disk: MemoryDisk) -> None:
    snapshots = kept(disk, 30, 10, 20)
    assert snapshots.snapshot is None
    for found in (snapshots, Snapshots(disk, SHARD)):
        assert found.candidates() == [10, 20, 30]
        assert [found.candidate(index) for index in (10, 15, 30)] == [snapshot(10), None, snapshot(30)]
    snapshots.begin_behind(snapshot(20))
    for found in (snapshots, Snapshots(disk, SHARD)):
        assert (found.snapshot, found.is_resetting, found.candidates()) == (snapshot(20), False, [30])


def test_a_candidate_that_cannot_be_read_is_none(disk: MemoryDisk) -> None:
    snapshots = kept(disk, 10)
    disk.flip(SHARD / "snapshots" / f"{10:020}", 60)
    assert snapshots.candidate(10) is None


def test_a_candidate_waits_for_no_disk_and_is_durable_with_the_next_checkpoint(disk: MemoryDisk) -> None:
    disk.fail("sync", DiskFailedError(SHARD, "EIO"))
    snapshots = kept(disk, 10, 20)
    with pytest.raises(DiskFailedError):
        snapshots.save(checkpoint(30), snapshots.log_number)
    disk.heal()
    disk.fail("sync", DiskFailedError(SHARD, "EIO"), after=1)
    with pytest.raises(DiskFailedError):
        snapshots.save(checkpoint(30), snapshots.log_number)
    assert snapshots.checkpoint() is None


def test_a_candidate_that_is_gone_needs_no_sync(disk: MemoryDisk) -> None:
    snapshots = kept(disk, 10, 20)
    snapshots.begin_behind(snapshot(20))
    snapshots.save(checkpoint(30), snapshots.log_number)
    assert snapshots.checkpoint() == checkpoint(30)


def test_the_log_begins_only_behind_a_durable_candidate(disk: MemoryDisk) -> None:
    snapshots = kept(disk, 10)
    disk.fail("sync", DiskFailedError(SHARD, "EIO"))
    with pytest.raises(DiskFailedError):
        snapshots.begin_behind(snapshot(10))
    assert (snapshots.snapshot, snapshots.candidates()) == (None, [10])


def test_a_reset_forgets_the_candidates_and_stays_until_it_is_finished(disk: MemoryDisk) -> None:
    snapshots = kept(disk, 10, 90)
    snapshots.begin_reset(snapshot(50))
    assert (snapshots.snapshot, snapshots.is_resetting) == (snapshot(50), True)
    snapshots = Snapshots(disk, SHARD)
    assert (snapshots.snapshot, snapshots.is_resetting) == (snapshot(50), True)
    snapshots.finish_reset()
    for found in (snapshots, Snapshots(disk, SHARD)):
        assert (found.snapshot, found.is_resetting, found.candidates()) == (snapshot(50), False, [])


def test_a_start_that_moves_killed_at_every_byte_is_the_old_one_or_the_new_one(disk: MemoryDisk) -> None:
    kept(disk, 10, 15, 20, 30).begin_behind(snapshot(10))
    found = set()
    for _, survivor in each_kill(disk, lambda disk: Snapshots(disk, SHARD).begin_behind(snapshot(20))):
        snapshots = Snapshots(survivor, SHARD)
        assert snapshots.snapshot is not None
        found.add(snapshots.snapshot.index)
        assert 30 in snapshots.candidates()
    assert found == {10, 20}


def test_the_start_moves_on_a_full_disk(disk: MemoryDisk) -> None:
    """Old entries can be removed only after the start has moved."""
    snapshots = kept(disk, 10, 20)
    for operation in ("create", "write"):
        disk.fail(operation, NoSpaceError(SHARD))
    snapshots.begin_behind(snapshot(20))
    assert Snapshots(disk.after_kill(), SHARD).snapshot == snapshot(20)


@pytest.mark.parametrize("operation", ["list", "unlink"])
def test_the_start_moves_although_old_candidates_cannot_be_removed(disk: MemoryDisk, operation: str) -> None:
    snapshots = kept(disk, 10, 20, 30)
    disk.fail(operation, OutOfFilesError(SHARD), times=1)
    snapshots.begin_behind(snapshot(20))
    assert (snapshots.snapshot, snapshots.candidates()) == (snapshot(20), [10, 30])
    snapshots.begin_behind(snapshot(30))
    assert snapshots.candidates() == []


@pytest.mark.parametrize("after", [0, 1])
def test_a_start_whose_move_was_not_durable_can_be_moved_again(disk: MemoryDisk, after: int) -> None:
    snapshots, moved = kept(disk, 10), snapshot(10)
    disk.fail("sync_directory", OutOfFilesError(SHARD), after=after, times=1)
    with pytest.raises(OutOfFilesError):
        snapshots.begin_behind(moved)
    assert snapshots.snapshot is None
    snapshots.begin_behind(moved)
    for found in (snapshots, Snapshots(disk, SHARD)):
        assert (found.snapshot, found.candidates()) == (moved, [])


def test_a_reset_for_which_there_is_no_room_has_not_begun(disk: MemoryDisk) -> None:
    snapshots = kept(disk, 10)
    disk.fail("create", NoSpaceError(SHARD))
    with pytest.raises(NoSpaceError):
        snapshots.begin_reset(snapshot(50))
    assert not snapshots.is_resetting
    assert snapshots.snapshot is None
    disk.heal()
    disk.fail("sync_directory", NoSpaceError(SHARD))
    with pytest.raises(NoSpaceError):
        snapshots.begin_reset(snapshot(50))
    assert snapshots.is_resetting, "its name is there: a start may find it"


def test_a_base_comes_piece_by_piece_and_what_is_wrong_is_asked_for_again(disk: MemoryDisk) -> None:
    data = snapshot(40).encode()
    offer = SnapshotOffer.of(snapshot(40), data)
    snapshots = Snapshots(disk, SHARD)

    def give(offset: int, piece: bytes, crc: int | None = None) -> int | Snapshot:
        return snapshots.receive(offer, offset, piece, google_crc32c.value(piece) if crc is None else crc)

    assert give(0, b"") == 0
    assert give(0, data[:100]) == 100
    assert give(0, data[:100]) == 100, "what is here already"
    assert give(100, data[100:200], crc=1) == 100, "what is damaged"
    assert give(200, data[200:300]) == 100, "what is not next"
    snapshots = Snapshots(disk, SHARD)
    assert give(100, data[100:]) == snapshot(40)
    assert give(100, data[100:]) == snapshot(40), "asked for again before it is taken"
    snapshots.forget_incoming()
    snapshots.forget_incoming()
    assert give(0, b"") == 0


def test_a_whole_that_is_not_the_offered_one_is_asked_for_from_the_start(disk: MemoryDisk) -> None:
    snapshots = Snapshots(disk, SHARD)
    data = snapshot(40).encode()
    offer = SnapshotOffer(41, 2, len(data), google_crc32c.value(data))
    assert snapshots.receive(offer, 0, data, google_crc32c.value(data)) == 0
    assert snapshots.receive(offer, 0, b"", 0) == 0
