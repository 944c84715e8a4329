"""Transactions on three nodes: consumers get all messages of a committed transaction once, and none of another one,
although producers and leaders die at any step.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from ledger.client.transactions.records import CheckedTransaction, CheckResult
from ledger.client.transactions.transaction import TransactionState
from ledger.errors import InvalidArgumentError, TransactionEndedError
from ledgermq import AsyncConsumer, AsyncProducer
from tests.cluster.fleet import Fleet, MakeFleet

pytestmark = pytest.mark.real

FAST = {"transaction_check_after_s": 0.5, "transaction_check_every_s": 0.5}


async def a_fleet(make_fleet: MakeFleet, topics: dict[str, int], nodes: int = 3, **settings: object) -> Fleet:
    fleet = make_fleet(nodes, **{**FAST, **settings})
    await fleet.start()
    await fleet.leader()
    for name, queues in topics.items():
        await fleet.create_topic(name, queues)
    return fleet


async def values_of(fleet: Fleet, topic: str, count: int, *, extra_ms: float = 300) -> list[bytes]:
    """Return the first `count` values of the topic, and those that come within `extra_ms` after them."""
    async with AsyncConsumer(topic, bootstrap_servers=fleet.bootstrap) as consumer:
        values = [(await anext(consumer)).value for _ in range(count)]
        return values + [each.value for each in await consumer.getmany(500, extra_ms)]


async def test_a_committed_message_appears_and_others_do_not(make_fleet: MakeFleet) -> None:
    fleet = await a_fleet(make_fleet, {"orders": 2})
    async with AsyncProducer(fleet.bootstrap) as producer:
        async with producer.transaction("orders", group="checkout") as transaction:
            await transaction.send(b"committed", key="a", tag="new", headers={"trace": b"1"})
            assert transaction.id is not None
        with suppress(RuntimeError):
            async with producer.transaction("orders", group="checkout") as failed:
                await failed.send(b"rolled back", key="a")
                raise RuntimeError
        assert failed.state is TransactionState.ROLLED_BACK
        third = producer.transaction("orders", group="checkout")
        await third.send(b"third", key="a")
        place = await third.commit()
        assert place is not None
        assert (place.topic, place.offset) == ("orders", 1)
        with pytest.raises(InvalidArgumentError):
            await third.rollback()
    async with AsyncConsumer("orders", bootstrap_servers=fleet.bootstrap) as consumer:
        first, second = await anext(consumer), await anext(consumer)
        assert (first.value, first.key, first.tag, first.headers) == (b"committed", b"a", "new", (("trace", b"1"),))
        assert second.value == b"third"
        assert await consumer.getmany(10, 300) == []


async def test_several_queues_and_topics_are_committed_together(make_fleet: MakeFleet) -> None:
    fleet = await a_fleet(make_fleet, {"orders": 4, "paid": 1})
    async with AsyncProducer(fleet.bootstrap) as producer:
        async with producer.transaction("orders", group="checkout") as transaction:
            await asyncio.gather(*[transaction.send(b"%d" % number, queue=number % 4) for number in range(8)])
            await transaction.send(b"paid", topic="paid")
        rolled_back = producer.transaction("orders", group="checkout")
        await rolled_back.send(b"no", queue=0)
        await rolled_back.send(b"no", topic="paid")
        await rolled_back.rollback()
        assert sorted(await values_of(fleet, "orders", 8)) == [b"%d" % number for number in range(8)]
        assert await values_of(fleet, "paid", 1) == [b"paid"]


async def test_another_producer_of_the_group_answers_for_a_dead_one(make_fleet: MakeFleet) -> None:
    fleet = await a_fleet(make_fleet, {"orders": 1})
    asked: list[CheckedTransaction] = []

    async def checker(checked: CheckedTransaction) -> CheckResult:
        asked.append(checked)
        return "commit" if checked.messages[0].value == b"yes" else "rollback"

    async with AsyncProducer(fleet.bootstrap) as other:
        other.answer_checks("checkout", checker)
        async with AsyncProducer(fleet.bootstrap) as dies:
            for value in (b"yes", b"no"):
                await dies.transaction("orders", group="checkout").send(value)
        assert await values_of(fleet, "orders", 1, extra_ms=1500) == [b"yes"]
        assert {checked.messages[0].value for checked in asked} == {b"yes", b"no"}
        assert {(checked.group, checked.messages[0].topic, checked.checks) for checked in asked} == {
            ("checkout", "orders", 0)
        }


async def test_a_late_commit_after_a_rollback_is_refused(make_fleet: MakeFleet) -> None:
    fleet = await a_fleet(make_fleet, {"orders": 1})
    async with AsyncProducer(fleet.bootstrap) as producer:
        late = producer.transaction("orders", group="checkout", checker=lambda checked: "rollback")
        await late.send(b"late")
        await asyncio.sleep(2.5)
        with pytest.raises(TransactionEndedError, match="was rolled back"):
            await late.commit()
        await producer.send("orders", b"last")
        assert await values_of(fleet, "orders", 1) == [b"last"]


async def test_unknown_answers_lead_to_the_dead_letters(make_fleet: MakeFleet) -> None:
    fleet = await a_fleet(make_fleet, {"orders": 1}, transaction_checks=3)
    async with AsyncProducer(fleet.bootstrap) as producer:
        lost = producer.transaction("orders", group="checkout", checker=lambda checked: "unknown")
        await lost.send(b"lost", key="k", headers={"%FROM": b"1:0:0"})
        assert await values_of(fleet, "%DLQ%checkout", 1) == [b"lost"]
        with pytest.raises(TransactionEndedError, match="dead letters"):
            await lost.commit()


async def test_without_a_live_producer_the_messages_become_dead_letters(make_fleet: MakeFleet) -> None:
    fleet = await a_fleet(make_fleet, {"orders": 1}, transaction_max_hours=2 / 3600)
    async with AsyncProducer(fleet.bootstrap) as producer:
        await producer.transaction("orders", group="checkout").send(b"nobody knows")
    assert await values_of(fleet, "%DLQ%checkout", 1) == [b"nobody knows"]
