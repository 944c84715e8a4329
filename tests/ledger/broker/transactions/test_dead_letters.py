"""The dead letters of transactions: replicas can apply whatever the leader appends about them."""

from __future__ import annotations

import asyncio

import pytest

from ledger.broker.topics.topic_commands import delete_topic
from ledger.broker.transactions.settling import OUTCOME_MARGIN_MS, HalfSettling
from ledger.state import HalfName
from ledger.state.commands import CommitTransaction, CreateTopic
from ledger.state.transaction_table import HERE
from ledger.transactions import OUTCOME_MS, TransactionOutcome
from tests.ledger.broker.timed.leader import NOW_MS, ORDERS
from tests.ledger.broker.transactions.half_leader import NO_OTHER_SHARDS, HalfLeader


@pytest.fixture
def leader() -> HalfLeader:
    return HalfLeader()


@pytest.fixture
def settling(leader: HalfLeader) -> HalfSettling:
    return HalfSettling(leader.replica, NO_OTHER_SHARDS, lambda: 1.0)


async def test_a_transaction_that_was_just_committed_does_not_go_to_the_dead_letters(
    leader: HalfLeader, settling: HalfSettling
) -> None:
    """The last check of a producer may end after the commit was applied and before the commit is carried out."""
    dead = leader.dead_letter_topic()
    first = leader.half(b"a")
    second = leader.half(b"b", first)
    leader.append(CommitTransaction(first, (HalfName(HERE, first), HalfName(HERE, second))))
    last = leader.log.last_index
    assert await leader.carry_out(settling.bury(first, decides=True)) is False
    assert leader.log.last_index == last
    await leader.carry_out(settling._look())
    assert (len(leader.values()), len(leader.values(dead)), leader.table.waiting) == (2, 0, {})


async def test_half_batches_of_a_topic_that_is_being_deleted_do_not_go_to_the_dead_letters(
    leader: HalfLeader, settling: HalfSettling
) -> None:
    dead = leader.dead_letter_topic()
    first = leader.half()
    deletion = delete_topic(leader.replica, ORDERS)
    burial = asyncio.ensure_future(settling.bury(first, decides=True))
    await asyncio.sleep(0)
    leader.commit()  # what the leader has appended does not stop the replica
    await deletion
    assert await burial is False
    assert (leader.table.waiting, leader.values(dead)) == ({}, [])


async def test_a_half_batch_whose_topic_is_gone_goes_to_the_dead_letters(
    leader: HalfLeader, settling: HalfSettling
) -> None:
    """Earlier versions took half batches behind the deletion of their topic. Nothing but this settles them."""
    dead = leader.dead_letter_topic()
    await leader.carry_out(_deleted(leader))
    first = leader.half()
    assert await leader.carry_out(settling.bury(first, decides=True)) is True
    assert (leader.table.waiting, len(leader.values(dead))) == ({}, 1)


async def _deleted(leader: HalfLeader) -> None:
    await delete_topic(leader.replica, ORDERS)


async def test_dead_letters_are_applied_although_the_outcome_is_forgotten_by_their_own_append_time(
    leader: HalfLeader, settling: HalfSettling
) -> None:
    """The cluster stood for a day between the dead letters of the first half batch and those of the second."""
    dead = leader.dead_letter_topic()
    first = leader.half(b"a")
    second = leader.half(b"b", first)
    assert await leader.carry_out(settling.bury(first, decides=True))
    leader.driver.append_time_ms += OUTCOME_MS
    assert await leader.carry_out(settling.bury(second, decides=False))
    assert (leader.table.waiting, len(leader.values(dead))) == ({}, 2)
    assert leader.table.outcomes == {}, "the append time of the second ones is a day after the outcome"


@pytest.mark.parametrize("decides", [True, False])
async def test_each_order_of_outcomes_that_are_forgotten_gives_the_same_outcomes(
    leader: HalfLeader, settling: HalfSettling, monkeypatch: pytest.MonkeyPatch, decides: bool
) -> None:
    """A settlement is applied before its append time lets outcomes expire. The outcomes are those of the other
    order."""
    monkeypatch.setattr("ledger.state.transaction_table.MAX_OUTCOMES", 3)
    leader.dead_letter_topic()
    numbers = [leader.half() for _ in range(6)]
    joined = leader.half(transaction=numbers[3])
    for place, number in enumerate(numbers[:4]):
        leader.driver.append_time_ms = NOW_MS + place
        assert await leader.carry_out(settling.bury(number, decides=True))
    assert list(leader.table.outcomes) == numbers[1:4]
    leader.driver.append_time_ms = NOW_MS + 1 + OUTCOME_MS
    assert await leader.carry_out(settling.bury(numbers[4] if decides else joined, decides=decides))
    assert list(leader.table.outcomes) == numbers[2 : 5 if decides else 4]
    assert set(leader.table.outcomes.values()) >= {(TransactionOutcome.DEAD_LETTERS, NOW_MS + 3)}


@pytest.mark.parametrize(
    ("passed_ms", "is_buried"), [(OUTCOME_MS - OUTCOME_MARGIN_MS - 1, True), (OUTCOME_MS - OUTCOME_MARGIN_MS, False)]
)
async def test_a_half_batch_waits_while_the_outcome_of_its_transaction_is_nearly_forgotten(
    leader: HalfLeader, settling: HalfSettling, passed_ms: int, is_buried: bool
) -> None:
    leader.dead_letter_topic()
    first = leader.half()
    second = leader.half(transaction=first)
    assert await leader.carry_out(settling.bury(first, decides=True))
    leader.driver.append_time_ms += passed_ms
    assert settling._orphans() == ([], [second] if is_buried else [])
    leader.driver.append_time_ms = NOW_MS + OUTCOME_MS
    leader.append(CreateTopic("other", 1))
    assert settling._orphans() == ([second], []), "it is rolled back when the outcome is forgotten"
