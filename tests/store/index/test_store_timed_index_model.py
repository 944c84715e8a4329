"""The timed index compared with a naive model, by sequences of operations with restarts, lost changes and rebuilds."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from store import FileMark, MemoryDisk
from store.index.timed_index import TimedIndex
from store.index.timed_unit import LAST_IDENTITY, LAST_MS, TimedIndexCursor, TimedKey
from tests.store.index.timed_model import Message, Model, Settle, messages_of

ROOT = Path("/timed")
MINUTE = 60_000
# Few minutes with few times each, so that keys have equal times; and times that belong to no minute.
NEAR = st.builds(lambda minute, ms: minute * MINUTE + ms, st.integers(0, 6), st.sampled_from([0, 1, 59_999]))
TIMES = NEAR | st.sampled_from([-(1 << 63), -1, (1 << 63) - 1, (1 << 32) * MINUTE - 1, (1 << 32) * MINUTE])
SHARES = st.integers(0, (1 << 32) - 1)
BATCHES = st.lists(st.tuples(TIMES, SHARES), min_size=1, max_size=12)
WINDOW = 8
LIMITS = st.integers(1, 12)


def new_index(disk: MemoryDisk) -> TimedIndex:
    return TimedIndex(disk, ROOT, max_buckets=4, window_units=WINDOW, piece_units=5)


class TimedIndexMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.index = new_index(self.disk)
        self.model = Model()
        # The marks of the last checkpoint, and the number of events before it.
        self.marks: list[FileMark] = []
        self.marked = 0

    def any_identity(self, data: st.DataObject) -> int:
        return data.draw(st.integers(0, self.model.next_identity))

    def skipped(self, data: st.DataObject) -> Collection[int]:
        return data.draw(st.sets(st.integers(0, max(0, self.model.next_identity - 1)), max_size=5))

    # -- entries of the log

    @rule(batch=BATCHES, is_repeated=st.booleans())
    def put(self, batch: list[tuple[int, int]], is_repeated: bool) -> None:
        event = self.model.put([time for time, _ in batch], [share for _, share in batch])
        for _ in range(1 + is_repeated):
            event.apply(self.index)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        keys = []
        for _ in range(data.draw(st.integers(1, 4))):
            identity = self.any_identity(data)
            if identity in self.model.waiting and self.model.waiting[identity] not in self.model.left():
                continue  # the state knows that it is settled, so the broker does not ask the index
            time = self.model.known.get(identity, 0) + data.draw(st.sampled_from([0, 0, 0, 1, MINUTE]))
            keys.append(TimedKey(min(time, LAST_MS), identity))
        expected = self.model.cancel(keys)
        found = [self.index.cancel(key.identity, key.time_ms) for key in keys[:1]] + self.index.cancel_all(keys[1:])
        assert found == expected

    @precondition(lambda self: self.model.next_identity)
    @rule(data=st.data(), is_repeated=st.booleans())
    def copy(self, data: st.DataObject, is_repeated: bool) -> None:
        identity = st.integers(0, self.model.next_identity - 1)
        # An index that lacks an old message takes its copy, so only messages that wait are copied, as leaders do.
        chosen = data.draw(st.lists(identity, min_size=1, max_size=10))
        chosen = [each for each in chosen if each in {message[0] for message in self.model.left()}]
        if chosen:
            event = self.model.copy(chosen)
            for _ in range(1 + is_repeated):
                event.apply(self.index)

    @rule(through=TIMES, limit=LIMITS, data=st.data())
    def turn(self, through: int, limit: int, data: st.DataObject) -> None:
        """A leader reads what is due and delivers a part of it."""
        found = self.due(TimedKey(through, LAST_IDENTITY), limit, self.skipped(data))
        count = data.draw(st.integers(0, len(found)))
        cursor = self.model.cursor
        if count:
            # As the broker must do it: everything up to the cursor is delivered, and nothing is skipped.
            last = found[count - 1]
            reached = max(TimedKey(last[1], last[0]), TimedKey(cursor.time_ms, cursor.identity))
            cursor = TimedIndexCursor(*reached, self.model.next_identity)
        if data.draw(st.booleans()):
            self.model.settle(cursor).apply(self.index)

    # -- questions

    def due(self, through: TimedKey, limit: int, skip: Collection[int]) -> list[Message]:
        found = messages_of(self.index.due(through, limit, self.model.cursor, skip))
        assert found == self.model.due(through, limit, skip)
        return found

    @rule(time=TIMES, identity=st.integers(0, 50) | st.just(LAST_IDENTITY))
    def next_time(self, time: int, identity: int) -> None:
        """A leader that sleeps until the next time arrives at every message, and does not turn in circles."""
        after = TimedKey(time, identity)
        wanted = self.model.next_ms(after)
        for _ in range(40):
            found = self.index.next_ms(after, self.model.cursor)
            if found == wanted:
                return
            assert found is not None
            assert wanted is None or found <= wanted
            if found <= after.time_ms:
                assert len(self.model.due(after, 100)) >= WINDOW
                return
            after = TimedKey(found, LAST_IDENTITY)
        raise AssertionError("the leader wakes for nothing again and again")

    @rule(first=TIMES, end=TIMES, limit=LIMITS, data=st.data())
    def read(self, first: int, end: int, limit: int, data: st.DataObject) -> None:
        after = None
        while True:
            found = messages_of(self.index.read(first, end, limit, after, self.model.cursor))
            assert found == self.model.read(first, end, limit, after)
            if len(found) < limit or data.draw(st.booleans()):
                return
            after = TimedKey(found[-1][1], found[-1][0])

    @rule(data=st.data(), limit=LIMITS)
    def before(self, data: st.DataObject, limit: int) -> None:
        position, skip = data.draw(st.integers(0, self.model.position + 1)), self.skipped(data)
        found = messages_of(self.index.before(position, limit, self.model.cursor, skip))
        expected = [message for message in self.model.left(skip) if message[2] < position]
        assert len(found) == len(set(found)) == min(limit, len(expected))
        assert set(found) <= set(expected)

    @rule(data=st.data(), time=TIMES)
    def look_up(self, data: st.DataObject, time: int) -> None:
        identity = self.any_identity(data)
        known = self.model.known.get(identity, 0)
        if not any(isinstance(event, Settle) for event in self.model.events):
            message = self.model.waiting.get(identity)
            assert messages_of(self.index.get(identity, known)) == ([message] if message else [])
        assert self.index.count_before(time, self.model.cursor) == self.model.count_before(time)

    @rule()
    def release(self) -> None:
        self.index.release()

    # -- across starts

    @rule(is_durable=st.booleans())
    def checkpoint(self, is_durable: bool) -> None:
        draft = self.index.draft()
        marks = self.index.write(draft)
        assert len(marks) <= 1
        if is_durable:
            self.marks, self.marked = marks, len(self.model.events)
            self.index.remove(draft)

    @rule()
    def restart(self) -> None:
        self.disk = self.disk.after_kill()
        self.index = new_index(self.disk)
        assert self.index.adopt(self.marks)
        for event in self.model.events[self.marked :]:
            event.apply(self.index)

    @rule()
    def rebuild(self) -> None:
        self.index.wipe()
        assert self.disk.list(ROOT) == []
        for event in self.model.events:
            event.apply(self.index)
        self.marks, self.marked = self.index.write(self.index.draft()), len(self.model.events)

    @invariant()
    def all_that_wait_are_there(self) -> None:
        left = self.model.left()
        assert messages_of(self.index.read(-(1 << 63), LAST_MS, 1000, None, self.model.cursor)) == [
            message for message in left if message[1] < LAST_MS
        ]
        assert self.index.total.messages >= len(left)
        assert self.index.total.bytes >= sum(message[5] for message in left)


TestTimedIndex = TimedIndexMachine.TestCase
TestTimedIndex.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
