"""The key index compared with a dictionary of lists: file borders, kills, damage, and a log that begins later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import Disk, IndexDamagedError, KeyHit, KeyIndex, MemoryDisk, NoSpaceError, PosixDisk
from store.disk.memory_disk import MemoryFile
from store.index.key_file import ENTRY_BYTES, HEADER

ROOT = Path("/keys")
FIRST, MAX = 8, 60

# A few hashes, many of which share a slot, because the upper 32 bits choose the slot.
HASHES = st.sampled_from([high << 32 | low for high in (0, 1, 1 << 31, (1 << 32) - 1) for low in (1, 2, 3)])
PUTS = st.lists(
    st.tuples(
        st.integers(1, 2),  # topic
        st.lists(st.just(0) | HASHES | st.integers(1, (1 << 64) - 1), min_size=1, max_size=12),
        st.integers(1, 1000),  # size, and how far the next one lies behind
        st.integers(0, 3),  # ms since the one before
    ),
    max_size=30,
)
Puts = list[tuple[int, list[int], int, int]]
CHUNKS = st.integers(1, 5)


@dataclass(frozen=True)
class Put:
    topic_id: int
    hashes: list[int]
    hit: KeyHit


def placed(puts: Puts) -> list[Put]:
    position, time, found = 8, 1000, []
    for topic_id, hashes, size, passed in puts:
        time += passed
        found.append(Put(topic_id, hashes, KeyHit(position, size, time)))
        position += size
    return found


def new_index(disk: Disk, root: Path = ROOT) -> KeyIndex:
    return KeyIndex(disk, root, first_capacity=FIRST, max_capacity=MAX)


def put_all(index: KeyIndex, puts: list[Put]) -> None:
    for put in puts:
        hit = put.hit
        index.put(put.topic_id, hit.position, hit.size, hit.append_time_ms, np.array(put.hashes, np.uint64))


def searched(index: KeyIndex, topic_id: int, key_hash: int, chunk: int = 1000, **window: int) -> list[KeyHit]:
    search, hits = index.search(topic_id, key_hash, **window), []
    while not search.done:
        hits += search.take(chunk)
    assert not search.is_void
    return hits


def expected(puts: list[Put], topic_id: int, key_hash: int) -> list[KeyHit]:
    return [put.hit for put in reversed(puts) if put.topic_id == topic_id and key_hash in put.hashes]


def asked(puts: list[Put]) -> list[tuple[int, int]]:
    """Search every key that exists in both topics, and one key that does not exist."""
    hashes = sorted({each for put in puts for each in put.hashes if each} | {77})
    return [(topic_id, each) for topic_id in (1, 2) for each in hashes]


def assert_same(index: KeyIndex, puts: list[Put], chunk: int = 1000) -> None:
    for topic_id, key_hash in asked(puts):
        assert searched(index, topic_id, key_hash, chunk) == expected(puts, topic_id, key_hash)


@given(PUTS, CHUNKS)
def test_a_search_finds_every_batch_with_the_key_once_and_the_newest_first(puts: Puts, chunk: int) -> None:
    index = new_index(MemoryDisk())
    put_all(index, placed(puts))
    assert_same(index, placed(puts), chunk)


@given(PUTS, st.data())
def test_a_window_of_time_and_positions_is_a_filter(puts: Puts, data: st.DataObject) -> None:
    index, there = new_index(MemoryDisk()), placed(puts)
    put_all(index, there)
    begin, end = data.draw(st.integers(990, 1100)), data.draw(st.integers(990, 1100))
    before = data.draw(st.integers(0, 20_000))
    for topic_id, key_hash in asked(there):
        found = searched(index, topic_id, key_hash, begin_ms=begin, end_ms=end, before=before)
        assert found == [
            hit
            for hit in expected(there, topic_id, key_hash)
            if begin <= hit.append_time_ms < end and hit.position < before
        ]


@given(PUTS, st.data(), CHUNKS)
def test_batches_that_are_put_again_are_passed_over(puts: Puts, data: st.DataObject, chunk: int) -> None:
    index, there = new_index(MemoryDisk()), placed(puts)
    again = data.draw(st.integers(0, len(there)))
    put_all(index, there[:again])
    put_all(index, there)
    assert_same(index, there, chunk)


@given(PUTS, st.data(), CHUNKS)
def test_a_search_goes_on_while_the_index_grows(puts: Puts, data: st.DataObject, chunk: int) -> None:
    index, there = new_index(MemoryDisk()), placed(puts)
    begun = data.draw(st.integers(0, len(there)))
    put_all(index, there[:begun])
    for topic_id, key_hash in asked(there)[:3]:
        search = index.search(topic_id, key_hash)
        hits = search.take(chunk)
        put_all(index, there)
        while not search.done:
            hits += search.take(chunk)
        assert set(expected(there[:begun], topic_id, key_hash)) <= set(hits)
        assert hits == sorted(hits, key=lambda hit: -hit.position)


@given(PUTS, st.data())
def test_where_the_log_begins_later_older_batches_are_not_found_and_their_files_go(
    puts: Puts, data: st.DataObject
) -> None:
    disk, there = MemoryDisk(), placed(puts)
    index = new_index(disk)
    put_all(index, there)
    kept = data.draw(st.integers(0, len(there)))
    start = there[kept].hit.position if kept < len(there) else 1 << 40
    search = index.search(1, there[0].hashes[0]) if there else None
    index.drop_before(start)
    assert_same_from(index, there[kept:])
    if search is not None:
        assert all(hit.position >= start for hit in search.take(1000))
        assert search.done
    if kept == len(there):
        assert disk.list(ROOT) == []


def assert_same_from(index: KeyIndex, kept: list[Put]) -> None:
    for topic_id, key_hash in asked(kept):
        assert searched(index, topic_id, key_hash) == expected(kept, topic_id, key_hash)


@given(PUTS, st.data())
def test_after_a_kill_it_goes_on_at_its_marks_whatever_came_behind_them(puts: Puts, data: st.DataObject) -> None:
    disk, there = MemoryDisk(), placed(puts)
    index = new_index(disk)
    marked = data.draw(st.integers(0, len(there)))
    put_all(index, there[:marked])
    marks = index.marks()
    put_all(index, there)
    again = new_index(disk.after_kill())
    assert again.adopt(marks)
    assert again.marks() == marks
    assert_same_from(again, there[:marked])
    put_all(again, there[marked:])
    assert_same(again, there)
    rebuilt = new_index(MemoryDisk())
    put_all(rebuilt, there)
    assert again.marks() == rebuilt.marks(), "byte by byte what a rebuild gives"


Harm = Callable[[MemoryDisk, Path, int], None]


def delete(disk: MemoryDisk, path: Path, length: int) -> None:
    disk.unlink(path)


def cut_short(disk: MemoryDisk, path: Path, length: int) -> None:
    content = disk.content(path)
    disk.unlink(path)
    disk.create(path, 0).write(0, content[: length - 1])


def extend(disk: MemoryDisk, path: Path, length: int) -> None:
    disk.open(path).write(length, b"\xff" * 100)


def flip_first(disk: MemoryDisk, path: Path, length: int) -> None:
    disk.flip(path, 0, 3)


def flip_capacity(disk: MemoryDisk, path: Path, length: int) -> None:
    disk.flip(path, min(15, length - 1), 6)


def flip_last(disk: MemoryDisk, path: Path, length: int) -> None:
    disk.flip(path, length - 1, 0)


@pytest.mark.parametrize("harm", [delete, cut_short, extend, flip_first, flip_capacity, flip_last])
@given(puts=PUTS.filter(lambda puts: any(any(hashes) for _, hashes, *_ in puts)), data=st.data())
def test_a_harmed_file_is_noticed_or_does_no_harm(harm: Harm, puts: Puts, data: st.DataObject) -> None:
    disk, there = MemoryDisk(), placed(puts)
    index = new_index(disk)
    put_all(index, there)
    marks = index.marks()
    mark = data.draw(st.sampled_from(marks))
    harm(disk, ROOT / mark.name, mark.length)
    again = new_index(disk.after_kill())
    adopted = again.adopt(marks)
    assert adopted == (harm is extend)
    if not adopted:
        again.wipe()
        assert again.marks() == []
        put_all(again, there)
    assert_same(again, there)
    assert again.marks() == marks


def test_marks_that_do_not_belong_together_are_not_believed() -> None:
    disk = MemoryDisk()
    index = new_index(disk)
    put_all(index, placed([(1, list(range(1, 9)), 10, 0)] * 20))
    marks = index.marks()
    slots = [mark for mark in marks if mark.name.endswith(".slots")]
    assert slots
    assert not new_index(disk).adopt(slots), "slots without their entries"
    assert not new_index(disk).adopt([mark for mark in marks if mark != slots[0]]), "an older file without its slots"
    assert new_index(disk).adopt(marks)


def test_files_without_a_mark_are_removed() -> None:
    disk = MemoryDisk()
    put_all(new_index(disk), placed([(1, list(range(1, 9)), 10, 0)] * 20))
    again = new_index(disk)
    assert again.adopt([])
    assert disk.list(ROOT) == []


@pytest.mark.parametrize("kind", ["posix", "memory"])
def test_no_file_is_made_before_the_first_key_and_then_each_is_larger_than_the_last(kind: str, tmp_path: Path) -> None:
    disk: Disk = PosixDisk() if kind == "posix" else MemoryDisk()
    index = new_index(disk, tmp_path)
    index.put(1, 0, 10, 1000, np.zeros(5, np.uint64))
    assert list(disk.list(tmp_path)) == []
    for number in range(200):
        index.put(1, 100 + number, 1, 1000, np.array([number + 1], np.uint64))
    names = [name for name in disk.list(tmp_path) if not name.endswith(".slots")]
    sizes = [disk.open(tmp_path / name).size for name in names]
    counts = [(size - HEADER.size) // ENTRY_BYTES for size in sizes]
    assert counts == [FIRST, 4 * FIRST, MAX, MAX, 200 - 2 * MAX - 5 * FIRST]
    assert [int(name) for name in names] == [100, 108, 140, 200, 260]
    for number in range(200):
        assert searched(index, 1, number + 1) == [KeyHit(100 + number, 1, 1000)]


def test_a_batch_with_more_keys_than_a_file_holds_gets_a_file_of_its_size() -> None:
    index = new_index(MemoryDisk())
    hashes = np.arange(1, 1001, dtype=np.uint64) << np.uint64(50)
    index.put(1, 8, 20, 1000, hashes)
    for key_hash in hashes.tolist():
        assert searched(index, 1, key_hash) == [KeyHit(8, 20, 1000)]


def test_times_that_do_not_fit_beside_the_first_begin_a_new_file() -> None:
    index = new_index(MemoryDisk())
    times = [0, (1 << 32) - 1, 1 << 32, 1 << 40]
    for position, time in enumerate(times):
        index.put(1, position, 1, time, np.array([5], np.uint64))
    assert [hit.append_time_ms for hit in searched(index, 1, 5)] == times[::-1]


class CountingDisk(MemoryDisk):
    """A memory disk that counts its reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def before(self, operation: str, path: Path) -> None:
        super().before(operation, path)
        self.reads += operation == "read"


