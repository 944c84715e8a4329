"""Which message ids a leader takes."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.broker.produce.produce_decisions import AppendBatch, Decision, ProduceDecisions, Refuse, RepeatResult
from ledger.errors import (
    BusyError,
    InvalidArgumentError,
    LedgerError,
    RepeatedMessage,
    RepeatedMessagesError,
    from_wire,
    to_wire,
)
from ledger.hashing import message_id_hash
from ledger.state import Projected, State, feature_levels
from ledger.state.message_ids import REMEMBER_MS
from tests.ledger.broker.test_broker_produce_decisions import Sent

ORDERS, WAITING = 1, 2
NOW_MS = 1_800_000_000_000
BATCH = Sent(topic_id=ORDERS, producer_id=9, epoch=0, first_sequence=0)
A, B, C = (message_id_hash(name) for name in (b"a", b"b", b"c"))


@pytest.fixture
def state() -> State:
    state = State()
    state.feature_level = feature_levels.LATEST_LEVEL
    for name in ("orders", "%TIMED"):
        state.topics.create(name, (0, 0), 1)
    state.apply_message_ids(ORDERS, [A], (ORDERS, 1), 40, NOW_MS)
    return state


def decide(state: State, *ids: bytes, projected: Projected | None = None, **given: Any) -> Decision:
    projected = projected or Projected(state)
    return ProduceDecisions.decide(BATCH, state, projected, (), None, ids=ids, **{"now_ms": NOW_MS + 1_000, **given})


def refused(decision: Decision, kind: type[LedgerError]) -> LedgerError:
    assert isinstance(decision, Refuse)
    error = decision.error()
    assert isinstance(error, kind)
    return error


def test_new_ids_are_appended(state: State) -> None:
    assert decide(state, B, C) == AppendBatch()
    assert decide(state, A, B, now_ms=NOW_MS + REMEMBER_MS) == AppendBatch()


def test_a_repeated_id_gets_the_place_of_the_first_message(state: State) -> None:
    error = refused(decide(state, B, A), RepeatedMessagesError)
    assert error.repeats == (RepeatedMessage(1, 1, 40, NOW_MS),)
    told = from_wire(to_wire(error))
    assert isinstance(told, RepeatedMessagesError)
    assert list(told.repeats) == list(error.repeats)
    assert not told.retriable


def test_an_id_on_its_way_is_answered_later(state: State) -> None:
    """An answer before the commit would promise a message that may be lost."""
    projected = Projected(state)
    record = projected.admit_batch(topic_id=ORDERS, queue=0, producer_id=5, epoch=0, first_sequence=0, count=1)
    projected.message_ids.admit(record, ORDERS, [B])
    assert refused(decide(state, B, projected=projected), BusyError).retriable
    assert decide(state, C, projected=projected) == AppendBatch()
    projected.appended(record, index=7, term=1, append_time_ms=NOW_MS)
    projected.settle(6)
    refused(decide(state, B, projected=projected), BusyError)
    projected.settle(7)
    assert decide(state, B, projected=projected) == AppendBatch()  # the state of this test did not apply the batch


def test_ids_that_a_batch_cannot_have(state: State) -> None:
    refused(decide(state, B, C, B), InvalidArgumentError)
    state.apply_message_ids(ORDERS, [C], (WAITING, 0), 3, NOW_MS)
    refused(decide(state, C), InvalidArgumentError)  # it waits for its delivery time, and this one does not


def test_a_batch_that_is_sent_again_itself_gets_its_own_result(state: State) -> None:
    projected = Projected(state)
    record = projected.admit_batch(
        topic_id=ORDERS, queue=0, producer_id=9, epoch=0, first_sequence=0, count=BATCH.count
    )
    projected.message_ids.admit(record, ORDERS, [B, C])
    assert decide(state, B, C, projected=projected) == RepeatResult(record)
