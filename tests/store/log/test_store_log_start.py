"""A log that begins after a snapshot: its start moves on, it is reset, a replica joins late; kills at every byte."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from store import (
    UNREADABLE,
    CommitLog,
    DamagedError,
    Disk,
    DiskFailedError,
    EntryDraft,
    EntryKind,
    LogSettings,
    MemoryDisk,
    OutOfFilesError,
    PosixDisk,
    PreviousRun,
    Snapshot,
    SnapshotFile,
)
from store.disk.disk import replace_file
from store.disk.memory_disk import Killed
from store.log.entry import EntryFlawError
from tests.store.power_disk import PowerDisk
from tests.store.sample_log import DIRECTORY, SEGMENT, append, content, each_kill, open_log

pytestmark = pytest.mark.long

SNAPSHOT_PATH = Path("/data/base")
SIZES = (20, 300, 0, 500, 944, 1, 700, 200, 60, 900)

Entries = list[tuple[int, int, int, bytes]]


def start(disk: MemoryDisk, *, after_crash: bool = False) -> CommitLog:
    """Open the log as a node does."""
    snapshot_file = SnapshotFile(disk, SNAPSHOT_PATH)
    log = CommitLog.open(
        disk,
        DIRECTORY,
        LogSettings(segment_bytes=SEGMENT),
        PreviousRun(snapshot=snapshot_file.snapshot, is_resetting=snapshot_file.is_resetting, has_crashed=after_crash),
    )
    log.sync()
    snapshot_file.finish_reset()
    return log


def grown(disk: MemoryDisk | None = None, sizes: tuple[int, ...] = SIZES, term: int = 2) -> MemoryDisk:
    disk = disk or MemoryDisk()
    append(open_log(disk), *sizes, term=term)
    return disk


def snapshot_at(log: CommitLog, index: int) -> Snapshot:
    return log.snapshot_at(index, configuration=b"voters", state=b"state %d" % index)


def begin_behind(disk: Disk, snapshot: Snapshot, path: Path = SNAPSHOT_PATH) -> None:
    """Move the log start as `Snapshots` does: to a candidate that was kept when the state machine passed there."""
    kept = path.with_name("kept")
    replace_file(disk, kept, snapshot.encode())
    SnapshotFile(disk, path).replace(snapshot, kept)


def move_start(disk: MemoryDisk, index: int) -> CommitLog:
    log = start(disk)
    snapshot = snapshot_at(log, index)
    begin_behind(disk, snapshot)
    log.drop_before(snapshot)
    log.segments.remove_dropped()
    return log


def reset(disk: MemoryDisk, snapshot: Snapshot) -> CommitLog:
    log = start(disk)
    snapshot_file = SnapshotFile(disk, SNAPSHOT_PATH)
    snapshot_file.begin_reset(snapshot)
    log.reset(snapshot)
    snapshot_file.finish_reset()
    log.segments.remove_dropped()
    return log


def copied(source: CommitLog, target: CommitLog) -> None:
    while target.last_index < source.last_index:
        first = target.last_index + 1
        data = source.reading.read_range(first, source.reading.reach(first, 500))
        target.write(data, target.examine(data, first - 1), first)


class LockWithWaiter:
    """A lock for which another thread waits: the thread does its work once, each time the lock is free."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._works = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if not self._works:
            self._works = True
            self._work()
            self._works = False


class SlowCreation(MemoryDisk):
    """A memory disk that makes a file only when `allowed` is set. `begun` says that a file is being made."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.allowed = threading.Event()
        self.allowed.set()

    def before(self, operation: str, path: Path) -> None:
        super().before(operation, path)
        if operation == "create":
            self.begun.set()
            self.allowed.wait()


class NotedSyncs(MemoryDisk):
    """A memory disk that notes which files were synced, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []

    def before(self, operation: str, path: Path) -> None:
        super().before(operation, path)
        if operation == "sync":
            self.synced.append(path.name)