class HandleDisk(MemoryDisk):
    """A memory disk that knows which of its files are open."""

    def __init__(self) -> None:
        super().__init__()
        self.handles: list[MemoryFile] = []

    def create(self, path: Path, size: int) -> MemoryFile:
        self.handles.append(super().create(path, size))
        return self.handles[-1]

    def open(self, path: Path) -> MemoryFile:
        self.handles.append(super().open(path))
        return self.handles[-1]

    @property
    def open_handles(self) -> int:
        return sum(handle._open for handle in self.handles)


def test_a_bounded_number_of_files_is_open_and_the_last_used_ones_stay_so() -> None:
    disk = HandleDisk()
    index = new_index(disk)
    for number in range(40 * MAX):
        index.put(1, number, 1, 1000 + number, np.array([5], np.uint64))
    assert len(searched(index, 1, 5)) == 40 * MAX
    assert disk.open_handles <= 2 * 16  # entries and slots
    newest = {"begin_ms": 1000 + 38 * MAX}
    searched(index, 1, 5, **newest)
    opened = len(disk.handles)
    for _ in range(40):
        searched(index, 1, 5, **newest)
    assert len(disk.handles) == opened
    index.close()
    assert disk.open_handles == 0


def test_a_file_that_cannot_be_begun_is_not_left_open() -> None:
    disk = HandleDisk()
    index = new_index(disk)
    disk.fail("write", NoSpaceError(ROOT), times=5)
    for _ in range(5):
        with pytest.raises(NoSpaceError):
            index.put(1, 8, 1, 1000, np.array([5], np.uint64))
    assert disk.open_handles == 0
    index.put(1, 8, 1, 1000, np.array([5], np.uint64))
    assert searched(index, 1, 5) == [KeyHit(8, 1, 1000)]


