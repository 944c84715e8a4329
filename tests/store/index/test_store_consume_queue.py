"""The ConsumeQueue compared with a plain list, across file borders; and more queues than may have open files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import (
    ConsumeQueue,
    ConsumeQueues,
    Disk,
    DiskFailedError,
    FileMark,
    MemoryDisk,
    OffsetDroppedError,
    OutOfFilesError,
    PosixDisk,
    QueueSpan,
)
from store.disk.disk import read_file
from store.index.consume_queue import UNIT_BYTES
from tests.store.shared_disk import SharedDisk

ROOT = Path("/queues")
PER_FILE = 10

Puts = list[tuple[int, int, list[int] | None, int]]

HASHES = st.integers(-(2**63), 2**63 - 1)
PUTS: st.SearchStrategy[Puts] = st.lists(
    st.integers(0, 35).flatmap(
        lambda count: st.tuples(
            st.integers(0, 2**63 - 1),
            st.integers(0, 2**32 - 1),
            st.none() | st.lists(HASHES, min_size=count, max_size=count),
            st.just(count),
        )
    ),
    max_size=6,
)


def put_all(queue: ConsumeQueue, puts: Puts, before: int = 0) -> list[tuple[int, int, int]]:
    """Put these messages after `before` messages that are not kept. Return the expected units."""
    units: list[tuple[int, int, int]] = []
    for position, size, hashes, count in puts:
        tag_hashes = None if hashes is None else np.array(hashes, np.int64)
        queue.put(before + len(units), position, size, tag_hashes, count)
        units += [(position, size, 0 if hashes is None else hashes[i]) for i in range(count)]
    return units


def adopted(disk: MemoryDisk, first: int, end: int, marks: list[FileMark]) -> ConsumeQueue:
    queue = ConsumeQueue(disk, ROOT, PER_FILE)
    assert queue.adopt(first, end, {mark.name: mark for mark in marks})
    return queue


@given(PUTS, st.data())
def test_reads_are_slices_of_a_list(puts: Puts, data: st.DataObject) -> None:
    disk = MemoryDisk()
    queue = ConsumeQueue(disk, ROOT, PER_FILE)
    units = put_all(queue, puts)
    assert queue.end_offset == len(units)
    if data.draw(st.booleans()):
        queue.close()
    if data.draw(st.booleans()):
        queue = adopted(disk, 0, len(units), queue.marks())
        assert queue.end_offset == len(units)
    for _ in range(5):
        offset, count = data.draw(st.integers(0, len(units) + 5)), data.draw(st.integers(0, 60))
        found = queue.read(offset, count)
        assert found.tolist() == units[offset : offset + count]
        assert found["position"].tolist() == [unit[0] for unit in units[offset : offset + count]]


@pytest.mark.parametrize("kind", ["posix", "memory"])
def test_units_are_20_bytes_in_files_that_only_grow_as_needed(kind: str, tmp_path: Path) -> None:
    disk: Disk = PosixDisk() if kind == "posix" else MemoryDisk()
    queue = ConsumeQueue(disk, tmp_path, PER_FILE)
    queue.put(0, 1000, 77, np.arange(1, 13), 12)
    assert list(disk.list(tmp_path)) == [f"{0:020}", f"{10:020}"]
    assert [disk.open(tmp_path / name).size for name in disk.list(tmp_path)] == [200, 40]
    unit = (1000).to_bytes(8, "little") + (77).to_bytes(4, "little") + (12).to_bytes(8, "little")
    assert disk.open(tmp_path / f"{10:020}").read(20, 20) == unit
    assert queue.read(11, 5).tolist() == [(1000, 77, 12)]


def test_offsets_are_dense() -> None:
    queue = ConsumeQueue(MemoryDisk(), ROOT)
    queue.put(0, 0, 100, None, 3)
    for wrong in (2, 4):
        with pytest.raises(AssertionError):
            queue.put(wrong, 0, 100, None, 1)


@given(st.integers(0, 35), PUTS, st.data())
def test_a_queue_that_begins_later_reads_as_the_slice_of_a_list(before: int, puts: Puts, data: st.DataObject) -> None:
    queue = ConsumeQueue(MemoryDisk(), ROOT, PER_FILE)
    queue.begin_at(before)
    assert (queue.first_offset, queue.end_offset) == (before, before)
    units = [None] * before + put_all(queue, puts, before)
    assert queue.end_offset == len(units)
    later = data.draw(st.integers(0, len(units)))
    queue.begin_at(later)
    first = max(before, later)
    assert (queue.first_offset, queue.end_offset) == (first, len(units))
    offset, count = data.draw(st.integers(first, len(units) + 5)), data.draw(st.integers(0, 60))
    assert queue.read(offset, count).tolist() == units[offset : offset + count]
    if first:
        with pytest.raises(OffsetDroppedError, match=f"begins at {first}"):
            queue.read(data.draw(st.integers(0, first - 1)), 1)


@given(st.integers(0, 35), PUTS, PUTS, PUTS)
def test_a_queue_goes_on_at_its_marks_whatever_was_put_behind_them(
    before: int, puts: Puts, lost: Puts, again: Puts
) -> None:
    disk = MemoryDisk()
    queue = ConsumeQueue(disk, ROOT, PER_FILE)
    queue.begin_at(before)
    units = put_all(queue, puts, before)
    marks = queue.marks()
    put_all(queue, lost, before + len(units))
    queue = adopted(disk, before, before + len(units), marks)
    units += put_all(queue, again, before + len(units))
    assert queue.read(before, 999).tolist() == units
    assert adopted(disk, before, before + len(units), queue.marks()).read(before, 999).tolist() == units


def flip(disk: MemoryDisk, path: Path) -> None:
    file = disk.open(path)
    file.write(3, bytes([file.read(3, 1)[0] ^ 4]))


def shorten(disk: MemoryDisk, path: Path) -> None:
    content = read_file(disk, path)
    disk.unlink(path)
    disk.create(path, 0).write(0, content[:-UNIT_BYTES])


@pytest.mark.parametrize("spoil", [flip, shorten, MemoryDisk.unlink])
@pytest.mark.parametrize("base", [0, 10, 20])
def test_a_file_that_is_not_as_its_mark_says_is_not_believed(
    spoil: Callable[[MemoryDisk, Path], None], base: int
) -> None:
    disk = MemoryDisk()
    queues = ConsumeQueues(disk, ROOT, units_per_file=PER_FILE)
    queues.get(1, 0).put(0, 1, 2, None, 25)
    queues.get(1, 1).put(0, 1, 2, None, 5)
    spans, marks = [QueueSpan(1, 0, 0, 25), QueueSpan(1, 1, 0, 5)], queues.marks()
    assert ConsumeQueues(disk, ROOT, units_per_file=PER_FILE).adopt(spans, marks)
    spoil(disk, ROOT / "1-0" / f"{base:020}")
    again = ConsumeQueues(disk, ROOT, units_per_file=PER_FILE)
    assert not again.adopt(spans, marks)
    again.wipe()
    again.get(1, 0).put(0, 1, 2, None, 25)
    assert again.get(1, 0).read(0, 99).tolist() == [(1, 2, 0)] * 25


def test_a_mark_that_is_missing_is_no_mark() -> None:
    disk = MemoryDisk()
    queues = ConsumeQueues(disk, ROOT)
    queues.get(1, 0).put(0, 1, 2, None, 5)
    assert not ConsumeQueues(disk, ROOT).adopt([QueueSpan(1, 0, 0, 5)], [])
    assert not ConsumeQueues(disk, ROOT).adopt([QueueSpan(1, 0, 0, 6)], queues.marks())
    assert ConsumeQueues(disk, ROOT).adopt([QueueSpan(1, 0, 0, 5), QueueSpan(1, 1, 7, 7)], queues.marks())


@pytest.mark.parametrize("kind", ["posix", "memory"])
def test_files_of_dropped_messages_are_removed_and_none_made_for_them(kind: str, tmp_path: Path) -> None:
    disk: Disk = PosixDisk() if kind == "posix" else MemoryDisk()
    queue = ConsumeQueue(disk, tmp_path, PER_FILE)
    queue.begin_at(23)
    queue.put(23, 1, 2, None, 30)
    assert [int(name) for name in disk.list(tmp_path)] == [20, 30, 40, 50]
    queue.read(23, 30)
    queue.begin_at(40)
    assert [int(name) for name in disk.list(tmp_path)] == [40, 50]
    queue.put(53, 3, 4, None, 1)
    assert queue.read(40, 99).tolist() == [(1, 2, 0)] * 13 + [(3, 4, 0)]
    with pytest.raises(AssertionError):
        queue.begin_at(99)


def test_units_whose_files_could_not_all_be_removed_are_dropped() -> None:
    disk = MemoryDisk()
    queue = ConsumeQueue(disk, ROOT, PER_FILE)
    queue.put(0, 1, 2, None, 45)
    disk.fail("unlink", DiskFailedError(ROOT, "Input/output error"), after=1, times=1)
    with pytest.raises(DiskFailedError):
        queue.begin_at(33)
    with pytest.raises(OffsetDroppedError, match="begins at 33"):
        queue.read(5, 1)
    assert queue.read(33, 99).tolist() == [(1, 2, 0)] * 12
    queue.begin_at(33)
    assert [int(name) for name in disk.list(ROOT)] == [30, 40]
    assert adopted(disk, 33, 45, queue.marks()).read(33, 99).tolist() == [(1, 2, 0)] * 12


class CountingDisk(MemoryDisk):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[Path] = []

    def before(self, operation: str, path: Path) -> None:
        super().before(operation, path)
        if operation == "open":
            self.opened.append(path)


def test_queues_are_apart_and_survive_being_closed_for_others() -> None:
    disk = CountingDisk()
    queues = ConsumeQueues(disk, ROOT, max_open=3, units_per_file=PER_FILE)
    for turn in range(4):
        for topic_id in range(1, 4):
            for queue in range(3):
                units = queues.get(topic_id, queue)
                units.put(turn * 7, turn, topic_id * 10 + queue, None, 7)
    for topic_id in range(1, 4):
        for queue in range(3):
            expected = [(turn, topic_id * 10 + queue, 0) for turn in range(4) for _ in range(7)]
            assert queues.get(topic_id, queue).read(0, 100).tolist() == expected
    assert disk.opened, "some had been closed"
    disk.opened.clear()
    for _ in range(5):
        assert queues.get(3, 2).read(20, 1).tolist() == [(2, 32, 0)]
    assert disk.opened == [], "the last used ones stay open"


def test_wipe_removes_what_any_run_has_left() -> None:
    disk = MemoryDisk()
    ConsumeQueues(disk, ROOT, units_per_file=PER_FILE).get(1, 0).put(0, 1, 2, None, 35)
    queues = ConsumeQueues(disk, ROOT, units_per_file=PER_FILE)
    queues.get(1, 1).put(0, 1, 2, None, 5)
    queues.wipe()
    for queue in (0, 1):
        assert list(disk.list(ROOT / f"1-{queue}")) == []
        assert queues.get(1, queue).end_offset == 0
    queues.get(1, 0).put(0, 9, 9, None, 1)
    assert queues.get(1, 0).read(0, 10).tolist() == [(9, 9, 0)]


# --- deleted queues


def files_there(disk: MemoryDisk) -> list[str]:
    return [f"{name}/{file}" for name in disk.list(ROOT) for file in disk.list(ROOT / name)]


def some_queues(disk: MemoryDisk) -> ConsumeQueues:
    queues = ConsumeQueues(disk, ROOT, units_per_file=PER_FILE)
    for topic, queue in ((1, 0), (1, 1), (11, 0)):
        queues.get(topic, queue).put(0, 100, 50, None, PER_FILE + 3)
    return queues


def test_a_dropped_queue_is_empty_and_keeps_its_files_until_they_are_removed() -> None:
    disk = MemoryDisk()
    queues = some_queues(disk)
    before = files_there(disk)
    queues.drop(1)
    assert {mark.name.partition("/")[0] for mark in queues.marks()} == {"11-0"}
    assert files_there(disk) == before, "the last checkpoint still vouches for them"
    dropped = queues.dropped()
    assert sorted(dropped) == ["1-0", "1-1"]
    queues.remove(dropped)
    assert queues.dropped() == []
    assert files_there(disk) == [name for name in before if name.startswith("11-")]
    assert queues.get(11, 0).end_offset == PER_FILE + 3


def test_dropped_queues_are_removed_later_if_a_checkpoint_or_the_removal_of_their_files_fails() -> None:
    disk = MemoryDisk()
    queues = some_queues(disk)
    queues.drop(1)
    queues.dropped()  # a checkpoint that was not written
    disk.fail("unlink", OutOfFilesError(ROOT), after=3, times=1)
    with pytest.raises(OutOfFilesError):
        queues.remove(queues.dropped())
    assert queues.dropped() == ["1-1"]
    queues.remove(queues.dropped())
    assert {name.partition("/")[0] for name in files_there(disk)} == {"11-0"}


@pytest.mark.parametrize("wipes_first", [False, True])
def test_dropped_queues_are_removed_while_a_received_snapshot_wipes_all_queues(*, wipes_first: bool) -> None:
    """A checkpoint removes the files on a helper thread, and the event loop wipes the queues."""
    disk = SharedDisk()
    queues = some_queues(disk)
    queues.drop(1)
    dropped = queues.dropped()
    acts: list[Callable[[], object]] = [queues.wipe, lambda: queues.remove(dropped)]
    first, disk.before_next_unlink = acts if wipes_first else reversed(acts)
    first()
    assert files_there(disk) == []
    assert queues.dropped() == []


def test_a_start_before_the_next_checkpoint_finds_dropped_queues_and_one_behind_it_removes_what_is_left() -> None:
    disk = MemoryDisk()
    queues = some_queues(disk)
    marks = queues.marks()
    queues.drop(1)
    spans = [QueueSpan(topic, queue, 0, PER_FILE + 3) for topic, queue in ((1, 0), (1, 1), (11, 0))]
    assert ConsumeQueues(disk, ROOT, units_per_file=PER_FILE).adopt(spans, marks)
    assert ConsumeQueues(disk, ROOT, units_per_file=PER_FILE).adopt(spans[2:], queues.marks())
    assert {name.partition("/")[0] for name in files_there(disk)} == {"11-0"}
