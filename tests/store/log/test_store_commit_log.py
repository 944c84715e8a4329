"""The CommitLog through its public methods, on both disks: a leader's appends, a follower's copies, cuts and reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from store import (
    CommitLog,
    CorruptRangeError,
    Disk,
    EntryDraft,
    EntryKind,
    ForkedError,
    Header,
    LogCallbacks,
    LogSettings,
    MemoryDisk,
    PosixDisk,
    PreviousRun,
)
from store.log.entry import HEADER_SIZE, encode
from tests.store.sample_log import DIRECTORY, SEGMENT, append, content, draft, open_log


@pytest.fixture(params=["posix", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, Path]:
    return (PosixDisk(), tmp_path / "log") if request.param == "posix" else (MemoryDisk(), DIRECTORY)


def copied(source: CommitLog, target: CommitLog, max_bytes: int = 1 << 20) -> None:
    """Copy the leader's log to a follower, range by range."""
    while target.last_index < source.last_index:
        first = target.last_index + 1
        data = source.reading.read_range(first, source.reading.reach(first, max_bytes))
        target.write(data, target.examine(data, first - 1), first)


def test_an_empty_log(place: tuple[Disk, Path]) -> None:
    log = open_log(*place)
    assert (log.first_index, log.last_index, log.tail.term, log.tail.chain, log.end) == (1, 0, 0, 0, 0)
    assert (log.known_commit, log.tail.append_time_ms) == (0, 0)
    assert (log.term(0), log.sync()) == (0, (0, 0))
    assert log.append([], term=1, commit=0, now_ms=5) == []
    assert log.examine(b"", 0) == []
    assert content(open_log(*place)) == []


def test_append_gives_headers_and_reads_back_over_segments_and_restarts(place: tuple[Disk, Path]) -> None:
    log = open_log(*place)
    drafts = [draft(i, size) for i, size in enumerate((20, 300, 0, 500, 944, 1, 700, 200), 1)]
    headers = log.append(drafts[:5], term=3, commit=0, now_ms=50)
    headers += log.append(drafts[5:], term=4, commit=5, now_ms=60)
    assert [header.position for header in headers] == [0, 104, 488, 1024, 2048, 3072, 3160, 4096]
    assert [header.term for header in headers] == [3] * 5 + [4] * 3
    assert [header.commit for header in headers] == [0] * 5 + [5] * 3
    seen: list[tuple[Header, bytes]] = []
    progress: list[tuple[int, int]] = []
    again = CommitLog.open(
        *place,
        LogSettings(segment_bytes=SEGMENT),
        callbacks=LogCallbacks(
            on_entry=lambda header, body: seen.append((header, bytes(body))),
            on_progress=lambda done, total: progress.append((done, total)),
        ),
    )
    for found in (log, again):
        assert content(found) == [
            (header.index, header.term, header.position, made.body)
            for header, made in zip(headers, drafts, strict=True)
        ]
        assert [found.reading.header(i) for i in range(1, 9)] == headers
        assert (found.last_index, found.tail.term, found.end, found.tail.chain) == (8, 4, 4376, headers[-1].chain)
        assert (found.known_commit, found.tail.append_time_ms) == (5, 60)
        assert [found.reading.header(i).chain for i in range(1, 9)] == [header.chain for header in headers]
        assert found.reading.term_runs(4, 8) == [(4, 3), (6, 4)]
        pairs = [(header, bytes(body)) for header, body in map(found.entry, range(1, 9))]
        assert pairs == list(zip(headers, [made.body for made in drafts], strict=True))
        header, body = found.reading.entry_at(488, HEADER_SIZE)
        assert (header, bytes(body)) == (headers[2], b"")
        assert found.reading.entry_at(104, HEADER_SIZE + 300)[1] == drafts[1].body
    assert seen == list(zip(headers, [made.body for made in drafts], strict=True))
    assert progress[-1] == (5 * SEGMENT, 5 * SEGMENT)


def test_what_a_draft_says_is_in_its_header(place: tuple[Disk, Path]) -> None:
    log = open_log(*place)
    (header,) = log.append([EntryDraft(EntryKind.COMMAND, b"x", 9, 8, 7, 6)], term=5, commit=0, now_ms=4)
    assert (header.kind, header.topic_id, header.queue, header.base_offset, header.count) == (
        EntryKind.COMMAND,
        9,
        8,
        7,
        6,
    )
    assert (header.index, header.term, header.append_time_ms, header.flags) == (1, 5, 4, 0)


