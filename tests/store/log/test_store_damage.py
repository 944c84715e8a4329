"""Bytes of a log that were whole are changed: the damage is always reported with its place, and no byte is changed on
disk.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from store import (
    UNREADABLE,
    CleanMark,
    CommitLog,
    DamagedError,
    EntryDraft,
    EntryKind,
    Flaw,
    LogSettings,
    MemoryDisk,
    RangeDamagedError,
)
from store.log.entry import EntryFlawError
from tests.store.sample_log import DIRECTORY, SEGMENT, append, content, draft, open_log

FIRST = DIRECTORY / f"{0:020}"
SECOND = DIRECTORY / f"{SEGMENT:020}"
FIELDS = {
    "magic": (0, 4), "version": (4, 1), "kind": (5, 1), "flags": (6, 2), "size": (8, 4), "count": (12, 4),
    "index": (16, 8), "term": (24, 8), "position": (32, 8), "commit": (40, 8), "append_time_ms": (48, 8),
    "base_offset": (56, 8), "topic_id": (64, 4), "queue": (68, 4), "crc": (72, 4), "chain": (76, 4), "body": (80, 45),
    "padding": (125, 3),
}  # fmt: skip


@pytest.fixture
def disk() -> MemoryDisk:
    """Return a log with seven entries of 128 bytes and 128 blank bytes in the first segment, two entries of 980 bytes
    in later segments, and one entry of 128 bytes after them."""
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, *[45] * 7)
    append(log, 900, 900, term=2)
    append(log, 45, term=3)
    assert [log.reading.position(i) for i in (8, 9, 10)] == [SEGMENT, 2 * SEGMENT, 3 * SEGMENT]
    return disk


def files(disk: MemoryDisk) -> dict[str, bytes]:
    return {name: disk.content(DIRECTORY / name) for name in disk.list(DIRECTORY)}


def refused(disk: MemoryDisk, clean: CleanMark | None = None) -> DamagedError:
    """Check that the log does not open and that no file changes. Return the error."""
    before = files(disk)
    with pytest.raises(DamagedError) as caught:
        open_log(disk, clean=clean)
    assert files(disk) == before
    return caught.value


@pytest.mark.parametrize("size", [0, 8, 79, SEGMENT + 8, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("index", [1, 10])
def test_a_length_that_cannot_be_is_told_without_as_much_memory(disk: MemoryDisk, index: int, size: int) -> None:
    position = open_log(disk.after_kill()).reading.position(index)
    path = DIRECTORY / f"{position // SEGMENT * SEGMENT:020}"
    disk.open(path).write(position % SEGMENT + FIELDS["size"][0], size.to_bytes(4, "little"))
    tracemalloc.start()
    error = refused(disk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (error.path, error.position) == (path, position)
    assert peak < 1 << 20


@pytest.mark.parametrize("index", [1, 4, 7, 10])
@pytest.mark.parametrize("field", FIELDS)
def test_a_flipped_bit_in_any_field_of_any_entry(disk: MemoryDisk, field: str, index: int) -> None:
    position = open_log(disk.after_kill()).reading.position(index)
    path = DIRECTORY / f"{position // SEGMENT * SEGMENT:020}"
    offset, length = FIELDS[field]
    for byte in range(offset, offset + length):
        for bit in range(8):
            disk.flip(path, position % SEGMENT + byte, bit)
            error = refused(disk)
            assert (error.path, error.position) == (path, position)
            disk.flip(path, position % SEGMENT + byte, bit)
    assert open_log(disk).last_index == 10


def test_the_message_names_file_position_reason_and_remedy(disk: MemoryDisk) -> None:
    disk.flip(FIRST, 128 + 90)
    message = str(refused(disk))
    assert str(FIRST) in message
    assert "position 128" in message
    assert "CRC of header and body" in message
    assert "Nothing was changed" in message


def test_an_erased_word_before_a_later_segment(disk: MemoryDisk) -> None:
    """This looks like a torn end, but later entries show that the log had more entries."""
    disk.open(FIRST).write(3 * 128, bytes(8))
    error = refused(disk)
    assert error.position == SEGMENT
    assert "index 8 follows index 3" in error.reason


def test_an_erased_word_at_the_start_of_a_middle_segment(disk: MemoryDisk) -> None:
    disk.open(SECOND).write(0, bytes(8))
    assert refused(disk).position == 2 * SEGMENT


def test_a_stray_bit_in_the_blank_word_behind_the_last_entry(disk: MemoryDisk) -> None:
    disk.flip(DIRECTORY / f"{3 * SEGMENT:020}", 128 + 7)
    assert refused(disk).position == 3 * SEGMENT + 128


def test_a_stray_bit_in_the_rest_of_a_segment_too_small_for_a_header() -> None:
    disk = MemoryDisk()
    append(open_log(disk), SEGMENT - 80 - 16)
    disk.flip(FIRST, SEGMENT - 16)
    assert "only 16 bytes are left" in refused(disk).reason


def test_a_stale_copy_of_an_entry_in_the_place_of_another(disk: MemoryDisk) -> None:
    """A misdirected write: the CRC is right, but the entry lies in a wrong place."""
    disk.open(FIRST).write(4 * 128, disk.content(FIRST)[2 * 128 : 3 * 128])
    assert "says that it stands at position 256" in refused(disk).reason


def rewritten(disk: MemoryDisk, at: int, make: Callable[[CommitLog], object]) -> None:
    """Replace the first segment's bytes from `at` on by those of a different history."""
    other = MemoryDisk()
    make(open_log(other))
    disk.open(FIRST).write(at, other.content(FIRST)[at:])


