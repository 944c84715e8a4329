"""A transaction over several shards: one shard decides, and the others follow, also when leaders go at any step."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from ledger.client.transactions.records import CheckedTransaction, CheckResult
from ledgermq import AsyncConsumer, AsyncProducer
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.waiter import until

pytestmark = pytest.mark.real

FAST = {"transaction_check_after_s": 0.5, "transaction_check_every_s": 0.5}
QUEUES = 4


async def a_fleet(make_fleet: MakeFleet, **settings: object) -> Fleet:
    fleet = make_fleet(3, shards=3, **{**FAST, **settings})
    await fleet.start()
    await fleet.leader()
    async with AsyncProducer(fleet.bootstrap) as producer:
        await fleet.create_topic("orders", QUEUES)
        await producer.send("orders", b"first", queue=0)
    return fleet


async def values_of(fleet: Fleet, count: int, *, extra_ms: float = 500) -> Counter[bytes]:
    """Return the first `count` values of the topic, and those that come within `extra_ms` after them."""
    async with AsyncConsumer("orders", bootstrap_servers=fleet.bootstrap) as consumer:
        values = [(await anext(consumer)).value for _ in range(count)]
        return Counter([*values, *(each.value for each in await consumer.getmany(500, extra_ms))])


def waiting(fleet: Fleet) -> int:
    """Return how many half batches wait, and commits are carried out, in all replicas."""
    tables = [replica.state.transactions for node in fleet.running.values() for replica in node._shards.replicas]
    return sum(len(table.waiting) + len(table.committed) for table in tables)


async def settled(fleet: Fleet) -> None:
    await until(lambda: waiting(fleet) == 0, "no half batch waits", deadline_s=30)


async def test_all_shards_follow_a_commit_and_a_rollback(make_fleet: MakeFleet) -> None:
    fleet = await a_fleet(make_fleet)
    async with AsyncProducer(fleet.bootstrap) as producer:
        for number in range(5):
            async with producer.transaction("orders", group="checkout") as transaction:
                for queue in range(QUEUES):
                    await transaction.send(b"yes %d" % number, queue=(queue + number) % QUEUES)
            rolled_back = producer.transaction("orders", group="checkout")
            for queue in range(QUEUES):
                await rolled_back.send(b"no %d" % number, queue=(queue + number) % QUEUES)
            await rolled_back.rollback()
    values = await values_of(fleet, 1 + 5 * QUEUES)
    assert values == Counter({b"first": 1, **{b"yes %d" % number: QUEUES for number in range(5)}})
    await settled(fleet)


async def test_a_checker_commits_what_is_in_other_shards_too(make_fleet: MakeFleet) -> None:
    fleet = await a_fleet(make_fleet)

    async def checker(checked: CheckedTransaction) -> CheckResult:
        return "commit" if checked.messages[0].value == b"yes" else "rollback"

    async with AsyncProducer(fleet.bootstrap) as other:
        other.answer_checks("checkout", checker)
        async with AsyncProducer(fleet.bootstrap) as dies:
            for value in (b"yes", b"no"):
                transaction = dies.transaction("orders", group="checkout")
                for queue in range(QUEUES):
                    await transaction.send(value, queue=queue)
        assert await values_of(fleet, 1 + QUEUES, extra_ms=1500) == Counter({b"first": 1, b"yes": QUEUES})
        await settled(fleet)


async def test_dead_letters_of_all_shards(make_fleet: MakeFleet) -> None:
    fleet = await a_fleet(make_fleet, transaction_checks=2)
    async with AsyncProducer(fleet.bootstrap) as producer:
        lost = producer.transaction("orders", group="checkout", checker=lambda checked: "unknown")
        for queue in range(QUEUES):
            await lost.send(b"lost", queue=queue)
        async with AsyncConsumer("%DLQ%checkout", bootstrap_servers=fleet.bootstrap) as consumer:
            assert [(await anext(consumer)).value for _ in range(QUEUES)] == [b"lost"] * QUEUES
        await settled(fleet)


async def test_nodes_are_restarted_while_transactions_are_committed(make_fleet: MakeFleet) -> None:
    fleet = await a_fleet(make_fleet)
    done: list[int] = []

    async def commit(producer: AsyncProducer, number: int) -> None:
        async with producer.transaction("orders", group="checkout") as transaction:
            for queue in range(QUEUES):
                await transaction.send(b"%d" % number, queue=(queue + number) % QUEUES)
        done.append(number)

    async def produce(producer: AsyncProducer, first: int) -> None:
        for number in range(first, 60, 4):
            await commit(producer, number)

    async with AsyncProducer(fleet.bootstrap, request_timeout_ms=5000) as producer:
        work = asyncio.gather(*[produce(producer, first) for first in range(4)])
        for node in (1, 2, 3):
            await asyncio.sleep(0.3)
            await fleet.stop(node)
            await fleet.start(node)
        await asyncio.wait_for(work, 90)
    values = await values_of(fleet, 1 + 60 * QUEUES)
    assert values == Counter({b"first": 1, **{b"%d" % number: QUEUES for number in range(60)}})
    await settled(fleet)
