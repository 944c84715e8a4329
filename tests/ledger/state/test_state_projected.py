"""Tests the projected state: what a leader decides ahead of commit equals what the applied state shows later."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import (
    InvalidArgumentError,
    InvalidTopicNameError,
    TopicExistsError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledger.state import Accept, BatchRecord, CommittedBatch, Duplicate, ProducerLimits, Projected, SequenceGap, State
from ledger.v1 import command_pb2


def create_topic(name: str, queues: int) -> bytes:
    return command_pb2.Command(create_topic=command_pb2.CreateTopic(name=name, queues=queues)).SerializeToString()


class Leader:
    """A leader's state, its projected state, and the log as a list of entries."""

    def __init__(self, limits: ProducerLimits | None = None) -> None:
        self.state = State(limits)
        self.state.apply_command(create_topic("orders", 3), 0, index=1)
        self.projected = Projected(self.state)
        self.log: list[dict[str, Any]] = []  # entry i has index i + 1
        self.applied = 0

    def admit(self, **batch: Any) -> BatchRecord:
        record = self.projected.admit_batch(**batch)
        index = len(self.log) + 1
        self.projected.appended(record, index=index, term=1, append_time_ms=index)
        place = {"base_offset": record.base_offset, "index": index, "term": 1, "append_time_ms": index}
        self.log.append(batch | place)
        return record

    def apply(self, count: int) -> None:
        for entry in self.log[self.applied : self.applied + count]:
            self.state.apply_batch(CommittedBatch(**entry))
        self.applied = min(self.applied + count, len(self.log))
        self.projected.settle(self.applied)


def batch(**fields: Any) -> dict[str, Any]:
    return {"topic_id": 1, "queue": 0, "producer_id": 7, "epoch": 0, "first_sequence": 0, "count": 1} | fields


def test_offsets_and_sequences_go_on_ahead_of_commit() -> None:
    leader = Leader()
    first = leader.admit(**batch(count=3))
    assert leader.projected.check(**batch(first_sequence=3)) == Accept()
    second = leader.admit(**batch(first_sequence=3, count=2))
    assert (first.base_offset, second.base_offset, leader.projected.next_offset(1, 0)) == (0, 3, 5)
    assert leader.projected.check(**batch(first_sequence=6)) == SequenceGap(5, 6)
    assert leader.state.next_offset(1, 0) == 0
    assert leader.state.check(**batch(first_sequence=3)) == SequenceGap(0, 3)


def test_checking_changes_nothing() -> None:
    leader = Leader()
    for _ in range(2):
        assert leader.projected.check(**batch()) == Accept()
    assert leader.projected.next_offset(1, 0) == 0


def test_a_repeat_of_an_uncommitted_batch_says_what_to_wait_for() -> None:
    leader = Leader()
    admitted = leader.projected.admit_batch(**batch(count=2))
    decision = leader.projected.check(**batch(count=2))  # the first batch is not appended yet
    assert isinstance(decision, Duplicate)
    assert decision.record.index == 0
    leader.projected.appended(admitted, index=12, term=3, append_time_ms=44)
    record = decision.record
    assert (record.base_offset, record.index, record.term, record.append_time_ms) == (0, 12, 3, 44)


def test_what_is_not_yet_appended_is_not_settled() -> None:
    leader = Leader()
    admitted = leader.projected.admit_batch(**batch(count=2))
    leader.projected.settle(5)
    assert leader.projected.check(**batch(count=2)) == Duplicate(admitted)
    assert leader.projected.next_offset(1, 0) == 2


def test_an_entry_is_appended_once() -> None:
    leader = Leader()
    record = leader.admit(**batch())
    with pytest.raises(AssertionError, match="appended again"):
        leader.projected.appended(record, index=9, term=1, append_time_ms=9)


def test_what_is_applied_is_answered_from_the_state() -> None:
    leader = Leader()
    uncommitted = leader.admit(**batch(count=2))
    leader.apply(1)
    decision = leader.projected.check(**batch(count=2))
    assert isinstance(decision, Duplicate)
    assert decision.record is not uncommitted
    assert decision.record == uncommitted
    assert leader.projected.next_offset(1, 0) == 2


def test_nothing_stays_behind_when_everything_is_applied() -> None:
    leader = Leader()
    for sequence in range(20):
        leader.admit(**batch(first_sequence=sequence))
        leader.admit(**batch(queue=1, first_sequence=0, producer_id=sequence))
    leader.projected.admit_topic("new", 1)
    leader.state.apply_command(create_topic("new", 1), 0, index=1)
    leader.apply(len(leader.log))
    fresh = Projected(leader.state)
    for name in ("_pending", "_next_offsets", "_sequences", "_new_topics"):
        assert len(getattr(leader.projected, name)) == len(getattr(fresh, name)) == 0


def test_a_place_that_does_not_exist_is_refused() -> None:
    projected = Leader().projected
    with pytest.raises(UnknownTopicError):
        projected.check(**batch(topic_id=2))
    with pytest.raises(UnknownQueueError):
        projected.check(**batch(queue=3))


def test_a_new_leader_knows_nothing_of_what_another_did_not_commit() -> None:
    leader = Leader()
    leader.admit(**batch())
    leader.apply(1)
    leader.admit(**batch(first_sequence=1))
    successor = Projected(leader.state)
    assert successor.check(**batch(first_sequence=1)) == Accept()
    assert successor.next_offset(1, 0) == 1


