"""A start that continues from a checkpoint: known entries are not read again, and a wrong checkpoint is not used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import (
    Checkpoint,
    CommitLog,
    DamagedError,
    FileMark,
    Header,
    KnownEntries,
    LogCallbacks,
    LogSettings,
    MemoryDisk,
    PositionFiles,
    PreviousRun,
    Snapshots,
)
from store.log import recovery
from store.log.positions import Positions
from store.snapshot.snapshot import Snapshot
from tests.store.sample_log import DIRECTORY, SEGMENT, append, content, open_log

SHARD = Path("/shard-0")
POSITIONS = Path("/positions")


def checkpoint(index: int = 7, state: bytes = b"state") -> Checkpoint:
    snapshot = Snapshot(index, 3, 4096, 99, 1_000, b"configuration", state)
    return Checkpoint(snapshot, 5, True, (FileMark("queues/1-0/0", 40, 0xFFFF_FFFF), FileMark("keys/ü", 0, 0)))


def test_a_checkpoint_is_read_back_as_it_was_written() -> None:
    assert Checkpoint.decode(checkpoint().encode()) == checkpoint()


@given(st.data())
def test_bytes_that_are_no_checkpoint_are_noticed(data: st.DataObject) -> None:
    whole = checkpoint().encode()
    at, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
    flipped = whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
    for wrong in (flipped, whole[:at], whole + b"\0"):
        with pytest.raises(ValueError, match=r"."):
            Checkpoint.decode(wrong)


def test_a_checkpoint_ends_with_its_log() -> None:
    disk = MemoryDisk()
    snapshots = Snapshots(disk, SHARD)
    number = snapshots.log_number
    snapshots.save(checkpoint(), number)
    assert Snapshots(disk, SHARD).checkpoint() == checkpoint()
    snapshots.begin_reset(checkpoint(3).snapshot)
    assert Snapshots(disk, SHARD).checkpoint() is None
    snapshots.save(checkpoint(), number)  # it was on its way
    snapshots.finish_reset()
    assert Snapshots(disk, SHARD).checkpoint() is None
    snapshots.save(checkpoint(4), snapshots.log_number)
    assert Snapshots(disk, SHARD).checkpoint() == checkpoint(4)


def test_a_checkpoint_before_the_log_start_or_damaged_is_of_no_use(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    snapshots = Snapshots(disk, SHARD)
    snapshots.save(checkpoint(7), 0)
    snapshots.keep(checkpoint(8).snapshot)
    snapshots.begin_behind(checkpoint(8).snapshot)
    assert snapshots.checkpoint() is None
    assert not caplog.messages
    snapshots.save(checkpoint(9), 0)
    disk.open(SHARD / "checkpoint").write(30, b"?")
    assert snapshots.checkpoint() is None
    (told,) = caplog.messages
    assert told.startswith(f"the checkpoint {SHARD / 'checkpoint'} is damaged, so it is ignored")


# -- the log


def grown(entries: int = 30) -> tuple[MemoryDisk, CommitLog]:
    """Return a log with several segments and terms."""
    disk = MemoryDisk()
    log = open_log(disk)
    for number in range(entries):
        append(log, 20 + number, term=1 + number // 7)
    log.sync()
    return disk, log


def known_up_to(log: CommitLog, index: int) -> KnownEntries:
    """Return the known entries up to `index`, as a checkpoint there has them."""
    positions = Positions()
    positions.load(log._state.positions.units(1, index))
    return KnownEntries(log.snapshot_at(index, configuration=b"", state=b"").tail, positions)


def reopen(disk: MemoryDisk, known: KnownEntries, *, after_crash: bool = False) -> tuple[CommitLog, list[int]]:
    read: list[int] = []

    def on_entry(header: Header, _: object) -> None:
        read.append(header.index)

    log = CommitLog.open(
        disk,
        DIRECTORY,
        LogSettings(segment_bytes=SEGMENT),
        PreviousRun(known=known, has_crashed=after_crash),
        LogCallbacks(on_entry=on_entry),
    )
    return log, read


@pytest.fixture
def read_again(monkeypatch: pytest.MonkeyPatch) -> int:
    """Set how many of the known entries recovery reads again."""
    monkeypatch.setattr(recovery, "READ_AGAIN_ENTRIES", 3)
    return 3


@pytest.mark.parametrize("after_crash", [False, True])
@pytest.mark.parametrize("index", [1, 3, 4, 17, 30])
def test_what_is_known_is_not_read_again_but_for_its_end(index: int, after_crash: bool, read_again: int) -> None:
    disk, log = grown()
    found, read = reopen(disk.after_kill(), known_up_to(log, index), after_crash=after_crash)
    assert read == list(range(max(index - read_again, 0) + 1, 31))
    assert content(found) == content(log)
    assert (found.tail.chain, found.end, found.tail.term) == (log.tail.chain, log.end, log.tail.term)
    assert found.known_commit == max(index, log.known_commit)
    assert found.reading.term_runs(1, 30) == log.reading.term_runs(1, 30)
    append(found, 40, 50)
    assert content(open_log(disk_of(found))) == content(found)


def disk_of(log: CommitLog) -> MemoryDisk:
    disk = log.segments._disk
    assert isinstance(disk, MemoryDisk)
    return disk


Spoil = Callable[[MemoryDisk, CommitLog], None]


def flip_in(index: int) -> Spoil:
    def spoil(disk: MemoryDisk, log: CommitLog) -> None:
        position = log.reading.position(index)
        file = disk.open(DIRECTORY / f"{position - position % SEGMENT:020}")
        at = position % SEGMENT + 90
        file.write(at, bytes([file.read(at, 1)[0] ^ 1]))

    return spoil


def cut_behind(index: int) -> Spoil:
    return lambda disk, log: log.truncate(index)


def grow_another(index: int) -> Spoil:
    def spoil(disk: MemoryDisk, log: CommitLog) -> None:
        log.truncate(index)
        while log.last_index < 30:
            append(log, 31, term=9)

    return spoil


def lose_a_segment(disk: MemoryDisk, log: CommitLog) -> None:
    disk.unlink(DIRECTORY / disk.list(DIRECTORY)[-1])


@pytest.mark.parametrize("after_crash", [False, True])
@pytest.mark.parametrize(
    "spoil", [flip_in(30), flip_in(28), cut_behind(29), cut_behind(12), grow_another(25), lose_a_segment]
)
@pytest.mark.usefixtures("read_again")
def test_a_log_that_is_not_as_it_is_known_is_refused(spoil: Spoil, after_crash: bool) -> None:
    disk, log = grown()
    known = known_up_to(log, 30)
    spoil(disk, log)
    with pytest.raises(DamagedError):
        reopen(disk.after_kill(), known, after_crash=after_crash)


def test_what_follows_may_be_torn_by_a_power_loss_and_is_cut(read_again: int) -> None:
    disk, log = grown()
    known = known_up_to(log, 26)
    flip_in(28)(disk, log)
    with pytest.raises(DamagedError):
        reopen(disk.after_kill(), known)
    found, _ = reopen(disk.after_kill(), known, after_crash=True)
    assert found.last_index == 27
    assert found.cut_by_crash


# -- positions


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(0, 60))
def test_positions_come_back_from_their_files(pieces: list[int], first: int) -> None:
    _, log = grown(sum(pieces))
    disk, marks, index = MemoryDisk(), [], 0
    files = PositionFiles(disk, POSITIONS, units_per_file=16)
    files.wipe(1)
    for count in pieces:
        marks = files.add(log.reading.position_units(index + 1, index + count))
        index += count
    begins = min(first, index)
    start_tail = log.snapshot_at(begins, configuration=b"", state=b"").tail if begins else None
    files.begin_at(begins + 1)
    found = PositionFiles(disk, POSITIONS, units_per_file=16).load(start_tail, index, marks)
    assert found is not None
    for entry in range(begins + 1, index + 1):
        assert (found.position(entry), found.term(entry)) == (log.reading.position(entry), log.term(entry))
    assert found.runs(begins + 1, index) == log.reading.term_runs(begins + 1, index)


def test_positions_that_are_not_as_their_marks_say_are_not_believed() -> None:
    _, log = grown()
    disk = MemoryDisk()
    files = PositionFiles(disk, POSITIONS)
    files.wipe(1)
    marks = files.add(log.reading.position_units(1, 30))
    assert PositionFiles(disk, POSITIONS).load(None, 29, marks) is None
    disk.open(POSITIONS / f"{0:020}").write(25, b"?")
    assert PositionFiles(disk, POSITIONS).load(None, 30, marks) is None
