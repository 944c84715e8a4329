"""Tests the replicated state: topics, offsets, repeated batches, the expiry of producers, and the digest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import (
    InternalError,
    InvalidArgumentError,
    InvalidTopicNameError,
    TopicExistsError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledger.state import Accept, CommittedBatch, Duplicate, ProducerLimits, SequenceGap, State, Topic
from ledger.v1 import command_pb2

DAY_MS = 24 * 60 * 60 * 1000
ROOT = Path(__file__).parents[3]


def create_topic(name: str, queues: int) -> bytes:
    return command_pb2.Command(create_topic=command_pb2.CreateTopic(name=name, queues=queues)).SerializeToString()


def made(limits: ProducerLimits | None = None) -> State:
    """Return a state with the topic "orders", which has two queues."""
    state = State(limits)
    assert isinstance(state.apply_command(create_topic("orders", 2), 10, index=1), Topic)
    return state


def apply(state: State, *, index: int, producer_id: int = 1, **fields: Any) -> None:
    """Apply a batch of one message at the end of its queue. `fields` replaces fields of the batch."""
    batch = {"topic_id": 1, "queue": 0, "count": 1, "append_time_ms": 10, "term": 1, "epoch": 0, "first_sequence": 0}
    batch |= fields
    batch.setdefault("base_offset", state.next_offset(batch["topic_id"], batch["queue"]))
    state.apply_batch(CommittedBatch(index=index, producer_id=producer_id, **batch))


def check(state: State, *, producer_id: int = 1, **fields: Any) -> Any:
    batch = {"topic_id": 1, "queue": 0, "count": 1, "epoch": 0, "first_sequence": 0} | fields
    return state.check(producer_id=producer_id, **batch)


# --- topics


def test_topics_are_numbered_from_one() -> None:
    state = State()
    first = state.apply_command(create_topic("a", 4), 10, index=1)
    second = state.apply_command(create_topic("b", 1), 20, index=1)
    assert first == Topic(1, "a", (0, 0, 0, 0), created_ms=10, opened=4)
    assert second == Topic(2, "b", (0,), created_ms=20, opened=1)
    assert state.topics.get(2) == state.topics.named("b") == second
    assert list(state.topics) == [first, second]
    assert state.topics.named("c") is None


@pytest.mark.parametrize(
    ("name", "queues", "kind"),
    [("orders", 4, TopicExistsError), ("a/b", 4, InvalidTopicNameError), ("a", 0, InvalidArgumentError)],
)
def test_a_topic_that_cannot_be_made_changes_nothing(name: str, queues: int, kind: type[Exception]) -> None:
    state = made()
    before = state.digest()
    assert isinstance(state.apply_command(create_topic(name, queues), 99, index=1), kind)
    assert state.digest() == before
    assert state.topics.next_id == 2


@pytest.mark.parametrize("body", [b"", b"\xff\xff", bytes([0x7A, 0])], ids=["empty", "noise", "newer"])
def test_a_command_that_this_program_does_not_know_stops_it(body: bytes) -> None:
    with pytest.raises(InternalError):
        made().apply_command(body, 10, index=1)


def test_queues_are_asked_for_by_topic() -> None:
    topics = made().topics
    assert topics.require(1, 1).name == "orders"
    with pytest.raises(UnknownTopicError, match="id 2"):
        topics.require(2, 0)
    for queue in (-1, 2):
        with pytest.raises(UnknownQueueError, match=f"'orders' has no queue {queue}: its last queue is 1"):
            topics.require(1, queue)


# --- offsets and repeats


def test_each_queue_counts_its_own_offsets() -> None:
    state = made()
    apply(state, index=2, count=3)
    apply(state, index=3, queue=1, count=2)
    apply(state, index=4, count=4, first_sequence=3)
    assert (state.next_offset(1, 0), state.next_offset(1, 1)) == (7, 2)
    assert state.next_offset(9, 9) == 0


def test_a_batch_that_contradicts_the_state_is_an_internal_error() -> None:
    state = made()
    for wrong in ({"base_offset": 1}, {"topic_id": 2, "base_offset": 0}, {"queue": 2, "base_offset": 0}):
        with pytest.raises(InternalError, match="index 2"):
            apply(state, index=2, **wrong)


def test_a_repeat_is_answered_with_the_firsts_result() -> None:
    state = made()
    apply(state, index=2, count=3, append_time_ms=44, term=9)
    decision = check(state, count=3)
    assert isinstance(decision, Duplicate)
    record = decision.record
    assert (record.base_offset, record.append_time_ms, record.index, record.term) == (0, 44, 2, 9)


def test_sequences_are_of_a_producer_and_a_queue() -> None:
    state = made()
    apply(state, index=2, count=3)
    assert check(state, first_sequence=3) == Accept()
    assert check(state, queue=1) == Accept()
    assert check(state, producer_id=2) == Accept()
    assert check(state, producer_id=2, first_sequence=3) == SequenceGap(0, 3)


# --- expiry


def test_a_producer_expires_by_the_append_time_of_entries() -> None:
    state = made()
    apply(state, index=2, append_time_ms=1000)
    apply(state, index=3, producer_id=2, append_time_ms=1000 + DAY_MS - 1)
    assert isinstance(check(state), Duplicate)
    apply(state, index=4, producer_id=3, append_time_ms=1000 + DAY_MS)
    assert check(state) == Accept()
    assert check(state, first_sequence=1) == SequenceGap(0, 1)
    assert isinstance(check(state, producer_id=2), Duplicate)


def test_commands_let_producers_expire_too() -> None:
    state = made()
    apply(state, index=2, append_time_ms=1000)
    state.apply_command(create_topic("later", 1), 1000 + DAY_MS, index=1)
    assert len(state.producers) == 0


def test_using_a_producer_keeps_it() -> None:
    state = made()
    apply(state, index=2, append_time_ms=0)
    apply(state, index=3, append_time_ms=DAY_MS - 1, first_sequence=1)
    apply(state, index=4, producer_id=2, append_time_ms=DAY_MS + 1)
    assert isinstance(check(state, first_sequence=0), Duplicate)


def test_a_producer_that_comes_back_late_keeps_its_own_history() -> None:
    state = made()
    apply(state, index=2, append_time_ms=0)
    apply(state, index=3, append_time_ms=5 * DAY_MS, first_sequence=1)
    assert isinstance(check(state, first_sequence=0), Duplicate)


def test_beyond_the_limit_the_least_recently_used_go() -> None:
    state = made(ProducerLimits(most=3))
    for producer_id in (1, 2, 3):
        apply(state, index=producer_id + 1, producer_id=producer_id)
    apply(state, index=5, producer_id=1, first_sequence=1)
    apply(state, index=6, producer_id=4)
    assert [key.producer_id for key, _ in state.producers] == [3, 1, 4]
    assert check(state, producer_id=2) == Accept()


def test_the_limits_are_those_of_the_design() -> None:
    assert ProducerLimits() == ProducerLimits(expiry_ms=DAY_MS, most=100_000)


# --- digest


def test_the_digest_shows_every_difference() -> None:
    digests = set()
    variants: list[dict[str, Any]] = [
        {},
        {"queue": 1},
        {"count": 2},
        {"append_time_ms": 11},
        {"term": 2},
        {"index": 3},
        {"producer_id": 2},
        {"epoch": 1},
        {"first_sequence": 1},
    ]
    for fields in variants:
        state = made()
        apply(state, **{"index": 2, **fields})
        digests.add(state.digest())
    other_topics = State()
    other_topics.apply_command(create_topic("orders", 3), 10, index=1)
    digests |= {State().digest(), made().digest(), other_topics.digest()}
    assert len(digests) == len(variants) + 3


WORKLOAD = """
import random
from ledger.state import CommittedBatch, ProducerLimits, State
from ledger.v1 import command_pb2

