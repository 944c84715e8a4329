"""The waiting messages that a leader's own uncommitted entries deliver or cancel."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InvalidArgumentError
from ledger.state import BatchRecord, Projected, State, TimedCursor
from ledger.state.projected_timed import ProjectedTimed
from ledger.state.timed_table import MAX_OPEN, TimedTable
from ledger.timed import TIMED_TOPIC
from tests.ledger.state.test_state_timed import Shard


def leader() -> tuple[Shard, Projected]:
    shard = Shard(waiting=10)
    return shard, Projected(shard.state)


def test_a_message_of_an_entry_on_its_way_waits_no_more() -> None:
    shard, projected = leader()
    record = BatchRecord(0, 2, base_offset=0)
    projected.timed.admit(record, [3, 4])
    assert [projected.timed.waits(100, identity) for identity in (3, 4, 5)] == [False, False, True]
    assert shard.state.timed.waits(100, 3)
    projected.appended(record, index=12, term=1, append_time_ms=5)
    projected.settle(11)
    assert not projected.timed.waits(100, 3)
    shard.deliver((3, 100), (4, 100))
    projected.settle(12)
    assert not projected.timed.waits(100, 3), "now the state knows it"
    assert projected.timed._pending == type(projected.timed._pending)()
    assert projected.timed._reserved == {}


def test_an_entry_that_is_not_appended_keeps_its_messages() -> None:
    _, projected = leader()
    command = SimpleNamespace(index=0)
    projected.timed.admit(command, [3])
    projected.settle(1_000)
    assert not projected.timed.waits(100, 3)
    command.index = 1_001
    projected.settle(1_001)
    assert projected.timed.waits(100, 3), "the index of waiting messages knows that it was cancelled"


def test_a_message_of_two_entries_waits_for_the_later_one() -> None:
    _, projected = leader()
    projected.timed.admit(SimpleNamespace(index=7), [3])
    projected.timed.admit(SimpleNamespace(index=8), [3])
    projected.settle(7)
    assert not projected.timed.waits(100, 3)
    projected.settle(8)
    assert projected.timed.waits(100, 3)


def test_a_new_leader_knows_nothing_of_what_another_did_not_commit() -> None:
    shard, projected = leader()
    projected.timed.admit(SimpleNamespace(index=7), [3])
    assert Projected(shard.state).timed.waits(100, 3)


def test_a_settled_or_open_message_does_not_wait() -> None:
    shard, projected = leader()
    shard.state.timed.settle(TimedCursor(100, 2, 10))
    shard.deliver((4, 200))
    assert [projected.timed.waits(*each) for each in ((100, 2), (200, 4), (200, 5))] == [False, False, True]


def test_room_counts_open_messages_and_those_on_their_way() -> None:
    table = TimedTable()
    projected = ProjectedTimed(table)
    table.deliver(range(MAX_OPEN - 10), [5] * (MAX_OPEN - 10))
    assert projected.room == 10
    projected.admit(SimpleNamespace(index=0), range(MAX_OPEN, MAX_OPEN + 10))
    assert projected.room == 0


def test_the_topic_of_waiting_messages_is_created_from_level_3_on_and_never_deleted() -> None:
    with pytest.raises(InvalidArgumentError, match=r"feature level 2.*`ledgermq cluster info`"):
        Projected(Shard(2).state).admit_topic(TIMED_TOPIC, 1)
    new = Projected(State())
    new._state.feature_level = 3
    new.admit_topic(TIMED_TOPIC, 1)
    _, projected = leader()
    with pytest.raises(InvalidArgumentError, match="cannot be deleted"):
        projected.admit_deletion(1, SimpleNamespace(index=0))
    projected.require(1, 0)


@dataclass
class Entry:
    messages: list[int]
    is_cancel: bool
    index: int = 0


EVENTS = st.lists(
    st.builds(Entry, st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True), st.booleans())
    | st.integers(1, 3),  # how many entries to apply
    max_size=30,
)


@given(EVENTS)
def test_every_message_has_one_fate(events: list[Entry | int]) -> None:
    """A leader that asks `waits` before each entry delivers or cancels every message at most once, however late its
    entries are applied."""
    shard, projected = leader()
    log: list[Entry] = []
    tombstones: set[int] = set()
    applied = 0
    for event in [*events, 1_000]:
        if isinstance(event, Entry):
            event.messages = [
                each for each in event.messages if projected.timed.waits(100, each) and each not in tombstones
            ]
            projected.timed.admit(event, event.messages)
            log.append(event)
            event.index = len(log)
            continue
        for entry in log[applied : applied + event]:
            applied += 1
            if entry.is_cancel:
                if entry.messages:
                    assert all(shard.waits(*((each, 100) for each in entry.messages)))
                assert not tombstones & set(entry.messages)
                tombstones.update(entry.messages)
            else:
                shard.deliver(*((each, 100) for each in entry.messages))  # raises if one was delivered before
                assert not tombstones & set(entry.messages)
        projected.settle(applied)
    assert projected.timed._reserved == {}