def test_an_entry_of_another_history_breaks_the_chain(disk: MemoryDisk) -> None:
    """Index, term, position and CRC are right; only the chain differs."""

    def make(log: CommitLog) -> None:
        log.append([draft(50 + i, 45) for i in range(7)], term=1, commit=0, now_ms=1000)

    rewritten(disk, 5 * 128, make)
    error = refused(disk)
    assert error.position == 5 * 128
    assert "chain of entry 6" in error.reason


def test_an_old_copy_of_the_first_segment(disk: MemoryDisk) -> None:
    before = MemoryDisk()
    append(open_log(before), 45, 45)
    disk.open(FIRST).write(0, before.content(FIRST))
    assert refused(disk).position == SEGMENT


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_segment(disk: MemoryDisk, number: int) -> None:
    disk.unlink(DIRECTORY / f"{number * SEGMENT:020}")
    assert "missing" in refused(disk).reason


def test_another_segment_size(disk: MemoryDisk) -> None:
    before = files(disk)
    for size in (SEGMENT // 2, SEGMENT * 2):
        with pytest.raises(DamagedError, match=rf"segments (had another size|of this log {size})"):
            CommitLog.open(disk, DIRECTORY, LogSettings(segment_bytes=size))
    assert files(disk) == before


def test_a_shortened_file_with_entries_in_it(disk: MemoryDisk) -> None:
    last = DIRECTORY / f"{3 * SEGMENT:020}"
    whole = disk.content(last)
    disk.unlink(last)
    disk.create(last, 0).write(0, whole[:-8])
    assert f"has {SEGMENT - 8} bytes" in refused(disk).reason


def test_other_files_in_the_directory_are_left_alone(disk: MemoryDisk) -> None:
    disk.create(DIRECTORY / "lost+found", 3)
    disk.create(DIRECTORY / "123", 3)
    assert open_log(disk).last_index == 10


class TestCleanStop:
    @pytest.fixture
    def mark(self, disk: MemoryDisk) -> CleanMark:
        return open_log(disk).clean_mark()

    def test_the_same_log_is_accepted_and_its_prepared_segment_kept(self, disk: MemoryDisk, mark: CleanMark) -> None:
        open_log(disk, clean=mark).prepare_next()
        before = files(disk)
        log = open_log(disk, clean=mark)
        assert (log.last_index, len(content(log))) == (10, 10)
        assert files(disk) == before

    def test_a_lost_end_is_damage(self, disk: MemoryDisk, mark: CleanMark) -> None:
        disk.open(DIRECTORY / f"{3 * SEGMENT:020}").write(0, bytes(8))
        error = refused(disk, mark)
        assert "ends with entry 9" in error.reason
        assert "ended with entry 10" in error.reason
        assert open_log(disk).last_index == 9, "without the mark it is a torn end"

    def test_a_lost_last_segment_is_damage(self, disk: MemoryDisk, mark: CleanMark) -> None:
        disk.unlink(DIRECTORY / f"{3 * SEGMENT:020}")
        refused(disk, mark)

    def test_entries_that_came_later_are_damage(self, disk: MemoryDisk, mark: CleanMark) -> None:
        append(open_log(disk), 5)
        assert "ends with entry 11" in refused(disk, mark).reason

    def test_other_bytes_of_the_same_length_are_damage(self, disk: MemoryDisk, mark: CleanMark) -> None:
        log = open_log(disk)
        log.truncate(9)
        log.append([EntryDraft(EntryKind.BATCH, bytes(45))], term=3, commit=0, now_ms=5000)
        assert "differs from the last entry at the orderly stop" in refused(disk, mark).reason

    def test_an_emptied_directory_is_damage(self, mark: CleanMark) -> None:
        disk = MemoryDisk()
        disk.make_directory(Path("/data/log"))
        assert refused(disk, mark).position == 0


class TestDamageOfAnOpenLog:
    """Bytes of the log are changed after the start has checked them."""

    # Fields that the entry after it does not depend on.
    HARMLESS = ("count", "commit", "base_offset", "topic_id", "queue", "crc", "body", "padding")

    @pytest.fixture
    def log(self, disk: MemoryDisk) -> CommitLog:
        return open_log(disk)

    @pytest.fixture
    def found(self, log: CommitLog) -> list[Flaw]:
        """Return a list to which the damage is added that reads find."""
        found = list[Flaw]()
        log.reading.on_damage = found.append
        return found

    @staticmethod
    def spoil(disk: MemoryDisk, log: CommitLog, index: int, field: str) -> None:
        disk.flip(FIRST, log.reading.position(index) + FIELDS[field][0], bit=4)

    @pytest.mark.parametrize("field", FIELDS)
    def test_an_entry_before_a_range_that_is_sent_again(
        self, disk: MemoryDisk, log: CommitLog, found: list[Flaw], field: str
    ) -> None:
        sent = log.reading.read_range(4, 6)
        self.spoil(disk, log, 3, field)
        if field in self.HARMLESS:
            assert [header.index for header in log.examine(sent, 3)] == [4, 5, 6]
            assert found == []
        else:
            with pytest.raises(RangeDamagedError):
                log.examine(sent, 3)
            assert [(flaw.path, flaw.position, flaw.end, flaw.index) for flaw in found] == [(FIRST, 256, 384, 3)]

    @pytest.mark.parametrize("field", FIELDS)
    def test_the_chain_of_a_damaged_entry_is_not_compared_with_another_log(
        self, disk: MemoryDisk, log: CommitLog, found: list[Flaw], field: str
    ) -> None:
        self.spoil(disk, log, 3, field)
        with pytest.raises(RangeDamagedError):
            log.chain(3)
        assert [flaw.index for flaw in found] == [3]

    @pytest.mark.parametrize("field", FIELDS)
    def test_a_damaged_entry_becomes_neither_the_last_one_nor_the_end_of_a_snapshot(
        self, disk: MemoryDisk, log: CommitLog, field: str
    ) -> None:
        self.spoil(disk, log, 3, field)
        before, tail = files(disk), log.tail
        with pytest.raises(RangeDamagedError):
            log.snapshot_at(3, configuration=b"", state=b"")
        with pytest.raises(RangeDamagedError):
            log.truncate(3)
        assert (files(disk), log.tail) == (before, tail)

    def test_a_neighbour_of_an_entry_with_a_damaged_chain_is_whole(self, disk: MemoryDisk, log: CommitLog) -> None:
        chains = [log.chain(index) for index in range(11)]
        self.spoil(disk, log, 3, "chain")
        for index in (0, 1, 2, 4, 5, 6, 7, 8, 9, 10):
            assert log.chain(index) == chains[index]

    @pytest.mark.parametrize(
        "read",
        [
            CommitLog.entry,
            lambda log, index: log.reading.header(index),
            lambda log, index: log.reading.header_at(log.reading.position(index)),
            lambda log, index: log.reading.entry_at(log.reading.position(index), 125),
        ],
        ids=["entry", "header", "header_at", "entry_at"],
    )
    def test_entries_without_a_header_are_one_damaged_place(
        self, disk: MemoryDisk, log: CommitLog, found: list[Flaw], read: Callable[[CommitLog, int], object]
    ) -> None:
        for index in (3, 4, 5):
            self.spoil(disk, log, index, "magic")
        with pytest.raises(UNREADABLE):
            read(log, 5)
        assert [(flaw.position, flaw.end, flaw.index, flaw.last_index) for flaw in found] == [(256, 640, 3, 5)]

    def test_a_position_at_which_no_entry_begins_is_no_damage_of_the_log(
        self, log: CommitLog, found: list[Flaw]
    ) -> None:
        """The index that names the position is damaged."""
        for position in (8, SEGMENT - 80, log.end):
            with pytest.raises(EntryFlawError):
                log.reading.header_at(position)
        with pytest.raises(EntryFlawError):
            log.reading.entry_at(log.reading.position(3), 79)
        assert found == []

    def test_where_a_damaged_entry_ends_is_known(self, disk: MemoryDisk, log: CommitLog, found: list[Flaw]) -> None:
        self.spoil(disk, log, 3, "magic")
        assert [log.reading.end(index) for index in (0, 3, 7, 10)] == [0, 384, 896, log.end]
        assert found == []

    def test_damage_that_is_known_is_not_reported_again(
        self, disk: MemoryDisk, log: CommitLog, found: list[Flaw]
    ) -> None:
        self.spoil(disk, log, 3, "magic")
        log.reading.mark_damaged(range(3, 4))
        for read in (log.reading.header, log.entry, log.chain):
            with pytest.raises(RangeDamagedError):
                read(3)
        assert found == []
