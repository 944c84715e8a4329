"""Tests every decision about a produced batch. The decisions are pure functions, and each rule has one row in a
table.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.batch import BatchHeader, encode
from ledger.batch.header import KEYS, TAGS, seal
from ledger.broker.produce.column_levels import COLUMN_LEVELS, ColumnLevel, places_above
from ledger.broker.produce.produce_decisions import (
    AppendBatch,
    AwaitFirst,
    Decision,
    Obstacle,
    ProduceDecisions,
    Refuse,
    RepeatResult,
    Unavailable,
)
from ledger.errors import (
    BusyError,
    CorruptBatchError,
    DiskFullError,
    DuplicateForgottenError,
    InvalidTopicNameError,
    LedgerError,
    MessageTooLargeError,
    NoLeaderError,
    ProducerFencedError,
    SequenceGapError,
    UnknownQueueError,
    UnknownTopicError,
    UnsupportedBatchError,
)
from ledger.state import BatchRecord, CommittedBatch, Projected, State, feature_levels
from ledger.state.sequence import REMEMBERED_BATCHES
from ledger.v1 import command_pb2
from raft.core import Busy, Crowded, NotLeader, Stalled, Transferring
from store import NoSpaceError, StoreError

# Topic ids: a user's topic with two queues, an internal topic, and a topic that is being deleted.
ORDERS, RETRIES, DELETED = 1, 2, 3

# The producer has sent ten batches of two messages to queue 0 in this epoch. The last batch is not committed yet.
PRODUCER, EPOCH, BATCHES = 7, 2, 10

# Numbers of batches: the last batch, the last committed batch, and a batch that the broker has forgotten.
PENDING = BATCHES - 1
COMMITTED = BATCHES - 2
FORGOTTEN = BATCHES - REMEMBERED_BATCHES - 1

REFUSALS: list[Obstacle] = [
    NotLeader(0),
    NotLeader(3),
    Busy(99),
    Crowded("proposals", 9),
    Stalled("slow"),
    Transferring(2),
]
FAILURES: list[Obstacle] = [StoreError("broken"), NoSpaceError(Path("log"))]


@dataclass(frozen=True)
class Sent:
    """The fields of a batch. The default is the next batch of the producer."""

    topic_id: int = ORDERS
    queue: int = 0
    producer_id: int = PRODUCER
    epoch: int = EPOCH
    first_sequence: int = 2 * BATCHES
    count: int = 2


@dataclass
class Leader:
    """The facts that a decision depends on, for a leader that can append. A test changes the facts of its rule."""

    state: State = field(default_factory=State)
    projected: Projected | None = None
    pending: Container[int] = ()
    obstacle: Obstacle | None = None
    no_room: str = ""
    records: list[BatchRecord] = field(default_factory=list)

    def decide(self, batch: Sent) -> Decision:
        return ProduceDecisions.decide(batch, self.state, self.projected, self.pending, self.obstacle, self.no_room)


@pytest.fixture
def leader() -> Leader:
    leader = Leader()
    for index, (name, queues) in enumerate((("orders", 2), ("%RETRY%billing", 1), ("old", 1)), 1):
        command = command_pb2.Command(create_topic=command_pb2.CreateTopic(name=name, queues=queues))
        leader.state.apply_command(command.SerializeToString(), 1, index=index)
    projected = leader.projected = Projected(leader.state)
    for number in range(BATCHES):
        fields = vars(Sent(first_sequence=2 * number))
        record = projected.admit_batch(**fields)
        leader.records.append(record)
        if number != PENDING:
            place = {"index": 4 + number, "term": 1, "append_time_ms": number}
            projected.appended(record, **place)
            leader.state.apply_batch(CommittedBatch(**fields, **place, base_offset=record.base_offset))
            projected.settle(4 + number)
    projected.admit_deletion(DELETED, SimpleNamespace(index=0))
    leader.pending = {id(leader.records[PENDING])}
    return leader


# -- batches of a leader that has room

APPENDED = {
    "the next batch": Sent(),
    "the first batch of an unknown producer": Sent(producer_id=8, first_sequence=0),
    "the first batch of a newer epoch": Sent(epoch=EPOCH + 1, first_sequence=0),
    "the producer's first batch in another queue": Sent(queue=1, first_sequence=0),
}


@pytest.mark.parametrize("batch", APPENDED.values(), ids=APPENDED)
def test_appended(leader: Leader, batch: Sent) -> None:
    assert leader.decide(batch) == AppendBatch()


def test_a_repeat_of_a_committed_batch_gets_the_first_result(leader: Leader) -> None:
    decision = leader.decide(Sent(first_sequence=2 * COMMITTED))
    assert decision == RepeatResult(leader.records[COMMITTED])
    assert leader.records[COMMITTED].base_offset == 2 * COMMITTED


def test_a_repeat_of_a_batch_on_its_way_waits_for_its_commit(leader: Leader) -> None:
    decision = leader.decide(Sent(first_sequence=2 * PENDING))
    assert isinstance(decision, AwaitFirst)
    assert decision.record is leader.records[PENDING]


REFUSED: dict[str, tuple[Sent, type[LedgerError], str]] = {
    "a gap": (
        Sent(first_sequence=2 * BATCHES + 1),
        SequenceGapError,
        "sequence 21, but the next sequence of its producer is 20",
    ),
    "an unknown producer begins late": (
        Sent(producer_id=8, first_sequence=1),
        SequenceGapError,
        "the next sequence of its producer is 0",
    ),
    "a newer epoch begins late": (Sent(epoch=EPOCH + 1), SequenceGapError, "the next sequence of its producer is 0"),
    "an older epoch": (Sent(epoch=EPOCH - 1), ProducerFencedError, "has epoch 1, but its producer has begun epoch 2"),
    "a forgotten repeat": (Sent(first_sequence=2 * FORGOTTEN), DuplicateForgottenError, "long ago"),
    "a repeat of another length": (
        Sent(first_sequence=2 * COMMITTED, count=1),
        DuplicateForgottenError,
        "the next sequence is 20",
    ),
    "an unknown topic": (Sent(topic_id=9), UnknownTopicError, "no topic with id 9"),
    "a topic that is being deleted": (Sent(topic_id=DELETED), UnknownTopicError, "is being deleted"),
    "an unknown queue": (Sent(queue=2), UnknownQueueError, "no queue 2: its last queue is 1"),
    "an internal topic": (Sent(topic_id=RETRIES), InvalidTopicNameError, "'%RETRY%billing' is internal"),
}


@pytest.mark.parametrize(("batch", "error", "told"), REFUSED.values(), ids=REFUSED)
def test_refused(leader: Leader, batch: Sent, error: type[LedgerError], told: str) -> None:
    decision = leader.decide(batch)
    assert isinstance(decision, Refuse)
    assert decision.kind is error
    assert told in decision.message


def test_a_forgotten_repeat_is_told_where_the_sequence_stands(leader: Leader) -> None:
    decision = leader.decide(Sent(first_sequence=0))
    assert isinstance(decision, Refuse)
    error = decision.error()
    assert isinstance(error, DuplicateForgottenError)
    assert error.next_sequence == 2 * BATCHES


# -- replicas that cannot append


@pytest.mark.parametrize("obstacle", REFUSALS + FAILURES, ids=repr)
def test_an_obstacle_of_the_driver_comes_before_what_the_batch_is(leader: Leader, obstacle: Obstacle) -> None:
    leader.obstacle = obstacle
    for batch in (Sent(), Sent(first_sequence=2 * COMMITTED), Sent(topic_id=9)):
        assert leader.decide(batch) == Unavailable(obstacle)


def test_a_leader_that_has_not_applied_its_no_op_is_not_ready(leader: Leader) -> None:
    leader.projected = None
    decision = leader.decide(Sent())
    assert isinstance(decision, Refuse)
    assert decision.kind is NoLeaderError
    assert decision.error().retriable


def test_a_nearly_full_disk_takes_no_batch_and_repeats_none(leader: Leader) -> None:
    leader.no_room = "95 % of the disk is used"
    for batch in (Sent(), Sent(first_sequence=2 * COMMITTED)):
        decision = leader.decide(batch)
        assert isinstance(decision, Refuse)
        assert decision.kind is DiskFullError
        assert decision.message == "95 % of the disk is used"


Change = Callable[[Leader], Any]
BY_RANK: list[tuple[str, Sent, Change]] = [
    ("InvalidTopicNameError", Sent(topic_id=RETRIES), lambda leader: None),
    ("Unavailable", Sent(), lambda leader: setattr(leader, "obstacle", NotLeader(3))),
    ("NoLeaderError", Sent(), lambda leader: setattr(leader, "projected", None)),
    ("DiskFullError", Sent(), lambda leader: setattr(leader, "no_room", "full")),
    ("UnknownTopicError", Sent(topic_id=9), lambda leader: None),
]


@pytest.mark.parametrize("rank", range(len(BY_RANK)), ids=[name for name, _, _ in BY_RANK])
def test_of_several_reasons_the_first_of_the_table_decides(leader: Leader, rank: int) -> None:
    name, batch, _ = BY_RANK[rank]
    for _, _, change in BY_RANK[rank:]:
        change(leader)
    decision = leader.decide(batch)
    assert name == (decision.kind if isinstance(decision, Refuse) else type(decision)).__name__


def test_a_decision_changes_nothing(leader: Leader) -> None:
    before = leader.state.encode()
    for batch in [*APPENDED.values(), *(batch for batch, _, _ in REFUSED.values())]:
        leader.decide(batch)
    assert leader.state.encode() == before
    assert leader.projected is not None
    assert leader.projected.next_offset(ORDERS, 0) == 2 * BATCHES


# -- the bytes of a batch


LIMIT = 100
BATCH = encode(
    [b"one", b"two"],
    topic_id=ORDERS,
    queue=0,
    producer_id=PRODUCER,
    epoch=EPOCH,
    first_sequence=4,
    base_timestamp_ms=1,
)


def changed(**fields: Any) -> bytes:
    """Return BATCH with changed header fields and a correct CRC."""
    header = BatchHeader.parse(BATCH)
    return seal(replace(header, **fields).pack(), b"", BATCH[header.payload_position :])


def test_a_sound_batch_is_read() -> None:
    header = ProduceDecisions.read(BATCH, LIMIT)
    assert isinstance(header, BatchHeader)
    assert (header.topic_id, header.epoch, header.first_sequence, header.count) == (ORDERS, EPOCH, 4, 2)


UNREADABLE: dict[str, tuple[bytes, int, type[LedgerError]]] = {
    "no batch": (b"no batch", LIMIT, CorruptBatchError),
    "a damaged byte": (BATCH[:-1] + b"!", LIMIT, CorruptBatchError),
    "cut short": (BATCH[:-8], LIMIT, CorruptBatchError),
    "an unknown version": (BATCH[:8] + b"\x09" + BATCH[9:], LIMIT, UnsupportedBatchError),
    "an unknown codec": (changed(codec=9), LIMIT, UnsupportedBatchError),
    "a count that contradicts the payload": (changed(count=3), LIMIT, CorruptBatchError),
    "a message over the limit": (BATCH, 2, MessageTooLargeError),
}


@pytest.mark.parametrize(("batch", "limit", "error"), UNREADABLE.values(), ids=UNREADABLE)
def test_bytes_that_are_refused(batch: bytes, limit: int, error: type[LedgerError]) -> None:
    decision = ProduceDecisions.read(batch, limit)
    assert isinstance(decision, Refuse)
    assert decision.kind is error


@pytest.mark.parametrize("needs", COLUMN_LEVELS, ids=lambda needs: needs.words)
def test_columns_wait_for_their_feature_level(needs: ColumnLevel) -> None:
    column, level, words = needs.column, needs.level, needs.words

    def decision(level: int, *, may_rise: bool, columns: int = column) -> Decision:
        state = State()
        state.topics.create("orders", (0,), 1)
        state.feature_level = level
        batch = replace(BatchHeader.parse(BATCH), first_sequence=0)
        return ProduceDecisions.decide(batch, state, Projected(state), (), None, columns=columns, may_rise=may_rise)

    assert decision(level, may_rise=True) == AppendBatch()
    assert decision(level - 1, may_rise=False, columns=KEYS | TAGS) == AppendBatch()
    later, never = decision(level - 1, may_rise=True), decision(level - 1, may_rise=False)
    assert isinstance(later, Refuse)
    assert isinstance(never, Refuse)
    with pytest.raises(BusyError, match=f"feature level {level - 1}, and {words} need level {level}: it rises when"):
        raise later.error()
    with pytest.raises(UnsupportedBatchError, match="some nodes run an older version, upgrade them"):
        raise never.error()


@pytest.mark.parametrize(
    ("settings", "level", "places"),
    [
        ({"look_up_keys": [(), (b"a",), ()]}, feature_levels.LOOK_UP_KEYS - 1, [1]),
        ({"look_up_keys": [(), (b"a",), ()]}, feature_levels.LOOK_UP_KEYS, []),
        ({"ids": [bytes(16), b"1" * 16, b"2" * 16]}, feature_levels.MESSAGE_IDS - 1, []),
        ({"look_up_keys": [(), (b"a",), ()], "ids": [bytes(16), b"1" * 16, b"2" * 16]}, 0, []),
    ],
)
def test_the_messages_because_of_which_the_level_is_too_low(
    settings: dict[str, Any], level: int, places: list[int]
) -> None:
    """No place means that no message of the batch is allowed, or that each is."""
    batch = encode(
        [b"a", b"b", b"c"],
        topic_id=1,
        queue=0,
        producer_id=7,
        epoch=0,
        first_sequence=0,
        base_timestamp_ms=1,
        **settings,
    )
    assert list(places_above(batch, BatchHeader.parse(batch), level)) == places
