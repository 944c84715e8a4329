"""Tests which batches of messages with delivery times a leader accepts, and the rights that a sender needs."""

from __future__ import annotations

import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ledger.batch import BatchHeader, TimedColumn, encode
from ledger.batch.header import COPIED, FIRED, HEADER_BYTES, TIMED, seal
from ledger.broker.produce.produce_decisions import AppendBatch, Decision, ProduceDecisions, Refuse, RepeatResult
from ledger.broker.produce.timed_limits import TimedLimits, TimedRoom
from ledger.errors import (
    InvalidArgumentError,
    InvalidTopicNameError,
    LedgerError,
    NoLeaderError,
    SequenceGapError,
    UnknownQueueError,
    UnknownTopicError,
)
from ledger.state import CommittedBatch, Projected, State, feature_levels
from ledger.timed import MAX_DELAY_MS, TIMED_TOPIC
from tests.ledger.broker.test_broker_produce_decisions import Sent

NOW_MS = 1_800_000_000_000
# Queue 1 of `orders` is in shard 1, whose leader decides. Queue 1 of `%TIMED` is in this shard too.
ORDERS, WAITING, RETRIES, GOING = 1, 2, 3, 4
BATCH = Sent(topic_id=WAITING, queue=1, producer_id=9, epoch=0, first_sequence=0)


@pytest.fixture
def state() -> State:
    state = State()
    state.feature_level = feature_levels.TIMED
    for name, shards in (("orders", (0, 1)), (TIMED_TOPIC, (0, 1)), ("%RETRY%billing", (0, 1)), ("old", (0, 1))):
        state.topics.create(name, shards, 1)
    return state


def decide(
    state: State, batch: Sent = BATCH, timed: TimedColumn | None = None, projected: Projected | None = None
) -> Decision:
    if projected is None:
        projected = Projected(state)
        projected.admit_deletion(GOING, SimpleNamespace(index=0))
    return ProduceDecisions.decide(batch, state, projected, (), None, "", timed, NOW_MS)


def column(topic_id: int = ORDERS, queue: int = 1, *times_ms: int) -> TimedColumn:
    return TimedColumn(topic_id, queue, np.array(times_ms or (NOW_MS, NOW_MS + 5), np.int64))


@pytest.mark.parametrize("times_ms", [(0, 5), (NOW_MS, NOW_MS + MAX_DELAY_MS)], ids=["past", "latest"])
def test_messages_wait_in_the_shard_of_their_target(state: State, times_ms: tuple[int, int]) -> None:
    assert decide(state, timed=column(ORDERS, 1, *times_ms)) == AppendBatch()


REFUSED: dict[str, tuple[Sent, TimedColumn | None, type[LedgerError], str]] = {
    "no delivery times": (BATCH, None, InvalidTopicNameError, "is internal.*`deliver_at` or `delay`"),
    "another topic": (replace(BATCH, topic_id=ORDERS), column(), InvalidArgumentError, "cannot be sent to 'orders'"),
    "a retry topic": (replace(BATCH, topic_id=RETRIES), column(), InvalidArgumentError, "cannot be sent to '%RETRY"),
    "an unknown topic": (replace(BATCH, topic_id=99), column(), UnknownTopicError, "There is no topic with id 99"),
    "an unknown queue of %TIMED": (replace(BATCH, queue=7), column(), UnknownQueueError, "no queue 7"),
    "an unknown target": (BATCH, column(99), UnknownTopicError, "There is no topic with id 99"),
    "an unknown target queue": (BATCH, column(ORDERS, 2), UnknownQueueError, "'orders' has no queue 2"),
    "a target that is being deleted": (BATCH, column(GOING), UnknownTopicError, "is being deleted"),
    "a target in another shard": (
        BATCH,
        column(ORDERS, 0),
        InvalidArgumentError,
        "queue 0 of .* is not in the shard",
    ),
    "an internal target": (BATCH, column(RETRIES), InvalidTopicNameError, "cannot be delivered to it"),
    "%TIMED as target": (BATCH, column(WAITING), InvalidTopicNameError, "cannot be delivered to it"),
    "a time too far ahead": (
        BATCH,
        column(ORDERS, 1, NOW_MS, NOW_MS + MAX_DELAY_MS + 1),
        InvalidArgumentError,
        "40.0 days ahead, and the limit is 40 days",
    ),
    "a gap": (replace(BATCH, first_sequence=4), column(ORDERS, 0), SequenceGapError, "sequence"),
}


