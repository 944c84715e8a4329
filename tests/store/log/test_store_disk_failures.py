"""A disk that is full or fails: a refused write leaves no trace, and bytes that may be lost are never trusted again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from store import (
    CommitLog,
    DiskFailedError,
    LogCallbacks,
    LogSettings,
    MemoryDisk,
    NoSpaceError,
    OutOfFilesError,
    PreviousRun,
    StoreError,
)
from store.disk.memory_disk import Killed, MemoryFile
from store.log.segments import MAX_OPEN
from tests.store.sample_log import DIRECTORY, SEGMENT, append, content, open_log

FULL = NoSpaceError(DIRECTORY)
NO_FILES = OutOfFilesError(DIRECTORY)
BROKEN = DiskFailedError(DIRECTORY, "Input/output error")


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    append(open_log(disk), 100, 200, term=1)
    return disk


def copy_two_more(log: CommitLog) -> None:
    """As a follower, copy two entries from a leader into the segment of the tail."""
    leader = open_log(MemoryDisk())
    data = log.reading.read_range(1, log.last_index)
    leader.write(data, leader.examine(data, 0), 1)
    append(leader, 60, 70)
    data = leader.reading.read_range(log.last_index + 1, leader.last_index)
    log.write(data, log.examine(data, log.last_index), log.last_index + 1)


def append_three_segments(log: CommitLog) -> None:
    append(log, 60, 900, 900)


@pytest.mark.parametrize("error", [FULL, BROKEN], ids=["full", "broken"])
@pytest.mark.parametrize("act", [copy_two_more, append_three_segments])
def test_a_failed_write_changes_nothing_and_can_be_repeated(
    disk: MemoryDisk, error: StoreError, act: Callable[[CommitLog], object]
) -> None:
    writes = 2 if act is copy_two_more else 6
    for after in range(writes):
        own = disk.after_kill()
        log = open_log(own)
        before = (content(log), log.end, log.tail.chain, log.known_commit, log.tail.append_time_ms)
        own.fail("write", error, after=after, times=1)
        with pytest.raises(type(error)):
            act(log)
        assert (content(log), log.end, log.tail.chain, log.known_commit, log.tail.append_time_ms) == before
        visible = own.after_kill()
        assert not any(visible.content(DIRECTORY / f"{0:020}")[log.end :])
        assert content(open_log(visible)) == before[0]
        act(log)
        assert content(open_log(own.after_kill())) == content(log)
        assert log.last_index > 2


def test_no_room_for_the_next_segment(disk: MemoryDisk) -> None:
    log = open_log(disk)
    disk.fail("create", FULL)
    with pytest.raises(NoSpaceError):
        log.prepare_next()
    with pytest.raises(NoSpaceError):
        append(log, 60, 900)
    assert log.last_index == 2
    append(log, 60)
    disk.heal()
    append(log, 900)
    assert [entry[0] for entry in content(open_log(disk))] == [1, 2, 3, 4]


def test_a_write_that_can_not_be_taken_back_poisons_the_log(disk: MemoryDisk) -> None:
    log = open_log(disk)
    disk.fail("write", BROKEN, after=1)
    with pytest.raises(DiskFailedError):
        append(log, 60)
    disk.heal()
    for act in (lambda: append(log, 60), log.sync, lambda: log.truncate(0), lambda: copy_two_more(log)):
        with pytest.raises(DiskFailedError, match="an earlier write was lost"):
            act()
    assert len(content(log)) == 2, "reading goes on"


@pytest.mark.parametrize("error", [FULL, BROKEN], ids=["full", "broken"])
def test_after_a_failed_sync_nothing_is_believed(disk: MemoryDisk, error: StoreError) -> None:
    log = open_log(disk)
    append(log, 60)
    disk.fail("sync", error, times=1)
    with pytest.raises(type(error)):
        log.sync()
    for act in (log.sync, lambda: append(log, 60), lambda: log.truncate(0), lambda: copy_two_more(log)):
        with pytest.raises(DiskFailedError, match="an earlier write was lost") as caught:
            act()
        assert caught.value.__cause__ is error


@pytest.mark.parametrize("act", [CommitLog.sync, CommitLog.prepare_next, append_three_segments])
def test_whoever_syncs_a_failure_is_told(disk: MemoryDisk, act: Callable[[CommitLog], object]) -> None:
    """The next start must not trust the page cache, whatever the reason for the sync was: a flush, a stop or a new
    segment."""
    losses: list[str] = []
    log = CommitLog.open(
        disk,
        DIRECTORY,
        LogSettings(segment_bytes=SEGMENT),
        callbacks=LogCallbacks(on_loss=lambda: losses.append("lost")),
    )
    append(log, 100)
    disk.fail("sync", BROKEN, times=1)
    with pytest.raises(DiskFailedError):
        act(log)
    assert losses == ["lost"]


def test_after_a_failed_sync_no_segment_is_made(disk: MemoryDisk) -> None:
    """A new segment means that all earlier bytes were flushed, and a second sync could not prove that."""
    log = open_log(disk)
    append(log, 100)
    disk.fail("sync", BROKEN, times=1)
    with pytest.raises(DiskFailedError):
        log.sync()
    with pytest.raises(DiskFailedError):
        log.prepare_next()
    assert disk.list(DIRECTORY) == [f"{0:020}"]


def test_a_failed_sync_of_the_directory_counts_too(disk: MemoryDisk) -> None:
    log = open_log(disk)
    append(log, 900)
    disk.fail("sync_directory", BROKEN, times=1)
    with pytest.raises(DiskFailedError):
        log.sync()
    with pytest.raises(DiskFailedError, match="an earlier write was lost"):
        log.sync()


def test_a_segment_that_cannot_be_opened_just_now_harms_nothing(disk: MemoryDisk) -> None:
    log = open_log(disk)
    append(log, 600)
    log.prepare_next()
    disk.fail("open", NO_FILES, times=1)
    with pytest.raises(OutOfFilesError):
        append(log, 900)
    assert log.last_index == 3
    append(log, 900, 40)
    assert content(open_log(disk.after_kill())) == content(log)


def test_a_directory_that_cannot_be_opened_to_be_synced_leaves_that_to_the_next_sync(disk: MemoryDisk) -> None:
    log = open_log(disk)
    append(log, 900)
    disk.fail("sync_directory", NO_FILES, times=1)
    with pytest.raises(OutOfFilesError):
        log.sync()
    dirty = [log.segments.dirty]
    assert log.sync() == (3, log.tail.term)
    dirty.append(log.segments.dirty)
    assert dirty == [True, False]
    append(log, 60)


def test_a_failed_truncation_poisons_the_log(disk: MemoryDisk) -> None:
    log = open_log(disk)
    disk.fail("write", BROKEN, times=1)
    with pytest.raises(DiskFailedError):
        log.truncate(1)
    with pytest.raises(DiskFailedError, match="an earlier write was lost"):
        append(log, 5)


def test_a_kill_is_nobodys_to_handle(disk: MemoryDisk) -> None:
    log = open_log(disk)
    disk.kill_after(0)
    with pytest.raises(Killed):
        append(log, 5)
    with pytest.raises(Killed):
        log.sync()


class WatchedDisk(MemoryDisk):
    """A memory disk that notes each sync, and runs a function once, just before an operation of one kind."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[Path] = []
        self.before_next: dict[str, Callable[[], object]] = {}

    def before(self, operation: str, path: Path) -> None:
        super().before(operation, path)
        if operation in ("sync", "sync_directory"):
            self.synced.append(path)
        if act := self.before_next.pop(operation, None):
            act()