class TestDropBefore:
    @pytest.mark.parametrize("index", range(len(SIZES) + 1))
    def test_keeps_what_follows_and_removes_whole_segments_before(self, index: int) -> None:
        disk = grown()
        everything = content(open_log(disk))
        names = disk.list(DIRECTORY)
        log = move_start(disk, index)
        end = log.end if index == len(SIZES) else 0
        for found in (log, start(disk), start(disk.after_kill())):
            assert (found.first_index, found.last_index, found.end) == (index + 1, len(SIZES), log.end)
            assert content(found) == everything[index:]
            assert found.term(index) == (2 if index else 0)
            assert found.known_commit >= index
            assert found.reading.term_runs(index + 1, len(SIZES)) == ([(index + 1, 2)] if index < len(SIZES) else [])
            assert found.reading.reach(index + 1, 1 << 20) > index if index < len(SIZES) else found.end == end
        snapshot = SnapshotFile(disk, SNAPSHOT_PATH).snapshot
        assert snapshot is not None
        assert list(disk.list(DIRECTORY)) == [name for name in names if int(name) + SEGMENT > snapshot.end]
        append(log, 40, 900, 30, term=3)
        assert content(start(disk)) == content(log)
        log.truncate(index)
        assert (log.last_index, log.end, log.tail.chain) == (index, snapshot.end, snapshot.chain)
        append(log, 77, term=4)
        assert content(start(disk)) == content(log)

    def test_goes_on_from_one_base_to_the_next(self) -> None:
        disk = grown()
        everything = content(open_log(disk))
        for index in (2, 2, 5, 9, 10):
            move_start(disk, index)
            assert content(start(disk)) == everything[index:]
        with pytest.raises(AssertionError):
            snapshot_at(start(disk), 9)

    def test_a_base_of_another_log_is_a_programming_error(self) -> None:
        log = open_log(grown())
        other = open_log(grown(sizes=(40, *SIZES[1:])))
        with pytest.raises(AssertionError, match="another log"):
            log.drop_before(snapshot_at(other, 3))

    @pytest.mark.parametrize("index", [3, 7, 10])
    def test_killed_at_every_byte_has_the_old_start_or_the_new_one(self, index: int) -> None:
        everything = content(open_log(grown()))
        found = set()
        for _, survivor in each_kill(grown(), lambda disk: move_start(disk, index)):
            log = start(survivor)
            found.add(log.first_index)
            assert content(log) == everything[log.first_index - 1 :]
            snapshot = SnapshotFile(survivor, SNAPSHOT_PATH).snapshot
            assert [
                name for name in survivor.list(DIRECTORY) if int(name) + SEGMENT <= (snapshot.end if snapshot else 0)
            ] == []
            append(log, 40, 900, term=3)
            assert content(start(survivor)) == content(log)
        # Up to entry 3 all entries lie in the first segment, so the last write is the name of the snapshot.
        assert found == ({1} if index == 3 else {1, index + 1})

    def test_a_view_that_a_reader_holds_stays(self) -> None:
        disk = grown()
        log = start(disk)
        header, body = log.entry(1)
        before = bytes(body)
        snapshot = snapshot_at(log, 8)
        log.drop_before(snapshot)
        log.segments.remove_dropped()
        assert (header.index, bytes(body)) == (1, before)

    def test_a_read_at_a_position_that_was_dropped_finds_no_entry(self) -> None:
        """An index may name the position until it is cut too."""
        log = start(grown())
        position, size = log.reading.position(1), log.reading.header(1).size
        log.drop_before(snapshot_at(log, 8))
        for outside in (position, 1 << 40):  # the second one is of a damaged index
            with pytest.raises(EntryFlawError, match=f"no segment at position {outside}"):
                log.reading.entry_at(outside, size)
            with pytest.raises(UNREADABLE):
                log.reading.header_at(outside)

    def test_it_does_not_matter_that_the_last_dropped_entry_is_damaged(self) -> None:
        disk = grown()
        log = start(disk)
        snapshot, position = snapshot_at(log, 8), log.reading.position(8)
        for field in (0, 72, 76):
            disk.flip(log.segments.path(position), position % SEGMENT + field)
        log.drop_before(snapshot)
        assert content(log) == content(open_log(grown()))[8:]

    def test_what_was_dropped_and_not_removed_is_removed_by_the_next_start(self) -> None:
        disk = grown()
        log = start(disk)
        snapshot = snapshot_at(log, 8)
        begin_behind(disk, snapshot)
        log.drop_before(snapshot)
        assert disk.exists(DIRECTORY / f"{0:020}")
        start(disk)
        assert not disk.exists(DIRECTORY / f"{0:020}")

    def test_a_removal_that_ran_out_of_files_is_completed_by_the_next_one(self) -> None:
        disk = grown()
        log = start(disk)
        log.drop_before(snapshot_at(log, 8))
        disk.fail("sync_directory", OutOfFilesError(DIRECTORY), times=2)
        for _ in range(2):  # the second call syncs too, although it finds no files
            with pytest.raises(OutOfFilesError):
                log.segments.remove_dropped()
            assert log.segments.has_dropped
        log.segments.remove_dropped()
        assert not log.segments.has_dropped
        assert list(disk.list(DIRECTORY)) == [f"{base:020}" for base in log.segments.bases]

    def test_a_reset_after_a_removal_that_ran_out_of_files_works(self) -> None:
        disk = grown()
        log = start(disk)
        log.drop_before(snapshot_at(log, 8))
        disk.fail("sync_directory", OutOfFilesError(DIRECTORY), times=1)
        with pytest.raises(OutOfFilesError):
            log.segments.remove_dropped()
        log.reset(snapshot_at(log, 10))
        log.segments.remove_dropped()
        assert list(disk.list(DIRECTORY)) == []

    def test_does_not_wait_while_the_next_segment_is_made(self) -> None:
        disk = SlowCreation()
        grown(disk)
        log = start(disk)
        snapshot = snapshot_at(log, 8)
        disk.begun.clear()
        disk.allowed.clear()
        with ThreadPoolExecutor() as threads:
            made = threads.submit(log.prepare_next)
            disk.begun.wait()
            try:
                threads.submit(log.drop_before, snapshot).result(timeout=10)
            finally:
                disk.allowed.set()
            made.result()
        assert log.next_is_prepared
        assert content(log) == content(open_log(grown()))[8:]

    def test_what_was_dropped_is_not_flushed_any_more(self) -> None:
        disk = NotedSyncs()
        log = open_log(disk)
        append(log, 100)
        log.prepare_next()
        append(log, 700, 100)
        log.drop_before(snapshot_at(log, 3))
        disk.synced.clear()
        log.sync()
        assert disk.synced == [f"{SEGMENT:020}"]

    def test_flaws_before_the_base_are_nobodys_business_and_those_behind_it_damage(self) -> None:
        disk = grown()
        move_start(disk, 2)
        disk.flip(DIRECTORY / f"{0:020}", 10)
        assert start(disk).first_index == 3
        disk.flip(DIRECTORY / f"{0:020}", start(disk).reading.position(3) + 10)
        with pytest.raises(DamagedError):
            start(disk)

    @pytest.mark.parametrize("seed", range(60))
    def test_after_a_power_loss_the_log_may_have_lost_its_end_down_to_the_base(self, seed: int) -> None:
        chance = random.Random(seed)
        disk = PowerDisk()
        disk.make_directory(DIRECTORY)
        grown(disk)
        everything = content(open_log(disk))
        disk.kill_after(chance.randint(0, 400))
        try:
            log = open_log(disk)
            snapshot = snapshot_at(log, chance.randint(1, 10))
            begin_behind(disk, snapshot)
            log.drop_before(snapshot)
            log.segments.remove_dropped()
        except Killed:
            pass
        disk = disk.after_power_loss(chance)
        log = start(disk, after_crash=True)
        found = content(log)
        assert found == everything[log.first_index - 1 : log.last_index]
        assert content(start(disk.after_power_loss(chance))) == found


