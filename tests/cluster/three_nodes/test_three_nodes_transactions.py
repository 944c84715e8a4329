"""Transactions on three nodes: consumers get all messages of a committed transaction once, and none of another one,
although producers and leaders die at any step.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster
from ledger.client.transactions.records import CheckedTransaction, CheckResult
from ledger.client.transactions.transaction import TransactionState
from ledger.errors import InvalidArgumentError, InvalidTopicNameError, TransactionEndedError
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from tests.cluster.fleet import SEGMENT_BYTES, Fleet, MakeFleet
from tests.cluster.ports import free_base_port

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


async def test_half_batches_cannot_be_read(make_fleet: MakeFleet) -> None:
    fleet = await a_fleet(make_fleet, {"orders": 1}, nodes=1)
    async with AsyncProducer(fleet.bootstrap) as producer, AsyncAdmin(fleet.bootstrap) as admin:
        await producer.transaction("orders", group="checkout").send(b"secret", key="k")
        async with AsyncConsumer("%HALF", bootstrap_servers=fleet.bootstrap) as consumer:
            with pytest.raises(InvalidTopicNameError, match="is internal"):
                await consumer.getmany(1, 3000)
        with pytest.raises(InvalidTopicNameError, match="is internal"):
            await admin.query_messages("%HALF", "k")


async def test_transactions_wait_on_while_the_log_start_moves_and_nodes_start_again(make_fleet: MakeFleet) -> None:
    fleet = await a_fleet(make_fleet, {"orders": 2, "other": 1}, transaction_check_after_s=600)
    async with AsyncProducer(fleet.bootstrap) as producer, AsyncAdmin(fleet.bootstrap) as admin:
        begun = [producer.transaction("orders", group="checkout") for _ in range(6)]
        for number, transaction in enumerate(begun):
            await transaction.send(b"%d" % number, queue=number % 2)
            if number >= 4:
                await transaction.send(b"%d too" % number, queue=(number + 1) % 2)
        for _ in range(2):
            for _ in range(3):
                await producer.send_many("other", [bytes(50_000)] * (SEGMENT_BYTES // 50_000))
            assert (await admin.trim_log(keep_bytes=SEGMENT_BYTES)).entries > 4, "entries of half batches are removed"
        await fleet.level()
        await fleet.stop(1, 2, 3)
        await fleet.start(1, 2, 3)
        await fleet.leader()
        for number in (0, 1, 4):
            await begun[number].commit()
        for number in (2, 3, 5):
            await begun[number].rollback()
    assert sorted(await values_of(fleet, "orders", 4)) == [b"0", b"1", b"4", b"4 too"]


async def test_a_leader_is_killed_while_transactions_are_ended(tmp_path: Path) -> None:
    cluster = DevCluster(tmp_path)
    cluster.start(3, base_port=free_base_port(3))
    ended: Counter[str] = Counter()

    async def work(producer: AsyncProducer, worker: int) -> None:
        for number in range(12):
            transaction = producer.transaction("orders", group="checkout")
            for queue in range(1 + number % 3):
                await transaction.send(b"%d %d" % (worker, number), queue=queue)
            if number % 2:
                await transaction.rollback()
            else:
                await transaction.commit()
            ended[transaction.state.value] += 1

    try:
        async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as producer:
            await admin.create_topic("orders", 3)
            working = asyncio.gather(*[work(producer, worker) for worker in range(20)])
            for _ in range(2):
                await asyncio.sleep(0.3)
                victim = await asyncio.to_thread(cluster.leader)
                await asyncio.to_thread(cluster.kill, victim)
                await asyncio.sleep(2)
                await asyncio.to_thread(cluster.restart, victim)
            await asyncio.wait_for(working, 60)
            assert ended == {"committed": 120, "rolled back": 120}
            assert await admin.transactions() == []
            expected = Counter(
                b"%d %d" % (worker, number)
                for worker in range(20)
                for number in range(0, 12, 2)
                for _ in range(1 + number % 3)
            )
            async with AsyncConsumer("orders", bootstrap_servers=cluster.bootstrap) as consumer:
                values = [(await anext(consumer)).value for _ in range(expected.total())]
                values += [each.value for each in await consumer.getmany(500, 1000)]
            assert Counter(values) == expected
    finally:
        cluster.purge()


async def test_a_killed_producer_is_answered_for_by_another_process(tmp_path: Path) -> None:
    """The producer process is killed between its send and its commit."""
    cluster = DevCluster(tmp_path)
    cluster.start(1, base_port=free_base_port(1))
    program = (
        "import sys\n"
        "from ledgermq import Producer\n"
        "producer = Producer(sys.argv[1])\n"
        "producer.transaction('orders', group='checkout').send(b'survives')\n"
        "print('sent', flush=True)\n"
        "sys.stdin.read()\n"
    )
    try:
        async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as other:
            await admin.create_topic("orders", 1)
            other.answer_checks("checkout", lambda checked: "commit")
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, cluster.bootstrap, stdin=PIPE, stdout=PIPE
            )
            assert process.stdout is not None
            assert await process.stdout.readline() == b"sent\n"
            process.kill()
            await process.wait()
            async with AsyncConsumer("orders", bootstrap_servers=cluster.bootstrap) as consumer:
                message = await asyncio.wait_for(anext(consumer), 30)
            assert message.value == b"survives"
    finally:
        cluster.purge()