class CountingDisk(MemoryDisk):
    """A memory disk that counts its open files."""

    def __init__(self) -> None:
        super().__init__()
        self._opened: list[MemoryFile] = []
        self.most_open = 0

    @property
    def open_files(self) -> int:
        return sum(file._open for file in self._opened)

    def open(self, path: Path) -> MemoryFile:
        self._opened.append(super().open(path))
        self.most_open = max(self.most_open, self.open_files)
        return self._opened[-1]


@pytest.mark.parametrize("has_crashed", [False, True])
def test_a_start_opens_a_limited_number_of_segments(*, has_crashed: bool) -> None:
    disk = CountingDisk()
    log = open_log(disk)
    append(log, *[900] * (3 * MAX_OPEN))
    log.close()
    disk.most_open = disk.open_files
    log = CommitLog.open(disk, DIRECTORY, LogSettings(segment_bytes=SEGMENT), PreviousRun(has_crashed=has_crashed))
    log.sync()
    assert log.last_index == 3 * MAX_OPEN
    assert disk.most_open <= MAX_OPEN + 1


def test_segments_that_were_open_beyond_the_limit_are_closed_after_a_flush() -> None:
    disk = CountingDisk()
    log = open_log(disk)
    append(log, *[900] * (2 * MAX_OPEN))
    log.segments.write_again(0, log.end)
    assert disk.open_files == 2 * MAX_OPEN, "a file with unflushed writes stays open"
    log.sync()
    append(log, 900)
    assert disk.open_files == MAX_OPEN