def test_a_topics_name_is_taken_from_its_creation_on() -> None:
    leader = Leader()
    with pytest.raises(TopicExistsError):
        leader.projected.admit_topic("orders", 1)
    leader.projected.admit_topic("new", 1)
    with pytest.raises(TopicExistsError, match="being created"):
        leader.projected.admit_topic("new", 1)
    leader.projected.settle(0)
    with pytest.raises(TopicExistsError, match="being created"):
        leader.projected.admit_topic("new", 1)
    leader.state.apply_command(create_topic("new", 1), 0, index=1)
    leader.projected.settle(1)
    with pytest.raises(TopicExistsError, match="exists already"):
        leader.projected.admit_topic("new", 1)


def test_a_topic_that_cannot_be_is_refused_before_it_is_appended() -> None:
    projected = Leader().projected
    with pytest.raises(InvalidTopicNameError):
        projected.admit_topic("%new", 1)
    with pytest.raises(InvalidArgumentError):
        projected.admit_topic("new", 0)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("MAX_TOPICS", 3), ("MAX_ALL_QUEUES", 20), ("MAX_GROUP_TOPICS", 2)):
        monkeypatch.setattr(f"ledger.state.projected.{name}", most)


@pytest.mark.usefixtures("limits")
def test_topics_of_users_are_limited_in_number() -> None:
    """There is one topic, with three queues."""
    leader = Leader()
    leader.projected.admit_topic("two", 1, (0,))
    leader.projected.admit_topic("three", 1, (0,))
    with pytest.raises(InvalidArgumentError, match="This cluster has 3 topics, which is the limit: delete topics"):
        leader.projected.admit_topic("four", 1, (0,))
    leader.projected.admit_topic("%RETRY%g", 1, (0,))
    leader.state.apply_command(create_topic("two", 1), 0, index=1)
    leader.projected.settle(1)
    leader.state.topics.delete(2)
    leader.projected.admit_topic("four", 1, (0,))


@pytest.mark.usefixtures("limits")
def test_topics_of_groups_are_limited_in_number_and_take_no_room_of_others() -> None:
    leader = Leader()
    leader.projected.admit_topic("%RETRY%g", 64, (0,) * 64)
    leader.projected.admit_topic("%DLQ%g", 1, (0,))
    with pytest.raises(InvalidArgumentError, match="has 2 retry topics and dead-letter topics, which is the limit"):
        leader.projected.admit_topic("%RETRY%h", 1, (0,))
    leader.projected.admit_topic("two", 1, (0,))


@pytest.mark.usefixtures("limits")
def test_the_queues_of_all_topics_are_limited() -> None:
    leader = Leader()
    leader.projected.admit_topic("two", 15, (0,) * 15)
    with pytest.raises(InvalidArgumentError, match="have 18 queues, and 4 more would be over the limit of 20"):
        leader.projected.admit_topic("three", 4, (0,) * 4)
    leader.state.apply_command(create_topic("two", 15), 0, index=1)
    leader.projected.settle(1)
    with pytest.raises(InvalidArgumentError, match="have 18 queues, and 4 more would be over the limit of 20"):
        leader.projected.check_queues(4)
    leader.projected.check_queues(2)


BATCHES = st.builds(
    batch,
    queue=st.integers(0, 1),
    producer_id=st.integers(1, 3),
    epoch=st.integers(0, 1),
    first_sequence=st.integers(0, 6),
    count=st.integers(1, 3),
)
# Each event is a batch that arrives, or the number of entries to apply.
EVENTS = st.lists(BATCHES | st.integers(1, 4), max_size=80)


@settings(max_examples=300)
@given(EVENTS)
def test_what_the_projection_admits_the_state_comes_to(events: list[dict[str, Any] | int]) -> None:
    """A leader that applies entries late decides every batch like a leader that applies each entry at once."""
    leader, prompt = Leader(), Leader()
    for event in events:
        if isinstance(event, int):
            leader.apply(event)
            continue
        decision = leader.projected.check(**event)
        assert decision == prompt.state.check(**event)
        if decision == Accept():
            admitted, expected = leader.admit(**event), prompt.admit(**event)
            assert admitted == expected
            prompt.apply(1)
    leader.apply(len(leader.log))  # asserts every base offset
    assert leader.state.digest() == prompt.state.digest()


@given(EVENTS)
def test_replicas_come_to_the_same_though_producers_are_forgotten(events: list[dict[str, Any] | int]) -> None:
    """If producers are soon forgotten, every admitted batch can still be applied, and all replicas get the same
    state.
    """
    limits = ProducerLimits(expiry_ms=6, most=2)
    leader, follower = Leader(limits), State(limits)
    follower.apply_command(create_topic("orders", 3), 0, index=1)
    for event in events:
        if isinstance(event, int):
            leader.apply(event)
        elif leader.projected.check(**event) == Accept():
            leader.admit(**event)
    leader.apply(len(leader.log))
    for entry in leader.log:
        follower.apply_batch(CommittedBatch(**entry))
    assert follower.digest() == leader.state.digest()
    assert len(follower.producers) <= 2
