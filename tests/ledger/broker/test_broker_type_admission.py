"""Which messages a leader takes for a topic of each type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ledger.batch import HalfColumn, TimedColumn
from ledger.batch.header import BatchHeader
from ledger.broker.produce.produce_decisions import AppendBatch, Decision, ProduceDecisions, Refuse, RepeatResult
from ledger.broker.produce.type_admission import without_key
from ledger.errors import InvalidArgumentError
from ledger.state import Projected, State, feature_levels
from ledger.timed import TIMED_TOPIC
from ledger.topics import TopicType
from ledger.transactions import HALF_TOPIC
from tests.cluster.fleet import sample_batch
from tests.ledger.broker.test_broker_produce_decisions import Sent

ORDERS, WAITING, HALVES = 1, 2, 3
NOW_MS = 1_800_000_000_000
DELAYED = TimedColumn(ORDERS, 0, np.array([NOW_MS] * 2, np.int64))
HALF = HalfColumn(ORDERS, 0, 0, "checkout", None, None)
SENT = {
    "plain": Sent(topic_id=ORDERS, producer_id=9, epoch=0, first_sequence=0),
    "timed": Sent(topic_id=WAITING, producer_id=9, epoch=0, first_sequence=0),
    "half": Sent(topic_id=HALVES, producer_id=9, epoch=0, first_sequence=0),
}


@pytest.fixture
def state() -> State:
    state = State()
    state.feature_level = feature_levels.LATEST_LEVEL
    for name in ("orders", TIMED_TOPIC, HALF_TOPIC):
        state.topics.create(name, (0,), 1)
    return state


def decide(state: State, kind: str, topic_type: TopicType, *, without_key: Sequence[int] = ()) -> Decision:
    return ProduceDecisions.decide(
        SENT[kind],
        state,
        Projected(state),
        (),
        None,
        timed=DELAYED if kind == "timed" else None,
        half=HALF if kind == "half" else None,
        now_ms=NOW_MS,
        topic_type=topic_type,
        without_key=without_key,
    )


ALLOWED = {
    TopicType.MIXED: {"plain", "timed", "half"},
    TopicType.NORMAL: {"plain"},
    TopicType.FIFO: {"plain"},
    TopicType.DELAY: {"timed"},
    TopicType.TRANSACTION: {"half"},
}


@pytest.mark.parametrize("topic_type", TopicType)
@pytest.mark.parametrize("kind", SENT)
def test_what_a_type_allows(state: State, topic_type: TopicType, kind: str) -> None:
    decision = decide(state, kind, topic_type)
    if kind in ALLOWED[topic_type]:
        assert decision == AppendBatch()
        return
    assert isinstance(decision, Refuse)
    assert decision.kind is InvalidArgumentError
    assert f"topic 'orders' has the type {topic_type.word}, which takes no" in decision.message


def test_every_message_of_a_fifo_topic_has_a_key(state: State) -> None:
    decision = decide(state, "plain", TopicType.FIFO, without_key=[1])
    assert isinstance(decision, Refuse)
    assert decision.places == (1,)
    assert "has the type fifo, and a message has no key" in decision.message
    assert decide(state, "plain", TopicType.NORMAL, without_key=[1]) == AppendBatch()


@pytest.mark.parametrize(("keys", "places"), [([b"a", b"b"], []), ([b"a", None], [1]), (None, [0, 1])])
def test_which_messages_have_no_key(keys: list[bytes | None] | None, places: list[int]) -> None:
    batch = sample_batch(1, keys=keys)
    assert list(without_key(batch, BatchHeader.parse(batch))) == places


def test_a_batch_that_was_committed_before_the_type_changed_gets_its_result(state: State) -> None:
    projected = Projected(state)
    sent = SENT["plain"]
    record = projected.admit_batch(topic_id=ORDERS, queue=0, producer_id=9, epoch=0, first_sequence=0, count=sent.count)
    decision = ProduceDecisions.decide(sent, state, projected, (), None, topic_type=TopicType.DELAY)
    assert decision == RepeatResult(record)