def test_append_time_never_falls(place: tuple[Disk, Path]) -> None:
    log = open_log(*place)
    times = [log.append([draft(1)], term=1, commit=0, now_ms=now)[0].append_time_ms for now in (100, 90, 101)]
    assert times == [100, 100, 101]
    log.truncate(2)
    assert log.tail.append_time_ms == 100


def test_known_commit_is_the_largest_ever_mentioned(place: tuple[Disk, Path]) -> None:
    log = open_log(*place)
    append(log, 10, 10, 10)
    log.append([draft(4)], term=1, commit=3, now_ms=0)
    log.append([draft(5)], term=2, commit=1, now_ms=0)
    assert log.known_commit == open_log(*place).known_commit == 3


def test_an_entry_may_fill_a_segment_but_not_exceed_it(place: tuple[Disk, Path]) -> None:
    log = open_log(*place)
    append(log, SEGMENT - HEADER_SIZE, SEGMENT - HEADER_SIZE, 1)
    assert [log.reading.position(i) for i in (1, 2, 3)] == [0, SEGMENT, 2 * SEGMENT]
    with pytest.raises(AssertionError):
        append(log, SEGMENT - HEADER_SIZE + 1)
    assert len(content(open_log(*place))) == 3


def test_an_empty_body_that_ends_with_its_segment(place: tuple[Disk, Path]) -> None:
    log = open_log(*place)
    append(log, SEGMENT - 2 * HEADER_SIZE, 0)
    assert log.end == SEGMENT
    reading = log.reading
    assert (reading.body(2), bytes(reading.entry(2)[1])) == (b"", b"")
    assert bytes(reading.entry_at(reading.position(2), HEADER_SIZE)[1]) == b""
    assert content(open_log(*place)) == content(log)


@pytest.mark.parametrize("max_bytes", [1, 200, 500, 1 << 20])
def test_a_follower_ends_byte_identical(place: tuple[Disk, Path], max_bytes: int) -> None:
    disk, root = place
    leader = open_log(disk, root / "leader")
    follower = open_log(disk, root / "follower")
    append(leader, 10, 200, 300, 400, term=1)
    append(leader, 50, 944, 0, 0, 33, term=2)
    copied(leader, follower, max_bytes)
    assert content(follower) == content(leader)
    assert (follower.end, follower.tail.chain, follower.known_commit) == (
        leader.end,
        leader.tail.chain,
        leader.known_commit,
    )
    names = disk.list(root / "leader")
    assert names == disk.list(root / "follower")
    for name in names:
        ours, theirs = (disk.open(root / which / name).read(0, SEGMENT) for which in ("leader", "follower"))
        assert ours == theirs
    assert content(open_log(disk, root / "follower")) == content(leader)


def test_write_takes_only_what_is_new_of_a_range(place: tuple[Disk, Path]) -> None:
    disk, root = place
    leader = open_log(disk, root / "leader")
    follower = open_log(disk, root / "follower")
    append(leader, 10, 20, 30)
    copied(leader, follower)
    append(leader, 40, 50)
    data = leader.reading.read_range(2, 5)
    follower.write(data, follower.examine(data, 1), 4)
    assert content(follower) == content(leader)


def test_reach_stays_in_one_segment_and_in_the_bytes_but_gives_one_at_least(place: tuple[Disk, Path]) -> None:
    log = open_log(*place)
    append(log, 120, 120, 120, 120, 120, 900)  # 200 bytes each; the fifth ends at 1000
    assert log.reading.reach(1, 1) == log.reading.reach(1, 200) == log.reading.reach(1, 399) == 1
    assert log.reading.reach(1, 400) == 2
    assert log.reading.reach(1, 1 << 20) == log.reading.reach(5, 1 << 20) == 5
    assert log.reading.reach(6, 1) == 6
    assert (log.reading.span(1, 1), log.reading.span(2, 5)) == (200, 800)
    assert log.reading.read_range(2, 3) == log.reading.read_range(2, 2) + log.reading.read_range(3, 3)


def test_a_view_of_a_range_is_no_copy(place: tuple[Disk, Path]) -> None:
    log = open_log(*place)
    append(log, 120, 120, 120)
    view, copy = log.view_range(2, 3), log.reading.read_range(2, 3)
    assert view == copy
    log.truncate(2)
    assert view != copy


def test_truncate_cuts_to_the_end_of_the_entry_and_erases(place: tuple[Disk, Path]) -> None:
    disk, root = place
    log = open_log(disk, root)
    append(log, 100, 100, 900, 50, 900, term=1)
    before = content(log)
    chain = log.reading.header(2).chain
    log.truncate(2)
    assert (log.last_index, log.end, log.tail.chain, log.tail.term) == (2, 368, chain, 1)
    assert content(log) == before[:2]
    assert list(disk.list(root)) == [f"{0:020}"]
    assert not any(disk.open(root / f"{0:020}").read(368, SEGMENT))
    append(log, 30, 900, term=7)
    assert [log.reading.position(i) for i in (3, 4)] == [368, 1024]
    assert content(open_log(disk, root)) == content(log)