class TestReset:
    @pytest.fixture
    def leader(self) -> CommitLog:
        log = open_log(grown(term=5))
        append(log, 100, 800, 33, term=6)
        return log

    @pytest.mark.parametrize("index", [1, 3, 5, 8, 12, 13])
    @pytest.mark.parametrize("own", [(), (10, 20), (900, 900, 900), SIZES * 2])
    def test_begins_behind_the_base_of_another_log_and_ends_byte_identical(
        self, leader: CommitLog, own: tuple[int, ...], index: int
    ) -> None:
        disk, snapshot = grown(sizes=own), snapshot_at(leader, index)
        log = reset(disk, snapshot)
        assert (log.first_index, log.last_index, log.term(index)) == (index + 1, index, leader.term(index))
        assert (log.end, log.tail.chain, log.known_commit) == (snapshot.end, snapshot.chain, index)
        for found in (start(disk.after_kill()), log):
            copied(leader, found)
            assert content(found) == content(leader)[index:]
            found.prepare_next()
        assert content(start(disk.after_kill())) == content(leader)[index:]
        for number in range(index + 1, leader.last_index + 1):
            assert log.reading.read_range(number, number) == leader.reading.read_range(number, number)
            assert log.reading.position(number) == leader.reading.position(number)
        first = DIRECTORY / f"{snapshot.end // SEGMENT * SEGMENT:020}"
        assert disk.list(DIRECTORY)[0] == first.name
        assert not any(disk.content(first)[: snapshot.end % SEGMENT])
        log.truncate(index)
        append(log, 12, 900, term=9)
        assert content(start(disk)) == content(log)

    @pytest.mark.parametrize("own", [(10, 20), (900, 900, 900), SIZES * 2])
    def test_killed_at_every_byte_leaves_the_old_log_or_an_empty_one_at_the_new_base(
        self, leader: CommitLog, own: tuple[int, ...]
    ) -> None:
        before = grown(sizes=own)
        move_start(before, 1)
        old = content(start(before.after_kill()))
        snapshot = snapshot_at(leader, 8)
        found = set()
        for _, survivor in each_kill(before, lambda disk: reset(disk, snapshot)):
            log = start(survivor)
            found.add(log.first_index)
            if log.first_index == 2:
                assert content(log) == old
            else:
                assert (log.first_index, log.last_index, log.tail.chain) == (9, 8, snapshot.chain)
                copied(leader, log)
                assert content(start(survivor)) == content(leader)[8:]
        assert found == {2, 9}

    def test_makes_what_a_stop_in_its_middle_said_of_the_old_log_void(self, leader: CommitLog) -> None:
        disk = grown()
        mark = start(disk).clean_mark()
        SnapshotFile(disk, SNAPSHOT_PATH).begin_reset(snapshot_at(leader, 8))
        snapshot_file = SnapshotFile(disk, SNAPSHOT_PATH)
        log = CommitLog.open(
            disk,
            DIRECTORY,
            LogSettings(segment_bytes=SEGMENT),
            PreviousRun(snapshot=snapshot_file.snapshot, is_resetting=True, clean=mark),
        )
        assert (log.first_index, log.last_index) == (9, 8)

    @pytest.mark.parametrize("seed", range(60))
    def test_a_power_loss_leaves_no_mixture(self, leader: CommitLog, seed: int) -> None:
        chance = random.Random(seed)
        disk = PowerDisk()
        grown(disk, sizes=SIZES * 2)
        log = start(disk)
        old = content(log)
        disk.kill_after(chance.randint(0, 300))
        with suppress(Killed):
            reset(disk, snapshot_at(leader, 8))
        for _ in range(2):
            disk = disk.after_power_loss(chance)
            log = start(disk, after_crash=True)
            assert content(log) == (old if log.first_index == 1 else [])
            assert log.first_index in (1, 9)

    def test_removes_what_was_dropped_before_it_too(self, leader: CommitLog) -> None:
        disk = grown()
        log = start(disk)
        log.drop_before(snapshot_at(log, 8))
        log.reset(snapshot_at(leader, 12))
        log.segments.remove_dropped()
        assert list(disk.list(DIRECTORY)) == []

    def test_leaves_earlier_files_to_a_later_removal_and_no_file_that_a_new_segment_needs(
        self, leader: CommitLog
    ) -> None:
        disk, snapshot = grown(), snapshot_at(leader, 8)
        log, first = start(disk), snapshot.end - snapshot.end % SEGMENT
        names = disk.list(DIRECTORY)
        log.reset(snapshot)
        assert list(disk.list(DIRECTORY)) == [name for name in names if int(name) < first] != []
        copied(leader, log)
        log.segments.remove_dropped()
        assert list(disk.list(DIRECTORY)) == [f"{base:020}" for base in log.segments.bases]
        assert content(log) == content(leader)[8:]

    @pytest.mark.parametrize("index", [1, 8, 13])
    def test_files_that_were_left_are_removed_by_the_next_start(self, leader: CommitLog, index: int) -> None:
        disk, snapshot = grown(sizes=SIZES * 2), snapshot_at(leader, index)
        snapshot_file, log = SnapshotFile(disk, SNAPSHOT_PATH), start(disk)
        snapshot_file.begin_reset(snapshot)
        log.reset(snapshot)
        snapshot_file.finish_reset()
        copied(leader, log)
        again = start(disk.after_kill())
        assert content(again) == content(leader)[index:]
        assert all(base + SEGMENT > snapshot.end for base in again.segments.bases)

    def test_a_log_that_is_reset_to_an_earlier_place_needs_names_that_were_dropped(self, leader: CommitLog) -> None:
        disk = grown(sizes=SIZES * 2)
        log = start(disk)
        log.drop_before(snapshot_at(log, 15))
        log.reset(snapshot_at(leader, 1))
        copied(leader, log)
        log.segments.remove_dropped()
        assert content(log) == content(leader)[1:]
        assert list(disk.list(DIRECTORY)) == [f"{base:020}" for base in log.segments.bases]

    @pytest.mark.parametrize("own", [(10, 20), SIZES, SIZES * 2])
    def test_a_preparation_that_waits_prepares_the_new_log(self, leader: CommitLog, own: tuple[int, ...]) -> None:
        disk = grown(sizes=own)
        log = start(disk)
        log.segments._making = LockWithWaiter(log.prepare_next)  # type: ignore[assignment]
        log.reset(snapshot_at(leader, 8))
        log.segments.remove_dropped()
        assert log.next_is_prepared
        names = [int(name) for name in disk.list(DIRECTORY)]
        assert names == list(log.segments.bases)
        assert len(names) <= 2, "the segment of the next entry and the one after it"

    def test_a_disk_that_fails_meanwhile_poisons_the_log(self, leader: CommitLog) -> None:
        disk = grown()
        log = start(disk)
        disk.fail("unlink", DiskFailedError(DIRECTORY, "Input/output error"), after=1, times=1)
        with pytest.raises(DiskFailedError):
            log.reset(snapshot_at(leader, 8))
        with pytest.raises(DiskFailedError, match="an earlier write was lost"):
            append(log, 10)


