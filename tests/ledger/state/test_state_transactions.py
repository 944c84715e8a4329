"""Transactions in the state of a shard: half batches wait, decisions end transactions, and outcomes are kept."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.errors import InternalError, InvalidArgumentError, InvalidTopicNameError, LedgerError
from ledger.state import HalfName, PreparedHalf, Settlement, State, Topic
from ledger.state.command_checks import MAX_HALF_ITEMS, check_command
from ledger.state.command_encoding import encode_command
from ledger.state.commands import (
    Command,
    CommitTransaction,
    ConfirmHalves,
    CountUnknown,
    CreateTopic,
    DeleteTopic,
    RaiseFeatureLevel,
    RollBackHalves,
    SettledHalf,
)
from ledger.state.encoding import VERSION_3, VERSION_4
from ledger.state.feature_levels import TIMED, TRANSACTIONS
from ledger.state.projected_transactions import ProjectedTransactions
from ledger.state.transaction_table import HERE, EndedTransaction
from ledger.transactions import HALF_TOPIC, MAX_OUTCOMES, OUTCOME_MS, TransactionOutcome

NOW_MS = 1_700_000_000_000
HALF_ID, ORDERS, PAID = 1, 2, 3


class Shard:
    """The state of shard 0 with the topics `%HALF`, `orders` (two queues) and `paid`."""

    def __init__(self, level: int = TRANSACTIONS) -> None:
        self.state = State()
        self.index = 0
        self.now_ms = NOW_MS
        self.next_number = 0
        self.apply(RaiseFeatureLevel(level))
        if level >= TRANSACTIONS:
            for name, queues in ((HALF_TOPIC, 1), ("orders", 2), ("paid", 1)):
                assert isinstance(self.apply(CreateTopic(name, queues)), Topic)

    def apply(self, command: Command) -> object:
        self.index += 1
        return self.state.apply_command(encode_command(command), self.now_ms, index=self.index)

    def half(self, transaction: int | None = None, *, shard: int = 0, topic_id: int = ORDERS, size: int = 200) -> int:
        """Let a half batch wait, and return its number."""
        number, self.next_number, self.index = self.next_number, self.next_number + 2, self.index + 1
        half = PreparedHalf(topic_id, 0, shard, "checkout", transaction, None, 0, number, 2, size, self.now_ms)
        self.state.apply_half(half, HALF_ID, self.index)
        return number

    def settle(self, number: int, transaction: int, **changes: Any) -> None:
        self.index += 1
        fields = {"topic_id": ORDERS, "queue": 0, "shard": 0, "decides": False, "dead": False} | changes
        settled = Settlement(half=number, transaction=transaction, append_time_ms=self.now_ms, **fields)
        self.state.apply_settlement(settled, self.index)

    def outcome(self, transaction: int) -> TransactionOutcome | None:
        ended = self.state.transactions.outcomes.get(transaction)
        return None if ended is None else ended.outcome


# -- transactions of one half batch


def test_a_decided_batch_commits_a_transaction_of_one_half_batch() -> None:
    shard = Shard()
    first, second = shard.half(), shard.half()
    assert shard.state.transactions.is_open(first)
    shard.settle(first, first, decides=True)
    assert shard.outcome(first) is TransactionOutcome.COMMITTED
    assert list(shard.state.transactions.waiting) == [second]
    assert shard.state.transactions.waiting_bytes == 200
    assert not shard.state.transactions.is_open(first)


def test_a_transaction_ends_once() -> None:
    shard = Shard()
    first, second = shard.half(), shard.half()
    assert shard.apply(RollBackHalves((first, second, 99))) == (True, True, False)
    assert shard.apply(RollBackHalves((first,))) == (False,)
    assert shard.apply(CommitTransaction(first, (HalfName(HERE, first),))) is False
    with pytest.raises(InternalError, match="does not wait"):
        shard.settle(first, first, decides=True)
    assert shard.outcome(first) is TransactionOutcome.ROLLED_BACK


def test_a_decided_batch_must_be_in_the_target_queue_unless_it_has_dead_letters() -> None:
    shard = Shard()
    number = shard.half()
    for wrong in ({"queue": 1}, {"topic_id": PAID}):
        with pytest.raises(InternalError, match="its half batch is for queue 0 of topic 2"):
            shard.settle(number, number, decides=True, **wrong)
    shard.settle(number, number, decides=True, dead=True, topic_id=PAID)
    assert shard.outcome(number) is TransactionOutcome.DEAD_LETTERS


# -- transactions of several half batches


def test_a_commit_is_kept_until_all_its_half_batches_are_carried_out() -> None:
    shard = Shard()
    first = shard.half()
    second = shard.half(first)
    names = (HalfName(HERE, first), HalfName(HERE, second), HalfName(3, 40))
    table = shard.state.transactions
    with pytest.raises(InternalError, match="whose transaction is open"):
        shard.settle(second, first)
    assert shard.apply(CommitTransaction(first, names)) is True
    assert shard.outcome(first) is TransactionOutcome.COMMITTED
    assert shard.apply(RollBackHalves((first, second))) == (False, False), "the commit names both"
    with pytest.raises(InternalError, match="which is not open"):
        shard.settle(first, first, decides=True)
    shard.settle(first, first)
    shard.settle(second, first)
    assert table.waiting == {}
    assert list(table.committed[first]) == [HalfName(3, 40)]
    assert (table.names_in, table.names_count) == ({3: {(first, 40): None}}, 1)
    shard.apply(ConfirmHalves((SettledHalf(first, HalfName(3, 41)), SettledHalf(first, HalfName(3, 40)))))
    assert (table.committed, table.names_in) == ({}, {})
    assert shard.outcome(first) is TransactionOutcome.COMMITTED


@pytest.mark.parametrize(
    "names",
    [
        (HalfName(HERE, 2),),
        (HalfName(HERE, 0), HalfName(HERE, 0)),
        (HalfName(HERE, 0), HalfName(HERE, 4)),
        (HalfName(HERE, 0), HalfName(HERE, 6)),
    ],
    ids=["without the first", "twice", "of another transaction", "unknown"],
)
def test_a_commit_names_the_half_batches_of_its_transaction(names: tuple[HalfName, ...]) -> None:
    shard = Shard()
    first = shard.half()
    shard.half(first)
    shard.half()
    assert isinstance(shard.apply(CommitTransaction(first, names)), InvalidArgumentError)
    assert shard.state.transactions.is_open(first)


def test_a_half_batch_that_a_commit_does_not_name_can_only_be_rolled_back() -> None:
    shard = Shard()
    first = shard.half()
    named, unnamed = shard.half(first), shard.half(first)
    shard.apply(CommitTransaction(first, (HalfName(HERE, first), HalfName(HERE, named))))
    with pytest.raises(InternalError):
        shard.settle(unnamed, first)
    late = shard.half(first)
    assert shard.apply(RollBackHalves((unnamed, late))) == (True, True)
    assert set(shard.state.transactions.waiting) == {first, named}


def test_a_half_batch_of_an_open_transaction_is_rolled_back_only_with_it() -> None:
    shard = Shard()
    first = shard.half()
    second = shard.half(first)
    assert shard.apply(RollBackHalves((second,))) == (False,)
    assert shard.apply(RollBackHalves((first, second))) == (True, True)
    assert shard.state.transactions.joined == {}


def test_a_half_batch_of_another_shard_is_settled_by_that_shard() -> None:
    shard = Shard()
    number, other = shard.half(0, shard=5), shard.half(0, shard=5)
    assert not shard.state.transactions.is_open(number), "it begins no transaction here"
    shard.settle(number, 0, shard=5)
    assert shard.apply(RollBackHalves((other,))) == (True,)
    assert shard.state.transactions.outcomes == {}


def test_dead_letters_of_several_half_batches() -> None:
    shard = Shard()
    first = shard.half()
    second = shard.half(first)
    shard.settle(first, first, decides=True, dead=True, topic_id=PAID)
    shard.settle(second, first, dead=True, topic_id=PAID)
    assert shard.state.transactions.waiting == {}
    assert shard.outcome(first) is TransactionOutcome.DEAD_LETTERS


# -- copies, counts and deleted topics


def test_a_copy_keeps_the_number_and_a_late_copy_changes_nothing() -> None:
    shard = Shard()
    number = shard.half()
    copy = PreparedHalf(ORDERS, 0, 0, "checkout", None, number, 0, 40, 2, 200, NOW_MS + 5)
    shard.state.apply_half(copy, HALF_ID, 20)
    (half,) = shard.state.transactions.waiting.values()
    assert (half.number, half.place, half.since_ms) == (number, 40, NOW_MS)
    shard.apply(RollBackHalves((number,)))
    shard.state.apply_half(copy, HALF_ID, 21)
    assert shard.state.transactions.waiting == {}


def test_unknown_answers_are_counted_for_open_transactions() -> None:
    shard = Shard()
    first = shard.half()
    joined = shard.half(first)
    assert shard.apply(CountUnknown((first, joined, 99))) == 1
    assert shard.apply(CountUnknown((first,))) == 1
    assert shard.state.transactions.waiting[first].unknowns == 2


def test_a_deleted_topic_rolls_back_what_begins_in_it() -> None:
    shard = Shard()
    begins, other = shard.half(topic_id=PAID), shard.half()
    joined = shard.half(other, topic_id=PAID)
    shard.apply(CommitTransaction(other, (HalfName(HERE, other), HalfName(HERE, joined))))
    shard.apply(DeleteTopic(PAID))
    assert list(shard.state.transactions.waiting) == [other]
    assert shard.outcome(begins) is TransactionOutcome.ROLLED_BACK
    assert list(shard.state.transactions.committed[other]) == [HalfName(HERE, other)]
    shard.settle(other, other)
    assert shard.state.transactions.committed == {}


def test_the_topic_of_half_batches_cannot_be_deleted() -> None:
    refusal = Shard().apply(DeleteTopic(HALF_ID))
    assert isinstance(refusal, InvalidArgumentError)
    assert "%HALF cannot be deleted" in str(refusal)


# -- outcomes


def test_outcomes_are_kept_for_a_day() -> None:
    shard = Shard()
    number = shard.half()
    shard.apply(RollBackHalves((number,)))
    shard.now_ms += OUTCOME_MS - 1
    shard.apply(CountUnknown((99,)))
    assert shard.outcome(number) is TransactionOutcome.ROLLED_BACK
    shard.now_ms += 1
    shard.apply(CountUnknown((99,)))
    assert shard.outcome(number) is None


def test_the_number_of_outcomes_is_limited() -> None:
    shard = Shard()
    for number in range(MAX_OUTCOMES):
        shard.state.transactions.put_outcome(10 * number + 1, EndedTransaction(TransactionOutcome.COMMITTED, NOW_MS))
    number = shard.half()
    shard.apply(RollBackHalves((number,)))
    assert len(shard.state.transactions.outcomes) == MAX_OUTCOMES
    assert (shard.outcome(1), shard.outcome(11)) == (None, TransactionOutcome.COMMITTED)
    data = shard.state.encode()
    assert State.decode(data).encode() == data


# -- levels and values


def test_a_shard_below_the_level_has_no_transactions() -> None:
    shard = Shard(TIMED)
    assert shard.state.encode()[4] == VERSION_3
    assert isinstance(shard.apply(CreateTopic(HALF_TOPIC, 1)), InvalidTopicNameError)
    assert isinstance(shard.apply(RollBackHalves((1,))), InvalidArgumentError)
    with pytest.raises(InternalError, match="below feature level 4"):
        shard.half()
    with pytest.raises(InternalError, match="below feature level 4"):
        shard.settle(0, 0)
    shard.apply(RaiseFeatureLevel(TRANSACTIONS))
    assert shard.state.encode()[4] == VERSION_4


def test_a_half_batch_waits_only_in_its_topic() -> None:
    shard = Shard()
    half = PreparedHalf(ORDERS, 0, 0, "checkout", None, None, 0, 0, 1, 100, NOW_MS)
    with pytest.raises(InternalError, match="is not in %HALF"):
        shard.state.apply_half(half, PAID, 9)


@pytest.mark.parametrize(
    "command",
    [
        RollBackHalves(()),
        RollBackHalves((1,) * (MAX_HALF_ITEMS + 1)),
        RollBackHalves(((1 << 63),)),
        CountUnknown(()),
        CommitTransaction(0, ()),
        CommitTransaction(0, (HalfName(HERE, 0),) * 1001),
        CommitTransaction(0, (HalfName(HERE - 1, 0),)),
        ConfirmHalves(()),
        ConfirmHalves((SettledHalf(0, HalfName(1, 1 << 63)),)),
    ],
    ids=repr,
)
def test_impossible_commands_are_refused(command: Command) -> None:
    with pytest.raises(LedgerError):
        check_command(command, 0)


# -- the projected state


class Entry:
    def __init__(self, index: int = 0) -> None:
        self.index = index


def test_a_half_batch_is_reserved_until_its_entry_is_applied() -> None:
    shard = Shard()
    first, second = shard.half(), shard.half()
    projected = ProjectedTransactions(shard.state.transactions)
    entry = Entry()
    projected.admit(entry, (first,))
    assert (projected.waits(first), projected.waits(second), projected.waits(99)) == (False, True, False)
    projected.settle(50)
    assert not projected.waits(first), "the entry is not appended"
    entry.index = 51
    shard.apply(RollBackHalves((second,)))
    projected.settle(51)
    assert projected.waits(first)
    assert not projected.waits(second)


def test_half_batches_on_their_way_count() -> None:
    shard = Shard()
    shard.half()
    projected = ProjectedTransactions(shard.state.transactions)
    entry = Entry(7)
    projected.prepare(entry, 1, 300)
    assert (projected.waiting, projected.waiting_bytes) == (2, 500)
    projected.settle(7)
    assert (projected.waiting, projected.waiting_bytes) == (1, 200)
