"""The timed index: damage, kills, files and memory, hostile times, and a log that begins later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store import Disk, FileMark, IndexDamagedError, MemoryDisk, NoSpaceError, PosixDisk
from store.disk.disk import File
from store.index.bucket_table import ROW_BYTES
from store.index.timed_bucket import Bucket
from store.index.timed_index import TimedIndex
from store.index.timed_unit import (
    LAST_IDENTITY,
    LAST_MS,
    NOTHING_SETTLED,
    UNIT,
    UNIT_BYTES,
    TimedIndexCursor,
    TimedKey,
    Units,
    WaitingTotal,
    checks_of,
    read_tombstones,
    tombstones_of,
    units_of,
)
from tests.store.index.timed_model import Message, Model, messages_of
from tests.store.shared_disk import SharedDisk

ROOT = Path("/timed")
MINUTE = 60_000
FOR_EVER = TimedKey(LAST_MS, LAST_IDENTITY)


def new_index(disk: Disk, root: Path = ROOT, *, max_buckets: int = 100) -> TimedIndex:
    return TimedIndex(disk, root, max_buckets=max_buckets, window_units=64, piece_units=16)


def checkpoint(index: TimedIndex) -> list[FileMark]:
    draft = index.draft()
    marks = index.write(draft)
    index.remove(draft)
    return marks


def restarted(disk: MemoryDisk, index: TimedIndex) -> TimedIndex:
    marks = checkpoint(index)
    again = new_index(disk.after_kill())
    assert again.adopt(marks)
    return again


def everything(index: TimedIndex, cursor: TimedIndexCursor = NOTHING_SETTLED) -> list[Message]:
    return messages_of(index.due(FOR_EVER, 10_000, cursor))


def filled(index: TimedIndex, batches: int = 12) -> Model:
    """Put batches that are spread over some minutes, cancel some of the messages, and copy others."""
    model = Model()
    for number in range(batches):
        model.put([(number * 7 + place * 11) % 40 * 10_000 for place in range(20)], range(20))
    model.cancel([TimedKey(model.known[identity], identity) for identity in range(3, model.next_identity, 9)])
    model.copy(each for each in range(90) if each in model.waiting)
    model.put([70_000] * 5, [1] * 5)
    model.copy(each for each in range(0, 30, 3) if each in model.waiting)
    model.cancel([TimedKey(model.known[identity], identity) for identity in (0, 1, 2)])
    for event in model.events:
        event.apply(index)
    return model


def apply_all(index: TimedIndex, model: Model, first: int = 0) -> None:
    for event in model.events[first:]:
        event.apply(index)


# -- across starts


def test_an_unused_index_has_no_file_and_no_mark() -> None:
    disk = MemoryDisk()
    index = new_index(disk)
    assert checkpoint(index) == []
    assert disk.list(ROOT) == []
    assert new_index(disk).adopt([])


def test_files_without_a_mark_are_removed() -> None:
    disk = MemoryDisk()
    filled(new_index(disk))
    again = new_index(disk)
    assert again.adopt([])
    assert disk.list(ROOT) == []
    assert everything(again) == []


Harm = Callable[[MemoryDisk, Path], None]


def delete(disk: MemoryDisk, path: Path) -> None:
    disk.unlink(path)


def cut_short(disk: MemoryDisk, path: Path) -> None:
    content = disk.content(path)
    disk.unlink(path)
    disk.create(path, 0).write(0, content[:-1])


def extend(disk: MemoryDisk, path: Path) -> None:
    disk.open(path).write(len(disk.content(path)), b"\xff" * 100)


def flip_first(disk: MemoryDisk, path: Path) -> None:
    disk.flip(path, 0, 3)


def flip_last(disk: MemoryDisk, path: Path) -> None:
    disk.flip(path, len(disk.content(path)) - 1, 7)


@pytest.mark.parametrize("harm", [delete, cut_short, extend, flip_first, flip_last])
def test_a_harmed_file_is_noticed_at_a_start_or_does_no_harm(harm: Harm) -> None:
    disk = MemoryDisk()
    index = new_index(disk)
    model = filled(index)
    marks = checkpoint(index)
    names = disk.list(ROOT)
    assert {name.rpartition(".")[2] for name in names} == {"table", "units", "copies", "tombstones"}
    for name in names:
        harmed = disk.after_kill()
        harm(harmed, ROOT / name)
        again = new_index(harmed)
        adopted = again.adopt(marks)
        assert adopted == (harm is extend), name
        if not adopted:
            again.wipe()
            apply_all(again, model)
        assert everything(again) == model.left()


def test_marks_that_are_none_of_a_table_are_not_believed() -> None:
    disk = MemoryDisk()
    index = new_index(disk)
    filled(index)
    (mark,) = checkpoint(index)
    for wrong in (
        [mark, mark],
        [FileMark(mark.name, mark.length - 1, mark.crc)],
        [FileMark(mark.name, mark.length - ROW_BYTES, mark.crc)],
        [FileMark(mark.name, 0, 0)],
        [FileMark("0-0.units", mark.length, mark.crc)],
        [FileMark("../" + mark.name, mark.length, mark.crc)],
    ):
        assert not new_index(disk).adopt(wrong)
    assert new_index(disk).adopt([mark])


def damaged_reads(index: TimedIndex, model: Model) -> list[Callable[[], object]]:
    keys = [TimedKey(model.known[identity], identity) for identity in range(model.next_identity)]
    return [
        lambda: index.due(FOR_EVER, 1000, NOTHING_SETTLED),
        lambda: index.read(0, LAST_MS, 1000),
        lambda: index.before(1 << 60, 1000, NOTHING_SETTLED),
        lambda: index.count_before(LAST_MS, TimedIndexCursor(0, 0, 0)),
        lambda: [index.get(key.identity, key.time_ms) for key in keys],
        lambda: index.cancel_all(keys),
    ]


@given(st.data())
def test_a_flipped_bit_is_noticed_at_the_next_read(data: st.DataObject) -> None:
    disk = MemoryDisk()
    index = new_index(disk)
    model = filled(index, 4)
    (mark,) = checkpoint(index)
    name = data.draw(st.sampled_from([name for name in disk.list(ROOT) if name != mark.name]))
    adopted = new_index(disk)
    assert adopted.adopt([mark])
    offset = data.draw(st.integers(0, len(disk.content(ROOT / name)) - 1))
    disk.flip(ROOT / name, offset, data.draw(st.integers(0, 7)))
    noticed = 0
    for number in range(6):
        fresh = TimedIndex(disk, ROOT, max_buckets=100, window_units=64, piece_units=16)
        fresh._buckets.table.load(disk.content(ROOT / mark.name))
        expected = model.left()
        try:
            found = damaged_reads(fresh, model)[number]()
        except IndexDamagedError:
            noticed += 1
            continue
        # A unit that no longer waits need not be read.
        if number < 2:
            assert isinstance(found, np.ndarray)
            assert messages_of(found) == expected
    if name.endswith(".tombstones"):
        assert noticed >= 4


@pytest.mark.parametrize("bit", range(36 * 8))
def test_the_check_of_a_unit_covers_each_bit(bit: int) -> None:
    unit = units_of(np.array([5], np.uint64), np.array([7], np.int64), 9, 11, np.array([13]), np.array([17]))
    data = bytearray(unit.tobytes())
    data[bit >> 3] ^= 1 << (bit & 7)
    changed = np.frombuffer(bytes(data), UNIT)
    assert checks_of(changed)[0] != unit["check"][0]


@pytest.mark.parametrize("bit", range(64))
def test_the_check_of_a_tombstone_covers_each_bit(bit: int) -> None:
    records = tombstones_of(np.array([0, 77, (1 << 39) - 1], np.uint64), 1)
    numbers, is_copy, is_whole = read_tombstones(records)
    assert numbers.tolist() == [0, 77, (1 << 39) - 1]
    assert is_copy.all()
    assert is_whole
    for number in range(3):
        changed = records.copy()
        changed[number] ^= np.uint64(1 << bit)
        assert not read_tombstones(changed)[2]


def test_a_full_disk_at_any_write_changes_nothing_and_can_be_tried_again() -> None:
    for after in range(0, 60, 3):
        disk = MemoryDisk()
        index, model = new_index(disk), filled(new_index(MemoryDisk()))
        disk.fail("write", NoSpaceError(ROOT), after=after, times=1)
        for number, event in enumerate(model.events):
            try:
                event.apply(index)
            except NoSpaceError:
                before = new_index(MemoryDisk())
                for earlier in model.events[:number]:
                    earlier.apply(before)
                assert everything(index) == everything(before)
                assert index.total == before.total
                event.apply(index)
        assert everything(index) == model.left()
        again = restarted(disk, index)
        assert everything(again) == model.left()


def test_a_kill_at_any_byte_leaves_what_the_checkpoint_has() -> None:
    first = MemoryDisk()
    index = new_index(first)
    model = filled(index, 3)
    marks, marked = checkpoint(index), len(model.events)
    model.put([30_000, 90_000, 30_000], [1, 2, 3])
    model.cancel([TimedKey(30_000, model.next_identity - 1)])
    model.copy([40, 41])
    for count in range(0, 3 * UNIT_BYTES + 8 + 2 * UNIT_BYTES + 2 * 8 + 4, 7):
        disk = first.after_kill()
        killed = new_index(disk)
        assert killed.adopt(marks)
        disk.kill_after(count)
        try:
            apply_all(killed, model, marked)
            checkpoint(killed)
        except BaseException:
            assert disk.is_dead
        again = new_index(disk.after_kill())
        assert again.adopt(marks)
        apply_all(again, model, marked)
        assert everything(again) == model.left()


def test_a_checkpoint_writes_only_what_changed_and_begins_a_new_table_now_and_then() -> None:
    disk = MemoryDisk()
    index, model = new_index(disk, max_buckets=1000), Model()
    model.put([minute * MINUTE for minute in range(500)], [1] * 500).apply(index)
    (first,) = checkpoint(index)
    assert first.length == 501 * ROW_BYTES
    assert checkpoint(index) == [first], "nothing changed"
    model.put([5 * MINUTE], [1]).apply(index)
    (second,) = checkpoint(index)
    assert second.length - first.length == 2 * ROW_BYTES
    for number in range(1500):
        model.put([number % 500 * MINUTE], [1]).apply(index)
        (mark,) = checkpoint(index)
        assert mark.length <= (2 * 500 + 1024) * ROW_BYTES
    assert mark.name != first.name
    assert [name for name in disk.list(ROOT) if name.endswith(".table")] == [mark.name]
    again = new_index(disk, max_buckets=1000)
    assert again.adopt([mark])
    assert everything(again) == model.left()


def test_a_failed_write_of_the_table_is_made_up_for_by_the_next_one() -> None:
    disk = MemoryDisk()
    index, model = new_index(disk), Model()
    for number in range(5):
        model.put([number * MINUTE, 0], [1, 2]).apply(index)
        disk.fail("write", NoSpaceError(ROOT), times=1)
        draft = index.draft()
        with pytest.raises(NoSpaceError):
            index.write(draft)
        disk.heal()
        index.draft()  # one that nobody writes
        if number % 2:
            checkpoint(index)
    again = restarted(disk, index)
    assert everything(again) == model.left()


def test_files_of_settled_messages_go_with_the_next_checkpoint_if_one_fails() -> None:
    disk = MemoryDisk()
    index, model = new_index(disk), Model()
    model.put([0, MINUTE], [1, 1]).apply(index)
    checkpoint(index)
    index.drop_settled(TimedIndexCursor(MINUTE, 9, 2))
    index.write(index.draft())  # the disk was full, so this checkpoint was not saved
    draft = index.draft()
    index.write(draft)
    disk.fail("unlink", NoSpaceError(ROOT), times=1)
    with pytest.raises(NoSpaceError):
        index.remove(draft)
    disk.heal()
    assert len([name for name in disk.list(ROOT) if name.endswith(".units")]) == 2
    checkpoint(index)
    assert len([name for name in disk.list(ROOT) if name.endswith(".units")]) == 1


def test_a_table_that_is_written_while_the_index_is_wiped_has_no_effect() -> None:
    disk = MemoryDisk()
    index, model = new_index(disk), Model()
    old = Model()
    old.put([0, MINUTE], [1, 1]).apply(index)
    checkpoint(index)
    old.put([0, MINUTE], [1, 1]).apply(index)
    index.drop_settled(TimedIndexCursor(10 * MINUTE, 0, 100))
    stale = index.draft()
    index.wipe()
    model.put([3, MINUTE + 3], [5, 6]).apply(index)
    index.write(stale)
    index.remove(stale)
    again = restarted(disk, index)
    assert everything(again) == everything(index) == model.left()


@pytest.mark.parametrize("wipes_first", [False, True])
def test_files_are_removed_behind_a_checkpoint_while_a_received_snapshot_wipes_the_index(*, wipes_first: bool) -> None:
    disk = SharedDisk()
    index, model = new_index(disk), Model()
    model.put([0, MINUTE], [1, 1]).apply(index)
    checkpoint(index)
    index.drop_settled(TimedIndexCursor(MINUTE, 9, 2))
    draft = index.draft()
    index.write(draft)
    acts: list[Callable[[], object]] = [index.wipe, lambda: index.remove(draft)]
    first, disk.before_next_unlink = acts if wipes_first else reversed(acts)
    first()
    assert list(disk.list(ROOT)) == []


# -- settled messages


def test_buckets_go_when_all_their_messages_are_settled() -> None:
    disk = MemoryDisk()
    index, model = new_index(disk), Model()
    model.put([0, 59_999, MINUTE, 2 * MINUTE, -5], [1] * 5).apply(index)
    checkpoint(index)
    index.drop_settled(TimedIndexCursor(59_999, 9, 5))
    assert index.total.messages == 4, "the minute of the cursor stays"
    index.drop_settled(TimedIndexCursor(MINUTE, 9, 1))
    assert index.total.messages == 4, "a message that the turn had not seen stays"
    index.drop_settled(TimedIndexCursor(MINUTE, 9, 5))
    assert index.total.messages == 2
    names = disk.list(ROOT)
    assert len([name for name in names if name.endswith(".units")]) == 4, "the last checkpoint needs them"
    restarted(disk, index)
    assert len([name for name in disk.list(ROOT) if name.endswith(".units")]) == 2


def test_a_bucket_that_is_begun_again_has_files_of_its_own() -> None:
    disk = MemoryDisk()
    index, model = new_index(disk), Model()
    model.put([0, 1], [1, 1]).apply(index)
    marks, marked = checkpoint(index), len(model.events)
    model.settle(TimedIndexCursor(MINUTE, 0, 2)).apply(index)
    model.put([1], [9]).apply(index)
    assert everything(index, model.cursor) == model.left()
    again = new_index(disk.after_kill())
    assert again.adopt(marks)
    apply_all(again, model, marked)
    assert everything(again, model.cursor) == model.left()


# -- a log that begins later


@pytest.mark.long
@settings(max_examples=50)
@given(st.data())
def test_an_index_of_a_log_that_begins_after_the_copies_is_equal(data: st.DataObject) -> None:
    model, whole = Model(), new_index(MemoryDisk())
    starts: list[int] = []
    for _ in range(data.draw(st.integers(1, 6))):
        for _ in range(data.draw(st.integers(0, 3))):
            times = st.integers(0, 3).map(lambda minute: minute * MINUTE) | st.just(-1)
            model.put(data.draw(st.lists(times, min_size=1, max_size=30)), [1] * 30)
        left = [message[0] for message in model.left()]
        cancelled = data.draw(st.lists(st.sampled_from(left), unique=True, max_size=5)) if left else []
        model.cancel([TimedKey(model.known[identity], identity) for identity in cancelled])
        # What waits before the log start is copied, in pieces and in any order, and then the log start moves.
        start, first = model.position, len(model.events)
        to_copy = data.draw(st.permutations([message[0] for message in model.left() if message[2] < start]))
        while to_copy:
            count = data.draw(st.integers(1, len(to_copy)))
            model.copy(to_copy[:count])
            to_copy = to_copy[count:]
        starts.append(first)
        more = model.left()
        model.put([MINUTE] * data.draw(st.integers(1, 3)), [1] * 3)
        if more:
            model.cancel([TimedKey(more[0][1], more[0][0])])
    apply_all(whole, model)
    rebuilt = new_index(MemoryDisk())
    apply_all(rebuilt, model, data.draw(st.sampled_from(starts)))
    assert everything(whole) == everything(rebuilt) == model.left()
    for identity, time in model.known.items():
        found = [messages_of(index.get(identity, time)) for index in (whole, rebuilt)]
        assert found[0] == found[1] == ([model.waiting[identity]] if identity in model.waiting else [])


def test_copies_in_no_order_are_found() -> None:
    index, model = new_index(MemoryDisk()), Model()
    model.put([5] * 400, [1] * 400)
    start = len(model.events)
    for identity in reversed(range(400)):
        model.copy([identity])
    model.copy([7])
    apply_all(index, model, start)
    assert everything(index) == model.left()
    assert model.cancel([TimedKey(5, 7), TimedKey(5, 399)]) == index.cancel_all([TimedKey(5, 7), TimedKey(5, 399)])
    assert everything(index) == model.left()


def test_retention_copies_until_nothing_waits_before_the_position() -> None:
    index, model = new_index(MemoryDisk()), Model()
    for _ in range(20):
        model.put([place * 10_000 for place in range(30)], [1] * 30).apply(index)
    start, rounds = model.position, 0
    while len(found := index.before(start, 50, NOTHING_SETTLED, {3, 4})):
        model.copy(found["identity"].tolist()).apply(index)
        rounds += 1
    assert rounds == 12
    assert {message[0] for message in model.left() if message[2] < start} == {3, 4}
    assert everything(index) == model.left()


# -- hostile values


def test_any_delivery_time_is_kept_in_order() -> None:
    disk = MemoryDisk()
    index, model = new_index(disk), Model()
    times = [LAST_MS, -LAST_MS - 1, 0, -1, LAST_MS - 1, 1 << 62, (1 << 32) * MINUTE, 1, 1 << 53]
    model.put(times, range(len(times))).apply(index)
    assert everything(index) == model.left()
    assert messages_of(index.due(TimedKey(-LAST_MS - 1, 1), 9, NOTHING_SETTLED)) == model.left()[:1]
    assert index.next_ms(TimedKey(LAST_MS - 1, LAST_IDENTITY), NOTHING_SETTLED) == LAST_MS
    assert index.count_before(LAST_MS, NOTHING_SETTLED) == WaitingTotal(len(times) - 1, sum(range(1, len(times))))
    assert model.cancel([TimedKey(LAST_MS, 0)]) == index.cancel_all([TimedKey(LAST_MS, 0)])
    again = restarted(disk, index)
    assert everything(again) == model.left()


def test_copies_of_identities_that_no_message_has_are_taken() -> None:
    index = new_index(MemoryDisk())
    identities = np.array([LAST_IDENTITY, 0, LAST_IDENTITY], np.uint64)
    places = np.arange(3, dtype=np.uint32)
    index.replace(identities, np.array([5, 5, 5]), 100, 10, places, places)
    assert messages_of(index.read(0, 10, 10)) == [(0, 5, 100, 10, 1, 1), (LAST_IDENTITY, 5, 100, 10, 0, 0)]
    index.drop_settled(TimedIndexCursor(MINUTE, 0, LAST_IDENTITY))
    assert index.total.messages == 2


def test_more_minutes_than_buckets_need_one_more_bucket() -> None:
    disk = MemoryDisk()
    index, model = new_index(disk, max_buckets=10), Model()
    model.put([minute * MINUTE for minute in reversed(range(300))], [1] * 300).apply(index)
    assert len(disk.list(ROOT)) == 11
    assert everything(index) == model.left()
    slept = []
    after = TimedKey(-1, 0)
    while (time := index.next_ms(after, NOTHING_SETTLED)) is not None:
        slept.append(time)
        after = TimedKey(time, LAST_IDENTITY)
    assert slept == [minute * MINUTE for minute in range(300)]


# -- bounds


class HandleDisk(MemoryDisk):
    """A memory disk that knows which of its files are open, and the largest read."""

    def __init__(self) -> None:
        super().__init__()
        self.handles: list[File] = []

    def create(self, path: Path, size: int):  # type: ignore[no-untyped-def]
        self.handles.append(file := super().create(path, size))
        return file

    def open(self, path: Path):  # type: ignore[no-untyped-def]
        self.handles.append(file := super().open(path))
        return file

    @property
    def open_handles(self) -> int:
        return sum(handle._open for handle in self.handles)  # type: ignore[attr-defined]


def test_a_bounded_number_of_files_is_open() -> None:
    disk = HandleDisk()
    index, model = new_index(disk, max_buckets=500), Model()
    model.put([minute * MINUTE for minute in range(300)], [1] * 300).apply(index)
    assert disk.open_handles == 64
    assert len(index.cancel_all([TimedKey(identity * MINUTE, identity) for identity in range(300)])) == 300
    assert disk.open_handles == 64
    marks = checkpoint(index)
    index.close()
    assert disk.open_handles == 0
    again = new_index(disk, max_buckets=500)
    assert again.adopt(marks)
    assert disk.open_handles == 0


def test_a_large_bucket_is_read_in_pieces_and_only_the_first_units_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    index, model = new_index(MemoryDisk()), Model()
    for _ in range(10):
        model.put([1000 - place % 3 for place in range(100)], [1] * 100).apply(index)
    read: list[int] = []
    original = Bucket._read

    def counting(bucket: Bucket, lane: int, first: int, count: int) -> Units:
        read.append(count)
        return original(bucket, lane, first, count)

    monkeypatch.setattr(Bucket, "_read", counting)
    delivered: list[Message] = []
    cursor = NOTHING_SETTLED
    while found := messages_of(index.due(FOR_EVER, 10, cursor)):
        delivered += found
        cursor = TimedIndexCursor(found[-1][1], found[-1][0], model.next_identity)
    assert delivered == model.left()
    assert max(read) == 16
    assert sum(read) <= 1000 * (1000 / 64 + 2), "a whole window is delivered before the bucket is read again"


def test_a_window_that_is_full_of_skipped_messages_is_no_end() -> None:
    index, model = new_index(MemoryDisk()), Model()
    model.put([5] * 300, [1] * 300).apply(index)
    skip = set(range(200))
    assert messages_of(index.due(FOR_EVER, 20, NOTHING_SETTLED, skip)) == model.due(FOR_EVER, 20, skip)


def test_new_messages_are_due_without_reading_the_buckets_again(monkeypatch: pytest.MonkeyPatch) -> None:
    index, model = new_index(MemoryDisk()), Model()
    now = TimedKey(30_000, LAST_IDENTITY)
    assert messages_of(index.due(now, 10, NOTHING_SETTLED)) == []
    monkeypatch.setattr(Bucket, "_read", None)
    for number in range(300):
        model.put([number * 100, 59_000], [1, 1]).apply(index)
        assert messages_of(index.due(now, 3, NOTHING_SETTLED)) == model.due(now, 3)
    assert index.next_ms(now, NOTHING_SETTLED) == 59_000


def test_units_and_rows_are_as_drawn(tmp_path: Path) -> None:
    index, model = new_index(PosixDisk(), tmp_path), Model()
    model.put([3 * MINUTE + 5, 3 * MINUTE], [100, 200]).apply(index)
    model.cancel([TimedKey(3 * MINUTE, 1)])
    apply_all(index, model, 1)
    checkpoint(index)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{0:020}.table", "3-0.tombstones", "3-0.units"]
    data = (tmp_path / "3-0.units").read_bytes()
    assert len(data) == 80
    first = (0, 3 * MINUTE + 5, 0), (10, 0, 100)
    assert data[:24] == b"".join(each.to_bytes(8, "little") for each in first[0])
    assert data[24:36] == b"".join(each.to_bytes(4, "little") for each in first[1])
    assert len((tmp_path / "3-0.tombstones").read_bytes()) == 8
    assert len((tmp_path / f"{0:020}.table").read_bytes()) == 2 * ROW_BYTES