class Life:
    """A replica whose log grows, is flushed, moves its start and is reset, until the power is cut."""

    def __init__(self, disk: PowerDisk, log: CommitLog, history: Entries, chance: random.Random) -> None:
        self.disk = disk
        self.log = log
        self.chance = chance
        # All flushed entries from index 1 on, including dropped entries.
        self.flushed = history
        # All entries from index 1 on that were written since.
        self.pictures = [history]

    def step(self) -> None:
        self.chance.choices([self.grow, self.flush, self.log.prepare_next, self.move, self.reset], [8, 2, 1, 2, 1])[0]()

    def grow(self) -> None:
        leader = self._leader(self.pictures[-1])
        self.pictures.append(content(leader))
        copied(leader, self.log)

    def flush(self) -> None:
        self.log.sync()
        self.flushed = self.pictures[-1]
        self.pictures = [self.flushed]

    def move(self) -> None:
        snapshot = snapshot_at(self.log, self.chance.randint(self.log.first_index - 1, self.log.last_index))
        begin_behind(self.disk, snapshot)
        self.log.drop_before(snapshot)
        if self.chance.random() < 0.7:
            self.log.segments.remove_dropped()

    def reset(self) -> None:
        leader = self._leader(self.pictures[-1])
        snapshot_file, snapshot = SnapshotFile(self.disk, SNAPSHOT_PATH), snapshot_at(leader, leader.last_index)
        self.pictures.append(content(leader))
        snapshot_file.begin_reset(snapshot)
        self.log.reset(snapshot)
        snapshot_file.finish_reset()
        if self.chance.random() < 0.7:
            self.log.segments.remove_dropped()
        self.flushed = content(leader)
        self.pictures = [self.flushed]

    def _leader(self, history: Entries) -> CommitLog:
        """Return a log with this history and some more entries."""
        leader = open_log(MemoryDisk())
        for _, term, _, body in history:
            leader.append([EntryDraft(EntryKind.BATCH, body)], term=term, commit=0, now_ms=0)
        for _ in range(self.chance.randint(1, 4)):
            body = self.chance.randbytes(self.chance.choice([0, 9, 60, 200, 700, 944]))
            leader.append([EntryDraft(EntryKind.BATCH, body)], term=leader.tail.term + 1, commit=0, now_ms=0)
        return leader

    def check(self, log: CommitLog) -> Entries:
        """Check the log, and return all entries from index 1 on as they must have been."""
        first, found = log.first_index, content(log)
        matching = [picture for picture in self.pictures if picture[first - 1 : log.last_index] == found]
        assert matching, "what is there was written"
        assert log.last_index >= first - 1
        assert log.last_index >= len(self.flushed), "what was flushed is there"
        return matching[-1][: log.last_index]