class TestSync:
    @pytest.fixture
    def disk(self) -> WatchedDisk:
        return WatchedDisk()

    def test_covers_every_segment_written_and_the_directory_once(self, disk: WatchedDisk) -> None:
        log = open_log(disk)
        append(log, 10)
        log.prepare_next()
        append(log, 10, 835)
        disk.synced.clear()
        dirty = [log.segments.dirty]
        assert log.sync() == (3, 1)
        dirty.append(log.segments.dirty)
        assert dirty == [True, False]
        assert disk.synced == [*(DIRECTORY / f"{base:020}" for base in (0, SEGMENT)), DIRECTORY]
        disk.synced.clear()
        assert log.sync() == (3, 1)
        assert disk.synced == []
        append(log, 10)
        assert log.sync() == (4, 1)
        assert disk.synced == [DIRECTORY / f"{SEGMENT:020}"]

    def test_a_segment_is_made_only_when_all_before_it_is_flushed(self, disk: WatchedDisk) -> None:
        log = open_log(disk)
        append(log, 10)
        log.prepare_next()
        append(log, 10, 900)
        disk.synced.clear()
        disk.before_next["create"] = lambda: synced_before.extend(disk.synced)
        synced_before: list[Path] = []
        log.prepare_next()
        assert synced_before == [*(DIRECTORY / f"{base:020}" for base in (0, SEGMENT)), DIRECTORY]

    @pytest.mark.parametrize("act", [append_three_segments, CommitLog.prepare_next])
    def test_that_fails_when_a_segment_is_to_be_made_poisons_the_log(
        self, disk: WatchedDisk, act: Callable[[CommitLog], object]
    ) -> None:
        log = open_log(disk)
        append(log, 10)
        disk.fail("sync", BROKEN, times=1)
        with pytest.raises(DiskFailedError):
            act(log)
        with pytest.raises(DiskFailedError, match="an earlier write was lost"):
            append(log, 10)
        assert list(disk.list(DIRECTORY)) == [f"{0:020}"]

    def test_segments_made_for_a_write_that_failed_are_removed(self, disk: WatchedDisk) -> None:
        """If a third segment exists, the first segment counts as flushed. Therefore it must not exist while the
        first segment is in use."""
        log = open_log(disk)
        append(log, 10)
        disk.fail("write", FULL, after=5, times=1)
        with pytest.raises(NoSpaceError):
            append(log, 20, 900, 900)
        assert list(disk.list(DIRECTORY)) == [f"{0:020}", f"{SEGMENT:020}"]

    def test_covers_more_segments_than_may_be_open(self, disk: WatchedDisk) -> None:
        log = open_log(disk)
        append(log, *[900] * (MAX_OPEN + 10))
        disk.synced.clear()
        log = open_log(disk)
        log.sync()
        assert {DIRECTORY / name for name in disk.list(DIRECTORY)} | {DIRECTORY} == set(disk.synced) - {
            DIRECTORY.parent
        }

    def test_does_not_promise_what_is_written_meanwhile_and_covers_it_the_next_time(self, disk: WatchedDisk) -> None:
        log = open_log(disk)
        append(log, 10, term=1)
        disk.before_next["sync"] = lambda: append(log, 20, term=2)
        assert log.sync() == (1, 1)
        assert log.segments.dirty
        disk.synced.clear()
        assert log.sync() == (2, 2)
        assert disk.synced == [DIRECTORY / f"{0:020}"]

    def test_that_ran_just_before_a_write_leaves_the_write_to_the_next(self, disk: WatchedDisk) -> None:
        log = open_log(disk)
        append(log, 10)
        disk.before_next["write"] = log.sync
        append(log, 20)
        assert "write" not in disk.before_next
        assert log.segments.dirty
        disk.synced.clear()
        assert log.sync() == (2, 1)
        assert disk.synced == [DIRECTORY / f"{0:020}"]

    def test_a_segment_cut_away_meanwhile_is_closed_afterwards(self, disk: WatchedDisk) -> None:
        log = open_log(disk)
        append(log, 900, 900, 10, term=3)
        disk.before_next["sync"] = lambda: log.truncate(1)
        assert log.sync() == (3, 3)
        assert list(disk.list(DIRECTORY)) == [f"{0:020}"]
        append(log, 900, 20)
        assert log.sync() == (3, 3)
        assert content(open_log(disk.after_kill())) == content(log)

    def test_an_erased_end_is_synced(self, disk: WatchedDisk) -> None:
        log = open_log(disk)
        append(log, 10, 20)
        log.sync()
        log.truncate(1)
        assert log.segments.dirty
        disk.synced.clear()
        log.sync()
        assert disk.synced == [DIRECTORY / f"{0:020}"]