def test_truncate_to_nothing(place: tuple[Disk, Path]) -> None:
    log = open_log(*place)
    append(log, 900, 900)
    log.truncate(0)
    assert (log.last_index, log.end, log.tail.chain, log.tail.term) == (0, 0, 0, 0)
    append(log, 5)
    assert content(open_log(*place)) == content(log)
    assert log.reading.position(1) == 0


def test_truncate_below_a_segment_border_takes_the_blank_too(place: tuple[Disk, Path]) -> None:
    log = open_log(*place)
    append(log, 800, 800)
    log.truncate(1)
    assert log.end == 880
    append(log, 60)
    assert log.reading.position(2) == 880


def test_the_next_segment_is_prepared_ahead(place: tuple[Disk, Path]) -> None:
    disk, root = place
    log = open_log(disk, root)
    prepared = [log.next_is_prepared]
    log.prepare_next()
    prepared.append(log.next_is_prepared)
    assert list(disk.list(root)) == [f"{0:020}", f"{SEGMENT:020}"]
    append(log, 900, 900)
    prepared.append(log.next_is_prepared)
    assert prepared == [False, True, False]
    log.prepare_next()
    log.prepare_next()
    assert len(disk.list(root)) == 3
    assert content(open_log(disk, root)) == content(log)


def test_more_segments_than_may_be_open(place: tuple[Disk, Path]) -> None:
    log = open_log(*place)
    append(log, *[900] * 150)
    assert log.sync() == (150, 1)
    assert content(log) == content(open_log(*place))