@pytest.mark.parametrize("seed", range(150))
def test_lives_between_power_losses(seed: int) -> None:
    chance = random.Random(seed)
    disk = PowerDisk()
    disk.make_directory(SNAPSHOT_PATH.parent)
    log, history = start(disk), Entries()
    for _ in range(4):
        life = Life(disk, log, history, chance)
        disk.kill_after(chance.randint(0, 6000))
        with suppress(Killed):
            while True:
                life.step()
        disk = disk.after_power_loss(chance)
        log = start(disk, after_crash=True)
        history = life.check(log)
        again = start(disk.after_power_loss(chance), after_crash=True)
        assert (again.first_index, content(again)) == (log.first_index, content(log))


def test_over_real_files(tmp_path: Path) -> None:
    disk, path = PosixDisk(), tmp_path / "log"
    leader = open_log(grown())
    log = open_log(disk, path)
    copied(leader, log)
    begin_behind(disk, snapshot_at(log, 6), tmp_path / "base")
    log.drop_before(snapshot_at(log, 6))
    log.segments.remove_dropped()
    assert content(log) == content(leader)[6:]
    append(leader, 700, 800, 900)
    snapshot_file = SnapshotFile(disk, tmp_path / "base")
    snapshot_file.begin_reset(snapshot_at(leader, 12))
    log.reset(snapshot_at(leader, 12))
    snapshot_file.finish_reset()
    copied(leader, log)
    expected = content(leader)[12:]
    assert content(log) == expected
    snapshot = SnapshotFile(disk, tmp_path / "base").snapshot
    for after_crash in (False, True):
        again = CommitLog.open(
            disk, path, LogSettings(segment_bytes=SEGMENT), PreviousRun(snapshot=snapshot, has_crashed=after_crash)
        )
        assert content(again) == expected
        again.close()


