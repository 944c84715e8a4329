"""Startup repair of a damaged log from a whole log: taken entries, cut entries, and the repair mark."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from store import (
    CleanMark,
    CommitLog,
    Disk,
    LogDamagedError,
    LogRepair,
    LogToRepair,
    MemoryDisk,
    RepairCallbacks,
    Taken,
)
from store.log.tail import EMPTY
from tests.store.sample_log import DIRECTORY, SEGMENT, append, content, each_kill, open_log

FIRST, SECOND, THIRD, FOURTH = (DIRECTORY / f"{number * SEGMENT:020}" for number in range(4))
# Number of entries of the sample.
ALL = 10


@pytest.fixture
def disk() -> MemoryDisk:
    """Return a log with seven entries of 128 bytes and 128 blank bytes in the first segment, two entries of 980 bytes
    in later segments, and one entry of 128 bytes after them."""
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, *[45] * 7)
    append(log, 900, 900, term=2)
    append(log, 45, term=3)
    return disk


@pytest.fixture
def other(disk: MemoryDisk) -> CommitLog:
    """Return the same log on another node."""
    return open_log(disk.after_kill())


class Mark:
    """The repair mark that a node would keep in its directory."""

    def __init__(self) -> None:
        self.is_there = self.ends = False

    def begin(self, ends: bool) -> None:
        self.is_there, self.ends = True, self.ends or ends

    def found_again(self) -> None:
        self.is_there = self.ends


def repair_of(disk: Disk, mark: Mark, clean: CleanMark | None = None, least: int = 0) -> LogRepair:
    log = LogToRepair(DIRECTORY, SEGMENT, EMPTY, clean, least)
    return LogRepair(disk, log, RepairCallbacks(mark.begin, mark.found_again))


def ask(other: CommitLog, index: int, max_bytes: int = 300) -> bytes:
    """Return the entries of the other log after entry `index`."""
    return (
        other.reading.read_range(index + 1, other.reading.reach(index + 1, max_bytes))
        if index < other.last_index
        else b""
    )


def take_all(repair: LogRepair, other: CommitLog, commit: int) -> Taken:
    """Take all entries that the other log has, in small ranges."""
    while (taken := repair.take(ask(other, repair.tail.index), commit)) is Taken.MORE:
        pass
    return taken


def heal(disk: Disk, other: CommitLog, mark: Mark, commit: int = ALL, clean: CleanMark | None = None) -> CommitLog:
    """Repair until the log opens, and cut if that is permitted."""
    for _ in range(20):
        try:
            return open_log(disk, clean=None if mark.ends else clean)
        except LogDamagedError:
            repair = repair_of(disk, mark, clean)
            if take_all(repair, other, commit) is not Taken.ALL:
                assert repair.may_cut(commit), "nobody can help"
                repair.cut()
    raise AssertionError("it does not open")


def files(disk: MemoryDisk) -> dict[Path, bytes]:
    return {DIRECTORY / name: disk.content(DIRECTORY / name) for name in disk.list(DIRECTORY)}


def put(disk: MemoryDisk, path: Path, data: bytes) -> None:
    """Replace a file by another file."""
    if disk.exists(path):
        disk.unlink(path)
    disk.create(path, len(data)).write(0, data)


@pytest.mark.parametrize("index", [1, 4, 7, 8, 9])
def test_a_flipped_bit_anywhere_in_an_entry_is_as_if_it_had_never_been(
    disk: MemoryDisk, other: CommitLog, index: int
) -> None:
    whole, position = files(disk), other.reading.position(index)
    for at in range(position, other.reading.header(index).end, 5):
        path = DIRECTORY / f"{position // SEGMENT * SEGMENT:020}"
        disk.flip(path, at % SEGMENT, at % 8)
        mark = Mark()
        heal(disk, other, mark, commit=0)  # nobody need know that it is committed: what follows is ours
        assert files(disk) == whole
        assert not mark.is_there


def test_the_last_entry_comes_back_where_it_is_known_to_be_committed_and_the_doubt_stays(
    disk: MemoryDisk, other: CommitLog
) -> None:
    whole, mark = files(disk), Mark()
    disk.flip(FOURTH, 90)
    heal(disk, other, mark)
    assert files(disk) == whole
    assert mark.is_there


def test_a_last_entry_that_nobody_knows_to_be_committed_is_cut_and_the_doubt_stays(
    disk: MemoryDisk, other: CommitLog
) -> None:
    mark = Mark()
    disk.flip(FOURTH, 90)
    log = heal(disk, other, mark, commit=ALL - 1)
    assert content(log) == content(other)[:-1]
    assert mark.is_there
    assert mark.ends


@pytest.mark.parametrize("path", [FIRST, SECOND, THIRD])
@pytest.mark.parametrize("change", ["missing", "blank", "short", "long", "noise"])
def test_a_whole_segment(disk: MemoryDisk, other: CommitLog, path: Path, change: str) -> None:
    whole, data = files(disk), disk.content(path)
    disk.unlink(path)
    if change != "missing":
        noise = (data[:200][::-1] * 6)[:SEGMENT]
        put(disk, path, {"blank": bytes(SEGMENT), "short": data[:500], "long": data + b"x", "noise": noise}[change])
    mark = Mark()
    heal(disk, other, mark)
    assert files(disk) == whole
    assert not mark.is_there


def test_an_old_copy_of_a_segment(disk: MemoryDisk, other: CommitLog) -> None:
    whole = files(disk)
    put(disk, FIRST, disk.content(FIRST)[:384] + bytes(SEGMENT - 384))
    mark = Mark()
    heal(disk, other, mark)
    assert files(disk) == whole
    assert not mark.is_there


def test_after_an_orderly_stop_the_end_itself_is_found_again(disk: MemoryDisk, other: CommitLog) -> None:
    whole, mark, clean = files(disk), Mark(), open_log(disk).clean_mark()
    disk.flip(FOURTH, 90)
    heal(disk, other, mark, commit=0, clean=clean)
    assert files(disk) == whole
    assert not mark.is_there


def test_two_logs_that_are_damaged_at_different_places_heal_each_other(disk: MemoryDisk) -> None:
    whole, first, second = files(disk), disk, disk.after_kill()
    first.flip(FIRST, 300)
    second.flip(SECOND, 300)
    marks = Mark(), Mark()
    prefix = repair_of(second, marks[1]).prefix
    repair = repair_of(first, marks[0])
    data = prefix.read_range(repair.tail.index + 1, prefix.last_index)
    assert repair.take(data, prefix.known_commit) is Taken.ALL
    heal(second, open_log(first), marks[1])
    assert files(first) == files(second) == whole


def test_nothing_is_cut_while_whole_entries_lie_behind(disk: MemoryDisk) -> None:
    """The other log has lost its end and does not know which entries were committed."""
    other = open_log(disk.after_kill())
    other.truncate(3)
    disk.flip(FIRST, 3 * 128 + 20)
    before, mark = files(disk), Mark()
    repair = repair_of(disk, mark)
    assert take_all(repair, other, commit=2) is Taken.NOTHING
    assert not repair.may_cut(2)
    last = repair.last_behind()
    assert last is not None
    assert last.index == ALL
    assert files(disk) == before
    assert not mark.is_there


def test_a_branch_that_a_committed_entry_contradicts_is_cut(disk: MemoryDisk) -> None:
    """This log has entries 4 to 10 of a deposed leader. The other replicas have committed other entries 4 and 5."""
    other = open_log(disk.after_kill())
    other.truncate(3)
    append(other, 30, 200, term=9)
    disk.flip(FIRST, 3 * 128 + 90)
    mark = Mark()
    log = heal(disk, other, mark, commit=5)
    assert content(log) == content(other)
    assert mark.is_there


def test_a_tail_of_a_branch_that_is_given_up_is_found_by_what_was_committed(disk: MemoryDisk) -> None:
    """The last whole entry before the flaw is not in the other log at all."""
    other = open_log(disk.after_kill())
    other.truncate(8)
    append(other, 30, 31, term=9)
    disk.flip(FOURTH, 90)
    mark = Mark()
    repair = repair_of(disk, mark)
    assert repair.tail.index == 9
    assert other.reading.tail_at(9).chain != repair.tail.chain
    common = repair.committed_tail()
    while common != repair.tail:
        found = repair.align(common, ask(other, common.index), 10)
        assert found is not None
        common = found
    assert common.index == 8
    assert take_all(repair, other, 10) is Taken.NOTHING
    assert content(open_log(disk)) == content(other)
    assert mark.ends


def test_a_cut_file_may_end_where_it_was_cut(disk: MemoryDisk, other: CommitLog) -> None:
    put(disk, FOURTH, files(disk)[FOURTH][:90])
    mark = Mark()
    repair = repair_of(disk, mark)
    assert repair.may_end
    repair.cut()
    assert content(open_log(disk)) == content(other)[:-1]
    assert mark.ends, "it may have acknowledged more: that doubt stays"


def test_a_log_ends_nowhere_before_what_is_known_of_it(disk: MemoryDisk, other: CommitLog) -> None:
    put(disk, THIRD, files(disk)[THIRD][:90])
    assert not repair_of(disk, Mark()).may_end, "an entry of its own lies behind"
    disk.unlink(FOURTH)
    assert repair_of(disk, Mark()).may_end
    assert not repair_of(disk, Mark(), clean=other.clean_mark()).may_end, "it was longer when it was stopped in order"
    vouched_for = repair_of(disk, Mark(), least=9)
    assert not vouched_for.may_end
    vouched_for.take(ask(other, 8, 1), commit=9)
    assert vouched_for.may_end


def test_what_a_checkpoint_vouches_for_is_not_given_up(disk: MemoryDisk, other: CommitLog) -> None:
    """The other log has lost its end, too."""
    other.truncate(ALL - 1)
    disk.flip(FOURTH, 90)
    assert repair_of(disk, Mark(), least=ALL - 1).may_cut(ALL - 1)
    assert not repair_of(disk, Mark(), least=ALL).may_cut(ALL - 1)


def test_what_differs_and_is_not_committed_stays_as_it_is(disk: MemoryDisk) -> None:
    other = open_log(disk.after_kill())
    other.truncate(8)
    append(other, 30, term=9)
    disk.flip(FOURTH, 90)
    before, mark = files(disk), Mark()
    repair = repair_of(disk, mark)
    common = repair.committed_tail()
    assert common.index == 7
    common = repair.align(common, ask(other, 7), 8) or common
    assert repair.align(common, ask(other, 8), 8) is None
    assert files(disk) == before


def test_another_log_gives_nothing(disk: MemoryDisk) -> None:
    stranger = open_log(MemoryDisk())
    append(stranger, *[44] * 10, term=4)
    disk.flip(FIRST, 300)
    before, mark = files(disk), Mark()
    assert take_all(repair_of(disk, mark), stranger, 10) is Taken.NOTHING
    assert files(disk) == before
    assert not mark.is_there


def test_damage_on_the_way_gives_what_comes_before_it(disk: MemoryDisk, other: CommitLog) -> None:
    put(disk, FIRST, bytes(SEGMENT))
    data = bytearray(other.reading.read_range(1, 7))
    data[300] ^= 1
    repair = repair_of(disk, Mark())
    assert repair.take(bytes(data), ALL) is Taken.MORE
    assert repair.tail.index == 2


def test_segments_of_another_size_are_left_alone(disk: MemoryDisk, other: CommitLog) -> None:
    """A wrong setting of `segment_bytes` repairs nothing, because no entry fits into such a log."""
    mark, before = Mark(), files(disk)
    log = LogToRepair(DIRECTORY, 2 * SEGMENT, EMPTY)
    repair = LogRepair(disk, log, RepairCallbacks(mark.begin, mark.found_again))
    assert repair.tail.index == 7
    assert take_all(repair, other, ALL) is Taken.NOTHING
    assert files(disk) == before


@pytest.mark.long
@pytest.mark.parametrize("damage", ["bit", "missing", "end"])
def test_a_repair_that_is_killed_at_any_byte(disk: MemoryDisk, other: CommitLog, damage: str) -> None:
    """After the kill the log is still damaged, or as it was before the damage, or there is a repair mark. It can be
    repaired again."""
    whole = files(disk)
    if damage == "missing":
        disk.unlink(SECOND)
    else:
        disk.flip(FIRST if damage == "bit" else FOURTH, 90)
    marks: list[Mark] = []

    def act(dying: MemoryDisk) -> None:
        marks.append(Mark())
        heal(dying, other, marks[-1])

    for _, found in each_kill(disk, act):
        mark = marks[-1]
        with suppress(LogDamagedError):
            assert content(open_log(found.after_kill())) == content(other) or mark.is_there
        heal(found, other, mark)
        assert {path: data for path, data in files(found).items() if path in whole} == whole


@pytest.mark.long
def test_a_repair_that_is_killed_hides_no_loss(disk: MemoryDisk, other: CommitLog) -> None:
    """The last entry is lost without a trace, and the entry before it is repaired. If the log then opens, there is a
    repair mark."""
    disk.flip(THIRD, 90)
    put(disk, FOURTH, bytes(SEGMENT))
    marks: list[Mark] = []

    def act(dying: MemoryDisk) -> None:
        marks.append(Mark())
        heal(dying, other, marks[-1], commit=ALL - 1)

    opened = 0
    for _, found in each_kill(disk, act):
        with suppress(LogDamagedError):
            opened += open_log(found).last_index == ALL - 1
            assert marks[-1].is_there
    assert opened > 0
