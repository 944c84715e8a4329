"""The three ways of writing into the same files: their common behaviour, and the loss of staged bytes."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from store import CommitLog, Disk, DiskFailedError, LogSettings, MemoryDisk, PosixDisk, PreviousRun, WriteMode, Writing
from store.disk import paging
from store.disk.memory_disk import Killed
from tests.store.power_disk import PowerDisk
from tests.store.sample_log import DIRECTORY, SEGMENT, append, content, draft, each_kill

STAGED = Writing("staged", staged_segments=2)
FIRST = DIRECTORY / f"{0:020}"
BROKEN = DiskFailedError(DIRECTORY, "Input/output error")
PAGED_SEGMENT = 64 << 10

Entries = list[tuple[int, int, int, bytes]]


def open_log(
    disk: Disk, writing: Writing, directory: Path = DIRECTORY, *, segment: int = SEGMENT, after_crash: bool = False
) -> CommitLog:
    return CommitLog.open(
        disk, directory, LogSettings(segment_bytes=segment, writing=writing), PreviousRun(has_crashed=after_crash)
    )


@pytest.mark.parametrize("mode", get_args(WriteMode))
def test_the_files_are_the_same_whichever_way_they_were_written(tmp_path: Path, mode: WriteMode) -> None:
    logs = {each: open_log(PosixDisk(), Writing(each), tmp_path / each) for each in ("direct", mode)}
    for log in logs.values():
        log.prepare_next()
        append(log, 300, 200, 900, 900, 20)
        log.truncate(4)
        append(log, 100, 60, term=2)
        log.sync()
    ours, direct = (sorted((tmp_path / each).iterdir()) for each in (mode, "direct"))
    assert [path.name for path in ours] == [path.name for path in direct]
    assert [path.read_bytes() for path in ours] == [path.read_bytes() for path in direct]
    assert content(logs[mode]) == content(logs["direct"])


@pytest.mark.parametrize("mode", get_args(WriteMode))
def test_a_view_of_the_log_stays_valid_while_segments_come_and_go(tmp_path: Path, mode: WriteMode) -> None:
    log = open_log(PosixDisk(), Writing(mode, staged_segments=2), tmp_path)
    kept = []
    for number in range(1, 12):
        append(log, 900)
        kept.append(log.entry(number)[1])
        log.sync()
        log.prepare_next()
    assert [bytes(view) for view in kept] == [draft(number, 900).body for number in range(1, 12)]
    log.close()
    assert bytes(kept[0]) == draft(1, 900).body


def test_a_file_with_holes_gets_its_space_before_it_is_mapped(tmp_path: Path) -> None:
    log = open_log(PosixDisk(), Writing(), tmp_path, segment=PAGED_SEGMENT)
    append(log, 10)
    log.close()
    path = tmp_path / f"{0:020}"
    whole = path.read_bytes()
    path.unlink()
    with path.open("wb") as sparse:
        sparse.write(whole[:4096])
        sparse.truncate(PAGED_SEGMENT)
    assert path.stat().st_blocks * 512 < PAGED_SEGMENT
    append(open_log(PosixDisk(), Writing("mapped"), tmp_path, segment=PAGED_SEGMENT), 10)
    assert path.stat().st_blocks * 512 >= PAGED_SEGMENT


class InterruptedDisk(MemoryDisk):
    """A memory disk that runs a function once, just before its next write."""

    before_next_write: Callable[[], object] | None = None

    def before(self, operation: str, path: Path) -> None:
        super().before(operation, path)
        act = self.before_next_write
        if operation == "write" and act is not None:
            self.before_next_write = None
            act()


class TestStaged:
    @pytest.fixture
    def disk(self) -> MemoryDisk:
        return MemoryDisk()

    def test_what_was_appended_is_in_the_file_once_it_was_written_out(self, disk: MemoryDisk) -> None:
        log = open_log(disk, STAGED)
        append(log, 30, 40)
        assert not any(disk.content(FIRST))
        assert log.segments.staged_bytes == log.end
        assert len(content(log)) == 2, "it can be read meanwhile"
        log.write_out()
        assert log.segments.staged_bytes == 0
        assert log.segments.dirty, "it is not flushed by that"
        assert content(open_log(disk.after_kill(), Writing())) == content(log)

    def test_a_flush_writes_out_first(self, disk: MemoryDisk) -> None:
        log = open_log(disk, STAGED)
        append(log, 30)
        log.sync()
        assert (log.segments.staged_bytes, log.segments.dirty) == (0, False)
        assert content(open_log(disk.after_kill(), Writing())) == content(log)

    def test_a_segment_found_at_start_is_gone_on_with_directly(self, disk: MemoryDisk) -> None:
        log = open_log(disk, STAGED)
        append(log, 30)
        log.sync()
        log = open_log(disk.after_kill(), STAGED)
        append(log, 40)
        assert log.segments.staged_bytes == 0
        append(log, 900)
        assert log.segments.staged_bytes == 984

    def test_a_buffer_that_is_looked_at_is_not_used_again(self, disk: MemoryDisk) -> None:
        log = open_log(disk, STAGED)
        views = []
        for number in range(1, 5):
            append(log, 900)
            staged, view = log.segments.staged_bytes > 0, log.entry(number)[1]
            assert staged == (number <= 2), "both buffers are looked at: what follows is written directly"
            views.append(view)
            log.sync()
            log.prepare_next()
        assert [bytes(view) for view in views] == [draft(number, 900).body for number in range(1, 5)]
        views.clear()
        del view
        append(log, 900)  # into a segment that was made before
        log.prepare_next()
        append(log, 900)
        assert log.segments.staged_bytes > 0, "and they come back when nobody looks any more"
        log.sync()
        assert content(open_log(disk.after_kill(), Writing())) == content(log)

    def test_a_buffer_is_blank_when_it_is_used_again(self, disk: MemoryDisk) -> None:
        log = open_log(disk, Writing("staged", staged_segments=1))
        for _ in range(6):
            append(log, 900)
            log.sync()
            log.prepare_next()
        append(log, 3)
        log.sync()
        last = DIRECTORY / f"{6 * SEGMENT:020}"
        assert not any(disk.content(last)[log.end % SEGMENT :])

    def test_it_can_be_read_while_it_is_written_out_though_the_log_has_gone_on(self) -> None:
        disk, read = InterruptedDisk(), list[bytes]()
        log = open_log(disk, STAGED)
        log.prepare_next()
        append(log, 400)

        def roll_and_read() -> None:
            append(log, 900)
            read.append(log.reading.body(1))

        disk.before_next_write = roll_and_read
        log.write_out()
        assert read == [draft(1, 400).body]
        assert log.reading.body(1) == draft(1, 400).body

    @pytest.mark.parametrize("act", [CommitLog.write_out, CommitLog.sync])
    def test_entries_that_are_being_written_out_are_in_no_span_yet(self, act: Callable[[CommitLog], object]) -> None:
        """A reader of the file would find zeros there."""
        disk, seen = InterruptedDisk(), list[list[int]]()
        log = open_log(disk, STAGED)

        def look() -> None:
            seen.append([span.last_index for span in log.reading.spans()])

        append(log, 30, 40)
        act(log)
        append(log, 50)
        disk.before_next_write = look
        act(log)
        look()
        assert seen == [[2], [3]]

    @pytest.mark.parametrize("act", [CommitLog.write_out, CommitLog.sync])
    def test_a_segment_that_the_log_has_left_is_in_a_span_only_once_it_is_in_the_file(
        self, act: Callable[[CommitLog], object]
    ) -> None:
        disk, seen = InterruptedDisk(), list[list[bool]]()
        log = open_log(disk, STAGED)
        log.prepare_next()
        append(log, 400)

        def roll_and_look() -> None:
            append(log, 900)
            seen.append([span.is_last for span in log.reading.spans()])

        disk.before_next_write = roll_and_look
        act(log)
        act(log)
        seen.append([span.is_last for span in log.reading.spans()])
        assert seen == [[], [False, True]]

    @pytest.mark.parametrize("act", [CommitLog.write_out, CommitLog.sync, CommitLog.prepare_next])
    def test_what_could_not_be_written_out_poisons_the_log(
        self, disk: MemoryDisk, act: Callable[[CommitLog], object]
    ) -> None:
        log = open_log(disk, STAGED)
        append(log, 30, 40)
        disk.fail("write", BROKEN, times=1)
        with pytest.raises(DiskFailedError):
            act(log)
        for again in (log.write_out, log.sync, lambda: append(log, 5)):
            with pytest.raises(DiskFailedError, match="an earlier write was lost"):
                again()
        assert len(content(log)) == 2, "reading goes on"

    def test_a_kill_at_any_byte_leaves_whole_groups_and_all_that_was_flushed(self) -> None:
        promised, found_ends = [0], set()

        def act(disk: MemoryDisk) -> None:
            promised[:] = [0]
            log = open_log(disk, STAGED, after_crash=True)
            append(log, 60, 70)
            log.write_out()
            append(log, 200)
            promised.append(log.sync()[0])
            append(log, 150, 900, 50)
            promised.append(log.sync()[0])
            promised.append(4)
            log.truncate(4)
            append(log, 40, 60, term=2)
            promised.append(log.sync()[0])

        done = MemoryDisk()
        act(done)
        new = content(open_log(done, Writing(), after_crash=True))
        for _, survivor in each_kill(MemoryDisk(), act):
            log = open_log(survivor, Writing(), after_crash=True)
            found = content(log)
            assert len(found) >= promised[-1]
            assert found[:4] == new[:4][: len(found)]
            found_ends.add(len(found))
        assert found_ends == {0, 2, 3, 4, 5, 6}, "two by the first write-out, and never one of them alone"

    @pytest.mark.parametrize("seed", range(60))
    def test_lives_between_kills_and_power_losses(self, seed: int) -> None:
        chance = random.Random(seed)
        disk = PowerDisk()
        for _ in range(4):
            log = open_log(disk, STAGED, after_crash=True)
            life = Life(log, open_log(disk.copied(), Writing(), after_crash=True), chance)
            disk.kill_after(chance.randint(0, 4000))
            with contextlib.suppress(Killed):
                for _ in range(chance.randint(1, 15)):
                    life.step()
            disk = disk.after_power_loss(chance) if chance.random() < 0.5 else disk.alive_again()
            life.check(content(open_log(disk, Writing(), after_crash=True)))


class Life:
    """A staged log, and a second log that is never killed: its entries since the last flush, and its flushed
    entries."""

    def __init__(self, log: CommitLog, twin: CommitLog, chance: random.Random) -> None:
        self.log = log
        self.twin = twin
        self.chance = chance
        self.flushed = content(log)
        self.pictures = [self.flushed]

    def step(self) -> None:
        [doing] = self.chance.choices([self.grow, self.cut, self.flush, self.log.write_out, self.log.prepare_next])
        doing()

    def grow(self) -> None:
        sizes, term = [self.chance.choice([0, 9, 60, 700]) for _ in range(3)], self.log.tail.term + 1
        for log in (self.twin, self.log):
            append(log, *sizes, term=term)
            self.pictures.append(content(self.twin))

    def cut(self) -> None:
        keep = self.chance.randint(self.log.last_index // 2, self.log.last_index)
        self.flushed = self.flushed[:keep]
        for log in (self.twin, self.log):
            log.truncate(keep)
        self.pictures.append(content(self.twin))

    def flush(self) -> None:
        self.log.sync()
        self.flushed = content(self.twin)
        self.pictures = [self.flushed]

    def check(self, found: Entries) -> None:
        assert found[: len(self.flushed)] == self.flushed, "what was flushed is there"
        assert any(found == picture[: len(found)] for picture in self.pictures), "what is there was written"


class TestHints:
    def test_memory_is_locked_for_two_segments_and_no_more(self, tmp_path: Path) -> None:
        before = _locked_bytes()
        with mmap.mmap(-1, 1 << 20) as probe:
            if not paging.lock(memoryview(probe)):
                pytest.skip("needs CAP_IPC_LOCK or `ulimit -l`: a real lock on memory")
        log = open_log(PosixDisk(), Writing(lock_memory=True), tmp_path, segment=PAGED_SEGMENT)
        for _ in range(6):
            append(log, 60_000)
            log.prepare_next()
        assert _locked_bytes() - before == 2 * PAGED_SEGMENT

    @pytest.mark.parametrize("mode", ["direct", "mapped"])
    def test_the_pages_of_a_warm_segment_are_there_before_it_is_used(self, tmp_path: Path, mode: WriteMode) -> None:
        resident = {}
        for warm in (True, False):
            directory = tmp_path / str(warm)
            log = open_log(PosixDisk(), Writing(mode, warm=warm), directory, segment=PAGED_SEGMENT)
            append(log, 10)
            log.prepare_next()
            resident[warm] = _resident_pages(directory / f"{PAGED_SEGMENT:020}")
        assert resident == {True: PAGED_SEGMENT // mmap.PAGESIZE, False: 0}

    @pytest.mark.parametrize("how", ["normal", "random", "willneed"])
    def test_read_ahead_is_taken_by_the_system(self, tmp_path: Path, how: str) -> None:
        (tmp_path / "file").write_bytes(bytes(PAGED_SEGMENT))
        assert paging.advise(PosixDisk().open(tmp_path / "file").view(), how)


def _locked_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmLck:")[1].split()[0]) * 1024


def _resident_pages(path: Path) -> int:
    """Return how many pages of a file are in memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDWR)
    with mmap.mmap(descriptor, PAGED_SEGMENT) as mapping:
        pages = (ctypes.c_ubyte * (PAGED_SEGMENT // mmap.PAGESIZE))()
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        assert libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(PAGED_SEGMENT), pages) == 0
    os.close(descriptor)
    return sum(page & 1 for page in pages)