class TestSnapshotFile:
    BASE = Snapshot(7, 3, 4096, 99, 1234, b"configuration", b"state" * 100)

    def test_there_is_none_at_first_and_the_last_one_counts(self) -> None:
        disk = MemoryDisk()
        disk.make_directory(SNAPSHOT_PATH.parent)
        assert SnapshotFile(disk, SNAPSHOT_PATH).snapshot is None
        SnapshotFile(disk, SNAPSHOT_PATH).finish_reset()
        begin_behind(disk, self.BASE)
        assert SnapshotFile(disk.after_kill(), SNAPSHOT_PATH).snapshot == self.BASE

    def test_the_start_never_moves_back(self) -> None:
        disk = MemoryDisk()
        disk.make_directory(SNAPSHOT_PATH.parent)
        begin_behind(disk, self.BASE)
        with pytest.raises(AssertionError):
            SnapshotFile(disk, SNAPSHOT_PATH).replace(Snapshot(6, 3, 4000, 99, 1234, b"", b""), SNAPSHOT_PATH)

    def test_every_flipped_bit_is_found(self) -> None:
        snapshot = Snapshot(1, 2, 3, 4, 5, b"c", b"s")
        data = snapshot.encode()
        assert Snapshot.decode(data) == snapshot
        for bit in range(len(data) * 8):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            with pytest.raises(ValueError, match=r".+"):
                Snapshot.decode(bytes(flipped))
        for length in range(len(data)):
            with pytest.raises(ValueError, match=r".+"):
                Snapshot.decode(data[:length])

    def test_one_that_cannot_be_read_is_damage(self) -> None:
        disk = MemoryDisk()
        disk.make_directory(SNAPSHOT_PATH.parent)
        disk.create(SNAPSHOT_PATH, 0).write(0, b"nothing")
        with pytest.raises(DamagedError, match="no snapshot"):
            SnapshotFile(disk, SNAPSHOT_PATH)
