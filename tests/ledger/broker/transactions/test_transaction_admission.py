"""Which half batches a leader takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger.batch import HalfColumn
from ledger.broker.produce.timed_limits import TimedLimits
from ledger.errors import (
    BusyError,
    InvalidArgumentError,
    InvalidTopicNameError,
    LedgerError,
    TransactionEndedError,
    UnknownQueueError,
    UnknownTopicError,
    UnknownTransactionError,
)
from ledger.state.commands import AddShard, CreateTopic, RollBackHalves
from ledger.state.transaction_table import HERE
from store.directory.vote_file import INCARNATION_BYTES
from tests.ledger.broker.timed.leader import WAITING
from tests.ledger.broker.transactions.half_leader import COLUMN, HALF_ID, HalfLeader, half_batch


@pytest.mark.parametrize(
    ("column", "error"),
    [
        (replace(COLUMN, topic_id=99), UnknownTopicError),
        (replace(COLUMN, queue=9), UnknownQueueError),
        (replace(COLUMN, topic_id=WAITING), InvalidTopicNameError),
        (replace(COLUMN, topic_id=HALF_ID), InvalidTopicNameError),
        (replace(COLUMN, shard=3), InvalidArgumentError),
        (replace(COLUMN, shard=3, transaction=7), BusyError),
        (replace(COLUMN, shard=64, transaction=7), InvalidArgumentError),
        (replace(COLUMN, shard=HERE, transaction=0), InvalidArgumentError),
        (replace(COLUMN, copy_of=0), InvalidArgumentError),
        (replace(COLUMN, transaction=0), TransactionEndedError),
        (replace(COLUMN, transaction=50), UnknownTransactionError),
    ],
)
async def test_what_is_refused(column: HalfColumn, error: type[LedgerError]) -> None:
    leader = HalfLeader()
    ended = leader.half()
    leader.append(RollBackHalves((ended,)))
    with pytest.raises(error):
        leader.replica.produce(half_batch(b"no", column, 90))
    assert leader.table.waiting == {}


async def test_what_is_taken() -> None:
    leader = HalfLeader()
    for shard in (1, 2, 3):
        leader.append(AddShard(shard, (2,), (bytes(INCARNATION_BYTES),)))
    leader.replica.produce(half_batch(b"first", COLUMN, 90))
    leader.replica.produce(half_batch(b"other shard", replace(COLUMN, shard=3, transaction=7), 91))
    leader.commit()
    first, second = leader.table.waiting.values()
    assert (first.begins, second.begins, second.shard, second.transaction) == (True, False, 3, 7)
    leader.replica.produce(half_batch(b"joins", replace(COLUMN, transaction=first.number), 92))
    leader.commit()
    assert [half.number for half in leader.table.halves_of(first.number)] == [first.number, 2]


async def test_the_half_batches_of_one_transaction_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.broker.produce.transaction_admission.MAX_HALVES", 3)
    leader = HalfLeader()
    leader.append(AddShard(1, (2,), (bytes(INCARNATION_BYTES),)))
    first = leader.half()
    for shard, taken in ((0, 2), (1, 3)):
        column = replace(COLUMN, shard=shard, transaction=first)
        for number in range(taken):
            leader.replica.produce(half_batch(b"on its way", column, 90 + 10 * shard + number))
            if number == 0:
                leader.commit()
        for _ in range(2):
            with pytest.raises(InvalidArgumentError, match="has 3 half batches in this shard, which is the limit"):
                leader.replica.produce(half_batch(b"one more", column, 99 + 10 * shard))
            leader.commit()
    other = leader.half()
    leader.replica.produce(half_batch(b"of another", replace(COLUMN, transaction=other), 80))


async def test_a_transaction_that_is_being_ended_takes_no_more() -> None:
    leader = HalfLeader()
    number = leader.half()
    leader.replica.end_halves(RollBackHalves((number,)), (number,))
    with pytest.raises(TransactionEndedError, match="is being ended"):
        leader.replica.produce(half_batch(b"late", replace(COLUMN, transaction=number), 90))


async def test_the_bytes_of_half_batches_are_limited() -> None:
    leader = HalfLeader()
    leader.replica._timed_limits = TimedLimits(waiting_bytes=1)
    leader.replica.produce(half_batch(b"x", COLUMN, 90))
    with pytest.raises(BusyError, match="bytes of half batches wait"):
        leader.replica.produce(half_batch(b"x", COLUMN, 91))


async def test_one_topic_leaves_room_for_the_half_batches_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with the right to publish to one topic cannot stop the transactions of all others."""
    monkeypatch.setattr("ledger.broker.produce.transaction_admission.MAX_WAITING_HALVES_OF_A_TOPIC", 2)
    monkeypatch.setattr("ledger.broker.produce.transaction_admission.MAX_WAITING_HALVES", 3)
    leader = HalfLeader()
    leader.append(CreateTopic("returns", 1))
    other = leader.replica.state.topics.named("returns")
    assert other is not None
    first = leader.half()
    leader.replica.produce(half_batch(b"on its way", COLUMN, 90))
    full = "2 half batches of topic 'orders' wait in this shard, which is the limit for one topic"
    for producer in (91, 92):
        with pytest.raises(BusyError, match=full):
            leader.replica.produce(half_batch(b"one more", COLUMN, producer))
        leader.commit()
    leader.replica.produce(half_batch(b"of another topic", replace(COLUMN, topic_id=other.topic_id), 93))
    with pytest.raises(BusyError, match="3 half batches wait in this shard, which is the limit"):
        leader.replica.produce(half_batch(b"one more", replace(COLUMN, topic_id=other.topic_id), 94))
    leader.commit()
    leader.append(RollBackHalves((first,)))
    leader.replica.produce(half_batch(b"room again", COLUMN, 95))


async def test_only_the_topic_of_half_batches_has_half_batches() -> None:
    leader = HalfLeader()
    body = half_batch(b"x", COLUMN, 90)
    wrong = body[:32] + (1).to_bytes(4, "little") + body[36:]
    with pytest.raises(LedgerError):
        leader.replica.produce(wrong)
