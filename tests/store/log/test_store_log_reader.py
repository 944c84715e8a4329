"""Reading a damaged log: each flaw is found at its place with its extent, and every whole entry around it is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store import CommitLog, Flaw, FlawKind, FoundEntry, LogReader, MemoryDisk, segment_files
from store.log.log_files import usual_length
from store.log.tail import EMPTY, LogTail
from tests.store.sample_log import DIRECTORY, SEGMENT, append, draft, each_kill, open_log

FIRST, SECOND, THIRD, FOURTH = (DIRECTORY / f"{number * SEGMENT:020}" for number in range(4))
SIZE = 128
# One byte of each field. `chain` is not covered by the CRC and has its own test.
FIELDS = {
    "magic": 0, "version": 4, "kind": 5, "size": 8, "count": 12, "index": 16, "term": 24, "position": 32, "commit": 40,
    "append_time_ms": 48, "base_offset": 56, "topic_id": 64, "queue": 68, "crc": 72, "body": 90, "padding": 126,
}  # fmt: skip


@pytest.fixture
def disk() -> MemoryDisk:
    """Return a log with seven entries of 128 bytes and 128 blank bytes in the first segment, two entries of 980 bytes
    in later segments, and three entries of 128 bytes after them."""
    disk = MemoryDisk()
    log = open_log(disk)
    for _ in range(7):
        append(log, 45)
    append(log, 900, 900, term=2)
    append(log, 45, 45, term=3)
    append(log, 45)
    return disk


def read(disk: MemoryDisk, start: LogTail | None = EMPTY, **options: bool) -> tuple[list[int], list[Flaw]]:
    """Return the indexes of the entries found, and the flaws."""
    files = segment_files(disk, DIRECTORY)
    reader = LogReader(disk, files, segment_bytes=SEGMENT, start=start, **options)
    found, flaws = [], []
    for each in reader:
        if isinstance(each, FoundEntry):
            found.append(each.header.index)
        else:
            flaws.append(each)
    return found, flaws


def one(flaws: list[Flaw]) -> tuple[str, Path, int, int | None, int | None]:
    (flaw,) = flaws
    return flaw.kind.value, flaw.path, flaw.position, flaw.index, flaw.end


def test_a_whole_log_has_no_flaw_and_all_entries(disk: MemoryDisk) -> None:
    found, flaws = read(disk)
    assert found == [*range(1, 13)]
    assert not flaws
    assert not read(disk, orderly=True)[1]


def test_what_is_found_is_what_was_written(disk: MemoryDisk) -> None:
    log = open_log(disk.after_kill())
    reader = LogReader(disk, segment_files(disk, DIRECTORY), segment_bytes=SEGMENT, start=EMPTY)
    for found in reader:
        assert isinstance(found, FoundEntry)
        assert (found.header, bytes(found.body)) == (
            log.reading.header(found.header.index),
            log.reading.body(found.header.index),
        )
    assert reader.tail is not None
    assert (reader.tail.index, reader.tail.end, reader.tail.chain) == (log.last_index, log.end, log.tail.chain)
    assert reader.known_commit == log.known_commit


@pytest.mark.parametrize("index", [1, 4, 7, 12])
@pytest.mark.parametrize("field", FIELDS)
def test_a_flipped_bit(disk: MemoryDisk, field: str, index: int) -> None:
    """The bit is also flipped in the first and in the last entry of a segment, and in the last entry of the log."""
    position = open_log(disk.after_kill()).reading.position(index)
    path = DIRECTORY / f"{position // SEGMENT * SEGMENT:020}"
    disk.flip(path, position % SEGMENT + FIELDS[field], 5)
    found, flaws = read(disk)
    assert found == [each for each in range(1, 13) if each != index]
    again = position + SIZE if index in (1, 4) else None
    kind = "unknown" if field in ("version", "kind") and again is None else "damage"
    assert one(flaws) == (kind, path, position, index, again)


def test_a_flipped_bit_in_a_chain_is_one_flaw(disk: MemoryDisk) -> None:
    disk.flip(FIRST, 3 * SIZE + 77)
    found, flaws = read(disk)
    assert found == [*range(1, 13)]
    assert one(flaws) == ("damage", FIRST, 3 * SIZE, 4, 4 * SIZE)


def test_all_of_several_flaws_are_told(disk: MemoryDisk) -> None:
    for path, at in ((FIRST, 90), (FIRST, 4 * SIZE + 90), (THIRD, 90), (FOURTH, 2 * SIZE + 90)):
        disk.flip(path, at)
    found, flaws = read(disk)
    assert found == [2, 3, 4, 6, 7, 8, 10, 11]
    assert [(flaw.path, flaw.position, flaw.index) for flaw in flaws] == [
        (FIRST, 0, 1), (FIRST, 4 * SIZE, 5), (THIRD, 2 * SEGMENT, 9), (FOURTH, 3 * SEGMENT + 2 * SIZE, 12),
    ]  # fmt: skip


def test_swapped_entries(disk: MemoryDisk) -> None:
    data = disk.content(FIRST)
    disk.open(FIRST).write(2 * SIZE, data[3 * SIZE : 4 * SIZE] + data[2 * SIZE : 3 * SIZE])
    found, flaws = read(disk)
    assert found == [1, 2, *range(5, 13)]
    assert one(flaws) == ("damage", FIRST, 2 * SIZE, 3, 4 * SIZE)
    assert flaws[0].last_index == 4
    assert "says that it stands at position 384" in flaws[0].reason


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_segment(disk: MemoryDisk, number: int) -> None:
    disk.unlink(DIRECTORY / f"{number * SEGMENT:020}")
    found, flaws = read(disk)
    lost = {0: range(1, 8), 1: range(8, 9), 2: range(9, 10)}[number]
    assert found == [each for each in range(1, 13) if each not in lost]
    path = DIRECTORY / f"{number * SEGMENT:020}"
    assert one(flaws) == ("damage", path, number * SEGMENT, lost[0], (number + 1) * SEGMENT)


def test_an_old_copy_of_a_segment(disk: MemoryDisk) -> None:
    before = MemoryDisk()
    log = open_log(before)
    append(log, 45)
    append(log, 45)
    disk.open(FIRST).write(0, before.content(FIRST))
    found, flaws = read(disk)
    assert found == [1, 2, *range(8, 13)]
    assert one(flaws) == ("damage", FIRST, 2 * SIZE, 3, SEGMENT)
    assert flaws[0].last_index == 7
    assert "entries 3 to 7 are missing" in flaws[0].reason


def test_an_erased_word_in_a_segment_before_others(disk: MemoryDisk) -> None:
    disk.open(FIRST).write(3 * SIZE, bytes(8))
    found, flaws = read(disk)
    assert found == [1, 2, 3, *range(5, 13)]
    assert one(flaws) == ("damage", FIRST, 3 * SIZE, 4, 4 * SIZE)


def test_an_erased_word_whose_entry_was_committed(disk: MemoryDisk) -> None:
    """Recovery takes this for a torn end. The commit index in later entries shows that it is damage."""
    disk.open(FOURTH).write(0, bytes(8))
    found, flaws = read(disk)
    assert found == [*range(1, 10), 11, 12]
    assert one(flaws) == ("damage", FOURTH, 3 * SEGMENT, 10, 3 * SEGMENT + SIZE)
    assert "say that entry 11 was committed" in flaws[0].reason


def test_a_torn_group_is_no_damage_but_after_an_orderly_stop(disk: MemoryDisk) -> None:
    torn = None
    for _, killed in each_kill(disk, lambda each: append(open_log(each), 45, 45)):
        found, flaws = read(killed)
        assert found in ([*range(1, 13)], [*range(1, 15)])
        assert all(flaw.kind is FlawKind.TORN for flaw in flaws)
        if flaws:
            torn = killed
            assert (flaws[0].path, flaws[0].index) == (FOURTH, 13)
    assert torn is not None
    assert [flaw.kind for flaw in read(torn, orderly=True)[1]] == [FlawKind.DAMAGE]


def test_a_resurrected_tail(disk: MemoryDisk) -> None:
    """Entries that were cut come back after the entries that were written in their place."""
    before = disk.content(FOURTH)
    log = open_log(disk)
    log.truncate(10)
    append(log, 45, term=9)
    disk.open(FOURTH).write(2 * SIZE, before[2 * SIZE : 3 * SIZE])
    found, flaws = read(disk)
    assert found == [*range(1, 13)]
    assert one(flaws) == ("damage", FOURTH, 3 * SEGMENT + 2 * SIZE, 12, 3 * SEGMENT + 3 * SIZE)
    assert "term 3 follows the higher term 9" in flaws[0].reason


def test_an_entry_of_another_history_breaks_the_chain(disk: MemoryDisk) -> None:
    def make(log: CommitLog) -> None:
        for number in range(7):
            log.append([draft(50 + number, 45)], term=1, commit=log.last_index, now_ms=1000 + log.last_index)

    other = MemoryDisk()
    make(open_log(other))
    disk.open(FIRST).write(5 * SIZE, other.content(FIRST)[5 * SIZE :])
    found, flaws = read(disk)
    assert found == [*range(1, 13)]
    assert [(flaw.position, flaw.index) for flaw in flaws] == [(5 * SIZE, 6), (SEGMENT, 8)], "there and back"


def test_a_stray_bit_in_blank_space(disk: MemoryDisk) -> None:
    disk.flip(FIRST, 7 * SIZE + 50)
    disk.flip(FOURTH, 3 * SIZE + 60)
    found, flaws = read(disk)
    assert found == [*range(1, 13)]
    assert [(flaw.kind, flaw.position) for flaw in flaws] == [
        (FlawKind.DAMAGE, 7 * SIZE + 50),
        (FlawKind.TORN, 3 * SEGMENT + 3 * SIZE + 60),
    ]


@pytest.mark.parametrize("length", [0, 8, 300, SEGMENT + 8])
def test_a_file_of_another_length(disk: MemoryDisk, length: int) -> None:
    whole = disk.content(SECOND)
    disk.unlink(SECOND)
    disk.create(SECOND, 0).write(0, whole.ljust(length, b"\0")[:length])
    found, flaws = read(disk)
    assert found == [each for each in range(1, 13) if each != 8 or length > SEGMENT]
    assert all(flaw.path == SECOND for flaw in flaws)
    assert f"has {length} bytes" in flaws[0].reason


def test_a_half_made_last_file_is_torn(disk: MemoryDisk) -> None:
    disk.create(DIRECTORY / f"{4 * SEGMENT:020}", 100)
    found, flaws = read(disk)
    assert len(found) == 12
    assert [flaw.kind for flaw in flaws] == [FlawKind.TORN]
    assert [flaw.kind for flaw in read(disk, orderly=True)[1]] == [FlawKind.DAMAGE]


def test_a_version_that_nobody_here_knows(disk: MemoryDisk) -> None:
    """If no other entry is found after it, another version has written the entry, not a flipped bit."""
    only = MemoryDisk()
    append(open_log(only), 45)
    only.open(FIRST).write(4, b"\x07")
    assert one(read(only)[1]) == ("unknown", FIRST, 0, 1, None)


def test_a_segment_alone(disk: MemoryDisk) -> None:
    (segment,) = [each for each in segment_files(disk, DIRECTORY) if each.path == FOURTH]
    reader = LogReader(disk, [segment], segment_bytes=SEGMENT, start=None)
    assert [each.header.index for each in reader if isinstance(each, FoundEntry)] == [10, 11, 12]


def test_what_lies_before_a_base_is_passed_over(disk: MemoryDisk) -> None:
    log = open_log(disk.after_kill())
    start_tail = LogTail.of(log.reading.header(3))
    disk.flip(FIRST, 90)
    found, flaws = read(disk, start=start_tail)
    assert found == [*range(4, 13)]
    assert not flaws


def test_the_length_that_most_segments_have_is_the_logs(disk: MemoryDisk) -> None:
    disk.unlink(SECOND)
    disk.create(SECOND, 17)
    assert usual_length(disk, segment_files(disk, DIRECTORY)) == SEGMENT
    assert usual_length(disk, []) == 0


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_happens_to_the_bytes_no_whole_entry_is_lost_and_none_is_invented(
    disk: MemoryDisk, data: st.DataObject
) -> None:
    """Random bytes of random segments are replaced. Every untouched entry is found, every entry found was written, and
    every missing entry lies in a flaw or before a flaw."""
    disk = disk.after_kill()
    log = open_log(disk.after_kill())
    headers = [log.reading.header(index) for index in range(1, 13)]
    whole = b"".join(disk.content(path) for path in (FIRST, SECOND, THIRD, FOURTH))
    for _ in range(data.draw(st.integers(1, 3), label="damages")):
        header = data.draw(st.sampled_from(headers[:9]), label="entry")
        at = data.draw(st.integers(header.position, header.end - 1), label="position")
        room = min(40, SEGMENT - at % SEGMENT)
        fresh = data.draw(st.binary(min_size=1, max_size=room), label="bytes")
        disk.open(DIRECTORY / f"{at // SEGMENT * SEGMENT:020}").write(at % SEGMENT, fresh)
    now = b"".join(disk.content(path) for path in (FIRST, SECOND, THIRD, FOURTH))
    touched = {each.index for each in headers if now[each.position : each.end] != whole[each.position : each.end]}
    reader = LogReader(disk, segment_files(disk, DIRECTORY), segment_bytes=SEGMENT, start=EMPTY)
    found, flaws = [], []
    for each in reader:
        found.append(each.header) if isinstance(each, FoundEntry) else flaws.append(each)
    wrong = {header.index for header in found if header not in headers}
    assert wrong <= touched, "only a chain, which no CRC covers, can be another one in an entry that is found"
    assert {header.index for header in headers} - {header.index for header in found} <= touched
    assert bool(flaws) or not touched


def test_reading_changes_nothing(disk: MemoryDisk) -> None:
    disk.flip(FIRST, 90)
    before = {name: disk.content(DIRECTORY / name) for name in disk.list(DIRECTORY)}
    read(disk)
    assert {name: disk.content(DIRECTORY / name) for name in disk.list(DIRECTORY)} == before