state, rng, index = State(ProducerLimits(expiry_ms=500, most=20)), random.Random(7), 0
for name in ("a", "b", "c"):
    command = command_pb2.Command(create_topic=command_pb2.CreateTopic(name=name, queues=4))
    state.apply_command(command.SerializeToString(), index, index=1)
sequences, evicted = {}, 0
for index in range(1, 2000):
    key = (rng.randrange(1, 4), rng.randrange(4), rng.randrange(12))
    topic_id, queue, producer_id = key
    first = sequences.get(key, 0)
    count = rng.randrange(1, 9)
    before = len(state.producers)
    known = state.check(topic_id=topic_id, queue=queue, producer_id=producer_id, epoch=0, first_sequence=first, count=1)
    evicted += bool(first) and type(known).__name__ == "SequenceGap"
    state.apply_batch(CommittedBatch(
        topic_id=topic_id, queue=queue, base_offset=state.next_offset(topic_id, queue), count=count,
        append_time_ms=index * 3, index=index, term=1, producer_id=producer_id, epoch=0, first_sequence=first,
    ))
    sequences[key] = first + count
assert evicted > 100, evicted
print(state.digest(), [tuple(key) for key, _ in state.producers])
"""


@pytest.mark.real
def test_eviction_and_digest_do_not_depend_on_the_process() -> None:
    def run(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", WORKLOAD]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    first, second = run("1"), run("2")
    assert first == second
    assert first.split()[0].isdigit()