def test_files_outside_of_the_window_are_not_read() -> None:
    disk = CountingDisk()
    index = new_index(disk)
    for number in range(8 * MAX):
        index.put(1, number, 1, 1000 + number, np.array([5], np.uint64))
    disk.reads = 0
    assert searched(index, 1, 5, begin_ms=1003, end_ms=1005) == [KeyHit(4, 1, 1004), KeyHit(3, 1, 1003)]
    assert disk.reads < 10
    assert searched(index, 1, 5, begin_ms=10_000) == []
    assert disk.reads < 10


def test_a_full_disk_at_any_write_adds_nothing_and_can_be_tried_again() -> None:
    there = placed([(1, list(range(1, 5)), 10, 1)] * 20)
    for operation in ("write", "create"):
        for after in range(12):
            disk = MemoryDisk()
            index = new_index(disk)
            disk.fail(operation, NoSpaceError(ROOT), after=after, times=1)
            for put in there:
                try:
                    put_all(index, [put])
                except NoSpaceError:
                    put_all(index, [put])
            assert_same(index, there)
            assert new_index(disk).adopt(index.marks())


@pytest.mark.parametrize("pointer", [1, 3, 9999])
def test_a_chain_that_does_not_lead_back_is_told(pointer: int) -> None:
    disk = MemoryDisk()
    index = new_index(disk)
    put_all(index, placed([(1, [5], 10, 1)] * 3))
    (name,) = disk.list(ROOT)
    disk.open(ROOT / name).write(HEADER.size + ENTRY_BYTES - 4, pointer.to_bytes(4, "little"))
    search = index.search(1, 5)
    with pytest.raises(IndexDamagedError, match="Restart the node"):
        search.take(100)


def test_a_search_begun_before_a_wipe_is_void() -> None:
    index, there = new_index(MemoryDisk()), placed([(1, [5], 10, 1)] * 3)
    put_all(index, there)
    search = index.search(1, 5)
    search.take(2)
    index.wipe()
    put_all(index, there)
    assert search.take(100) == []
    assert search.is_void