class TestExamine:
    """A follower refuses wrong ranges, and a refused range leaves no trace."""

    @pytest.fixture
    def leader(self) -> CommitLog:
        log = open_log(MemoryDisk())
        append(log, 30, 40, 50, term=2)
        append(log, 60, 13, term=3)
        return log

    @pytest.fixture
    def follower(self, leader: CommitLog) -> CommitLog:
        log = open_log(MemoryDisk())
        data = leader.reading.read_range(1, 2)
        log.write(data, log.examine(data, 0), 1)
        return log

    def test_every_flipped_bit_is_refused(self, leader: CommitLog, follower: CommitLog) -> None:
        data = leader.reading.read_range(3, 5)
        for bit in range(len(data) * 8):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            with pytest.raises((CorruptRangeError, ForkedError)):
                follower.examine(bytes(flipped), 2)
        assert follower.last_index == 2
        assert follower.examine(data, 2) == [leader.reading.header(i) for i in (3, 4, 5)]

    def test_every_cut_but_those_between_entries_is_refused(self, leader: CommitLog, follower: CommitLog) -> None:
        data = leader.reading.read_range(3, 5)
        whole = {leader.reading.header(i).end - leader.reading.position(3) for i in (3, 4, 5)}
        for length in range(1, len(data) + 1):
            if length in whole:
                assert follower.examine(data[:length], 2)
            else:
                with pytest.raises(CorruptRangeError):
                    follower.examine(data[:length], 2)

    def test_a_gap_is_refused(self, leader: CommitLog, follower: CommitLog) -> None:
        with pytest.raises(CorruptRangeError, match=r"belongs at|follows index"):
            follower.examine(leader.reading.read_range(4, 5), 2)
        with pytest.raises(CorruptRangeError):
            follower.examine(leader.reading.read_range(3, 3) + leader.reading.read_range(5, 5), 2)

    def test_entries_of_two_segments_are_refused(self, follower: CommitLog) -> None:
        other = open_log(MemoryDisk())
        data = follower.reading.read_range(1, 2)
        other.write(data, other.examine(data, 0), 1)
        append(other, SEGMENT - follower.end - HEADER_SIZE, 5)
        joined = other.reading.read_range(3, 3) + other.reading.read_range(4, 4)
        assert follower.examine(other.reading.read_range(3, 3), 2)
        with pytest.raises(CorruptRangeError, match="two segments"):
            follower.examine(joined, 2)

    def test_an_entry_at_a_place_of_another_grid_is_refused(self, follower: CommitLog) -> None:
        large = CommitLog.open(MemoryDisk(), DIRECTORY, LogSettings(segment_bytes=8 * SEGMENT))
        data = follower.reading.read_range(1, 2)
        large.write(data, large.examine(data, 0), 1)
        append(large, SEGMENT - 100)
        with pytest.raises(CorruptRangeError, match="belongs at position 1024"):
            follower.examine(large.reading.read_range(3, 3), 2)
        append(large, 5 * SEGMENT)
        with pytest.raises(CorruptRangeError):
            follower.examine(large.reading.read_range(4, 4), 2)

    def test_a_falling_term_or_time_or_a_commit_ahead_is_refused(self) -> None:
        draft_ = draft(1)
        for fields, message in [
            ({"term": 4}, "term 4 follows"),
            ({"append_time_ms": 99}, "append time 99"),
            ({"commit": 2}, "claims that 2 was committed"),
        ]:
            ours = open_log(MemoryDisk())
            (first,) = ours.append([draft_], term=5, commit=0, now_ms=100)
            values = {"term": 5, "append_time_ms": 100, "commit": 0} | fields
            _, pieces = encode(draft_, index=2, position=first.end, previous_chain=first.chain, **values)
            with pytest.raises(CorruptRangeError, match=message):
                ours.examine(b"".join(pieces), 1)

    def test_a_sound_range_of_another_history_is_a_fork(self, leader: CommitLog) -> None:
        other = open_log(MemoryDisk())
        other.append([draft(77, 30), draft(78, 40)], term=2, commit=0, now_ms=1000)
        assert other.end == leader.reading.header(2).end
        with pytest.raises(ForkedError, match="replicas differ at index 3"):
            other.examine(leader.reading.read_range(3, 4), 2)

    def test_a_fork_is_no_damage_though_the_other_history_has_entries_of_other_sizes(self, leader: CommitLog) -> None:
        """Before, such a range was taken for a damaged one, and was requested again for ever."""
        other = open_log(MemoryDisk())
        other.append([draft(77, 30), draft(78, 400)], term=2, commit=0, now_ms=1000)
        assert other.end != leader.reading.header(2).end
        with pytest.raises(ForkedError, match="replicas differ at index 3"):
            other.examine(leader.reading.read_range(3, 4), 2)

    def test_the_chain_up_to_each_entry(self, leader: CommitLog) -> None:
        assert leader.chain(0) == 0
        indexes = range(1, leader.last_index + 1)
        assert [leader.chain(index) for index in indexes] == [leader.reading.header(index).chain for index in indexes]

    def test_write_sees_a_fork_inside_a_range(self, leader: CommitLog, follower: CommitLog) -> None:
        follower.truncate(1)
        follower.append([draft(99, 40)], term=2, commit=0, now_ms=1000)
        data = leader.reading.read_range(2, 4)
        headers = follower.examine(data, 1)
        with pytest.raises(ForkedError, match="replicas differ at index 2"):
            follower.write(data, headers, 3)
        assert follower.last_index == 2

    def test_headers_that_do_not_come_next_are_a_programming_error(
        self, leader: CommitLog, follower: CommitLog
    ) -> None:
        data = leader.reading.read_range(3, 5)
        headers = follower.examine(data, 2)
        with pytest.raises(AssertionError):
            follower.write(data, headers, 4)
        with pytest.raises(AssertionError):
            follower.write(data, [replace(headers[0], position=0)], 3)


class CountedSyncs(MemoryDisk):
    """A memory disk that notes which files were fsynced."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: set[str] = set()

    def before(self, operation: str, path: Path) -> None:
        super().before(operation, path)
        if operation in ("sync", "sync_directory"):
            self.synced.add(path.name)


def test_after_a_kill_the_first_sync_covers_every_segment_and_their_names() -> None:
    before = MemoryDisk()
    log = CommitLog.open(before, DIRECTORY, LogSettings(segment_bytes=SEGMENT))
    while len(before.list(DIRECTORY)) < 4:
        log.append([EntryDraft(EntryKind.COMMAND, bytes(300))], term=1, commit=0, now_ms=0)
    for clean in (None, log.clean_mark()):
        disk = CountedSyncs()
        disk._files, disk._directories = before.after_kill()._files, before.after_kill()._directories
        found = CommitLog.open(disk, DIRECTORY, LogSettings(segment_bytes=SEGMENT), PreviousRun(clean=clean))
        disk.synced.clear()
        found.sync()
        names = {*before.list(DIRECTORY), DIRECTORY.name}
        assert disk.synced == (names if clean is None else set())


def test_behind_its_close_nothing_is_written(place: tuple[Disk, Path]) -> None:
    """A later write would lie after the clean mark of an orderly stop, and the next start would take it for damage."""
    log = open_log(*place)
    append(log, 2)
    log.close()
    with pytest.raises(AssertionError, match="clean mark"):
        append(log, 1)
    assert len(content(open_log(*place))) == 1