@pytest.mark.parametrize(("batch", "timed", "kind", "sentence"), REFUSED.values(), ids=REFUSED)
def test_refused(state: State, batch: Sent, timed: TimedColumn | None, kind: type[LedgerError], sentence: str) -> None:
    decision = decide(state, batch, timed)
    assert isinstance(decision, Refuse)
    with pytest.raises(kind, match=sentence):
        raise decision.error()


def test_the_settings_limit_days_and_bytes(state: State) -> None:
    def refusal(room: TimedRoom, *times_ms: int) -> Refuse | AppendBatch:
        timed = column(ORDERS, 1, *times_ms)
        decision = ProduceDecisions.decide(BATCH, state, Projected(state), (), None, "", timed, NOW_MS, room)
        assert isinstance(decision, Refuse | AppendBatch)
        return decision

    day_ms = 86_400_000
    assert refusal(TimedRoom(max_days=1.5), NOW_MS + day_ms, NOW_MS + day_ms * 3 // 2) == AppendBatch()
    far = refusal(TimedRoom(max_days=1.5), NOW_MS, NOW_MS + 2 * day_ms)
    assert isinstance(far, Refuse)
    assert "2.0 days ahead, and the limit is 1.5 days (`timed_max_days`)" in far.message
    assert refusal(TimedRoom(limit_bytes=10, waiting_bytes=9)) == AppendBatch()
    full = refusal(TimedRoom(limit_bytes=1000, waiting_bytes=1000))
    assert isinstance(full, Refuse)
    assert full.error().retriable
    assert "the limit is 1,000 bytes (`timed_waiting_bytes`)" in full.message
    assert "`ledgermq timer cancel`" in full.message


@pytest.mark.parametrize(
    ("limits", "limit_bytes"),
    [
        (TimedLimits(waiting_bytes=5, retention_bytes=100), 5),
        (TimedLimits(retention_bytes=100, shards=2), 25),
        (TimedLimits(shards=2), 50),
        (TimedLimits(), 100),
    ],
)
def test_without_a_setting_a_quarter_of_the_room_may_wait(limits: TimedLimits, limit_bytes: int) -> None:
    assert limits.room(400, 7) == TimedRoom(40, limit_bytes, 7)
    if not limits.waiting_bytes and not limits.retention_bytes:
        assert limits.room(0, 7).limit_bytes == 0, "the size of the disk is not known yet"


def test_a_leader_that_is_not_ready_says_nothing_about_targets(state: State) -> None:
    decision = ProduceDecisions.decide(BATCH, State(), None, (), None, "", column(99), NOW_MS)
    assert isinstance(decision, Refuse)
    assert decision.kind is NoLeaderError


def test_a_committed_batch_gets_its_result_again_although_its_target_is_deleted(state: State) -> None:
    place = {"index": 9, "term": 1, "append_time_ms": 5}
    state.apply_batch(CommittedBatch(**vars(BATCH), **place, base_offset=0))
    again = decide(state, timed=column(GOING))
    assert isinstance(again, RepeatResult)
    assert again.record.base_offset == 0


# -- columns that only brokers make

MADE: dict[str, Any] = {"producer_id": 9, "epoch": 0, "first_sequence": 0, "base_timestamp_ms": 0}


@pytest.mark.parametrize("columns", [FIRED, TIMED | COPIED])
def test_a_producer_cannot_send_a_batch_that_only_brokers_make(columns: int) -> None:
    plain = encode([b"x"], topic_id=ORDERS, queue=1, **MADE)
    front = struct.pack("<QQ", 1, 2) if columns == FIRED else struct.pack("<IIQQ", ORDERS, 1, 5, 1)
    header = replace(BatchHeader.parse(plain), columns=columns, size=len(plain) + len(front))
    decision = ProduceDecisions.read(seal(header.pack(), front, plain[HEADER_BYTES:]), 1000)
    assert isinstance(decision, Refuse)
    with pytest.raises(InvalidArgumentError, match="that only brokers make"):
        raise decision.error()
