"""An end that does not name its half batches asks the other shards, but only for a transaction that it can end."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.replicas import Replicas
from ledger.broker.rpc.transactions import TransactionService
from ledger.broker.transactions.checkers import Checkers
from ledger.broker.transactions.checking import CheckSettings
from ledger.broker.transactions.listing import list_open, show
from ledger.broker.transactions.shard_transactions import ShardTransactions
from ledger.broker.turn_budget import TurnBudget
from ledger.v1 import transaction_pb2
from tests.ledger.broker.timed.leader import ORDERS
from tests.ledger.broker.transactions.half_leader import HalfLeader

OTHER_TOPIC = 7


class OtherShard:
    """Stands for the leader of shard 1. It counts for which transactions it is asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def find_halves(self, shard: int, decision_shard: int, transaction: int) -> list[int]:
        self.asked.append(transaction)
        return []


class Site:
    def __init__(self) -> None:
        self.leader, self.other, replicas = HalfLeader(), OtherShard(), Replicas()
        replicas.add(self.leader.replica)
        driver: Any = self.leader.replica.driver
        driver.read_index = lambda settle: settle(True)
        self.transactions = ShardTransactions(
            self.leader.replica, Checkers(), cast(Any, self.other), lambda: [0, 1], lambda: 1.0, CheckSettings()
        )
        shard = SimpleNamespace(shard_transactions=self.transactions)
        self.service = TransactionService({0: shard}, replicas, cast(Any, None), Checkers())

    async def commit(self, *transactions: int, topic_id: int = ORDERS) -> transaction_pb2.EndTransactionsResponse:
        ends = [
            transaction_pb2.TransactionEnd(transaction=number, topic_id=topic_id, commit=True, find_halves=True)
            for number in transactions
        ]
        request = transaction_pb2.EndTransactionsRequest(shard=0, ends=ends)
        return await self.leader.carry_out(self.service.EndTransactions(request, cast(Any, None)))


@pytest.fixture
def site() -> Site:
    return Site()


async def test_other_shards_are_asked_once_for_each_transaction(site: Site) -> None:
    first, second = site.leader.half(), site.leader.half()
    await site.commit(*[first] * 5, second)
    assert site.other.asked == [first, second]
    assert site.leader.table.waiting == {}


async def test_other_shards_are_not_asked_for_a_transaction_of_another_topic_or_that_is_not_open(site: Site) -> None:
    number = site.leader.half()
    answer = await site.commit(number, topic_id=OTHER_TOPIC)
    assert "no such transaction" in answer.results[0].error.message
    await site.commit(number + 1)
    assert site.other.asked == []
    assert site.leader.table.is_open(number)


async def test_half_batches_for_topics_that_a_caller_may_not_see_are_not_listed(site: Site) -> None:
    number = site.leader.half()
    site.leader.half(transaction=number)
    table = site.leader.table
    table.waiting[number + 1] = replace(table.waiting[number + 1], topic_id=OTHER_TOPIC)
    may_see = ORDERS.__eq__
    (listed,) = (await list_open(site.leader.replica, "", None, 0, may_see, TurnBudget(1))).transactions
    assert [half.number for half in listed.halves] == [number]


# -- what callers learn of transactions that have ended


@pytest.fixture
async def ended(site: Site) -> tuple[Site, int]:
    """A site with a transaction of `orders` that was rolled back."""
    number = site.leader.half()
    end = transaction_pb2.TransactionEnd(transaction=number, topic_id=ORDERS, commit=False)
    request = transaction_pb2.EndTransactionsRequest(shard=0, ends=[end])
    await site.leader.carry_out(site.service.EndTransactions(request, cast(Any, None)))
    assert not site.leader.table.is_open(number)
    return site, number


@pytest.mark.parametrize(("sees_all", "topic", "told"), [(False, ORDERS, True), (False, 7, False), (True, 7, True)])
async def test_only_a_caller_who_may_read_its_topic_learns_how_a_transaction_ended(
    ended: tuple[Site, int], sees_all: bool, topic: int, told: bool
) -> None:
    site, number = ended
    found = await show(site.leader.replica, number, topic.__eq__, sees_all=sees_all)
    assert (found.state if found else None) == ("rolled back" if told else None)


@pytest.mark.parametrize("sees_all", [False, True])
async def test_a_transaction_whose_topic_is_no_longer_in_the_log_is_shown_to_a_caller_with_every_right(
    ended: tuple[Site, int], sees_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, number = ended
    monkeypatch.setattr("ledger.broker.transactions.halves.batch_entry_at", lambda *_: None)
    found = await show(site.leader.replica, number, lambda _: True, sees_all=sees_all)
    assert (found is not None) == sees_all


@pytest.mark.parametrize("commit", [False, True])
async def test_an_end_that_names_another_topic_does_not_tell_how_a_transaction_ended(
    ended: tuple[Site, int], commit: bool
) -> None:
    site, number = ended
    end = transaction_pb2.TransactionEnd(transaction=number, topic_id=OTHER_TOPIC, commit=commit)
    request = transaction_pb2.EndTransactionsRequest(shard=0, ends=[end])
    answer = await site.leader.carry_out(site.service.EndTransactions(request, cast(Any, None)))
    assert "there is no such transaction" in answer.results[0].error.message


async def test_the_producer_that_repeats_its_end_learns_that_it_counted(ended: tuple[Site, int]) -> None:
    site, number = ended
    end = transaction_pb2.TransactionEnd(transaction=number, topic_id=ORDERS, commit=False)
    request = transaction_pb2.EndTransactionsRequest(shard=0, ends=[end])
    answer = await site.leader.carry_out(site.service.EndTransactions(request, cast(Any, None)))
    assert not answer.results[0].HasField("error")
