"""Tests faults of consumers and consumer groups against three real nodes: a member that is paused for longer than
its session, a poison message, a coordinator that dies while members join, offsets before the log start, and topics
that get more queues. docs/CONSUMERS.md lists all such faults with their tests."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.local.processes import DevCluster
from ledger.retries import dead_letter_topic
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncGroupConsumer, AsyncProducer, AsyncPushConsumer, Message
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import eventually, until

QUEUES = 4
SEGMENT_BYTES = 6 << 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERMQ_RETRY_DELAYS_S", "0.3")
        cluster = DevCluster(tmp_path_factory.mktemp("trouble"))
        cluster.start(3, base_port=free_base_port(3), segment_bytes=SEGMENT_BYTES)
        yield cluster
        cluster.purge()


async def create(cluster: DevCluster, topic: str, queues: int = QUEUES) -> None:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        await admin.create_topic(topic, queues)


async def send(cluster: DevCluster, topic: str, values: range, queues: int = QUEUES) -> None:
    async with AsyncProducer(cluster.bootstrap) as producer:
        for value in values:
            await producer.send(topic, b"%d" % value, queue=value % queues)


async def read(consumer: AsyncConsumer | AsyncGroupConsumer, count: int) -> list[Message]:
    messages: list[Message] = []
    async with asyncio.timeout(40):
        while len(messages) < count:
            messages += await consumer.getmany()
    return messages


def values(messages: list[Message]) -> list[int]:
    return sorted(int(message.value) for message in messages)


PAUSED = """
import asyncio, sys
from ledgermq import AsyncGroupConsumer

async def main():
    consumer = AsyncGroupConsumer("paused", group="leases", bootstrap_servers=sys.argv[1], session_timeout_ms=1000,
                                  acknowledge_interval_ms=600_000, auto_acknowledge=False)
    async with consumer:
        messages = []
        while len(messages) < 8:
            messages += await consumer.getmany()
        print("has them", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        consumer.finish(*messages)
        await consumer.acknowledge()
        print("has acknowledged", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


async def test_a_consumer_that_is_paused_for_longer_than_its_session_is_refused(cluster: DevCluster) -> None:
    await create(cluster, "paused")
    await send(cluster, "paused", range(8))
    paused = await create_subprocess_exec(
        sys.executable, "-c", PAUSED, cluster.bootstrap, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert paused.stdin is not None
    assert paused.stdout is not None
    assert paused.stderr is not None
    try:
        assert await paused.stdout.readline() == b"has them\n"
        os.kill(paused.pid, signal.SIGSTOP)
        other = AsyncGroupConsumer(
            "paused", group="leases", bootstrap_servers=cluster.bootstrap, auto_acknowledge=False
        )
        async with other:
            again = await read(other, 8)  # once the session of the other one is over
            assert values(again) == list(range(8))
            other.finish(*(message for message in again if message.queue == 0))
            await other.acknowledge()
            paused.stdin.write(b"go on\n")
            os.kill(paused.pid, signal.SIGCONT)
            assert await paused.stdout.readline() == b"has acknowledged\n"
            async with AsyncAdmin(cluster.bootstrap) as admin:
                described = await admin.describe_consumer_group("leases")
            offsets = [one.offset for one in described.queues if one.topic == "paused"]
            assert offsets == [2, 0, 0, 0], "what the other one says counts, and nothing else"
    finally:
        paused.kill()
        told = (await paused.stderr.read()).decode()
        await paused.wait()
    assert "no longer owns queue" in told or "has no member" in told


async def test_a_poison_message_goes_round_and_then_to_the_dead_letters_and_holds_up_nobody(
    cluster: DevCluster,
) -> None:
    await create(cluster, "poisoned", 1)
    order: list[int] = []

    async def listener(message: Message) -> None:
        order.append(int(message.value))
        if int(message.value) == 3:
            raise RuntimeError("poison")

    await send(cluster, "poisoned", range(50), queues=1)
    where: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap}
    push = AsyncPushConsumer("poisoned", group="poisoning", listener=listener, max_attempts=4, concurrency=1, **where)
    async with push, AsyncConsumer(dead_letter_topic("poisoning"), **where) as dead_letters:
        (dead,) = await read(dead_letters, 1)
    assert (dead.value, dead.attempt - 1) == (b"3", 4)
    assert Counter(order) == Counter(range(50)) + Counter([3, 3, 3])
    assert order[:50] == list(range(50)), "all behind it in its queue came before its second attempt"


async def test_a_coordinator_that_dies_while_members_join_leaves_each_queue_with_one_owner(
    cluster: DevCluster,
) -> None:
    await create(cluster, "joining", 8)
    members = [AsyncGroupConsumer("joining", group="joiners", bootstrap_servers=cluster.bootstrap) for _ in range(4)]

    def owned() -> list[int]:
        return sorted(place.queue for each in joined for place in each.assignment if place.topic == "joining")

    def shares() -> list[int]:
        return [sum(place.topic == "joining" for place in each.assignment) for each in members]

    joined = members[:1]
    await members[0].start()
    try:
        await until(lambda: owned() == list(range(8)), "the first one has all")
        sending = asyncio.create_task(send(cluster, "joining", range(200), queues=8))
        others = [asyncio.create_task(each.start()) for each in members[1:]]
        victim = await asyncio.to_thread(cluster.leader)
        await asyncio.to_thread(cluster.kill, victim)
        await asyncio.gather(*others)
        joined = members
        await asyncio.to_thread(cluster.restart, victim)
        seen: Counter[int] = Counter()

        async def all_seen() -> bool:
            """Return whether all messages were seen and the queues are shared out equally. A member gives up a
            queue at its next read, so each member reads here."""
            for each in members:
                seen.update(values(await each.getmany(timeout_ms=50)))
            return len(seen) == 200 and sending.done() and shares() == [2, 2, 2, 2]

        await eventually(all_seen, "everything was handed out, and each has its share", deadline_s=60)
        assert owned() == list(range(8)), "each queue has one owner"
        assert max(seen.values()) == 1, "nobody was silent for a session, so nothing came twice"
    finally:
        await asyncio.gather(*(each.stop() for each in members), return_exceptions=True)


async def test_a_consumer_group_whose_offsets_are_older_than_the_log_goes_on_with_what_is_kept(
    cluster: DevCluster,
) -> None:
    await create(cluster, "aged", 1)
    await send(cluster, "aged", range(20), queues=1)
    settings: dict[str, Any] = {"group": "late", "bootstrap_servers": cluster.bootstrap}
    async with AsyncGroupConsumer("aged", **settings) as consumer:
        await read(consumer, 10)
    async with AsyncProducer(cluster.bootstrap) as producer, AsyncAdmin(cluster.bootstrap) as admin:
        for _ in range(3):  # segments that are full of nothing else
            await producer.send_many("aged", [bytes(1 << 20)] * 6, queue=0)

        async def trimmed() -> bool:
            """Trim the log. That succeeds once a snapshot for a later log start exists."""
            return (await admin.trim_log(keep_bytes=0)).messages > 0

        await eventually(trimmed, "the log begins later")
        first = (await admin.describe_topic("aged")).offsets[0].first_offset
        assert first > 20
        async with AsyncGroupConsumer("aged", **settings) as consumer:
            message = (await read(consumer, 1))[0]
            assert message.offset == first
            consumer.finish(message)
            await consumer.acknowledge()
        described = await admin.describe_consumer_group("late")
        assert [one.offset for one in described.queues if one.topic == "aged"] == [first + 1]


async def test_queues_that_a_topic_is_given_are_taken_up_while_it_is_consumed(
    cluster: DevCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.client.connection.routes._REFRESH_SECONDS", 0.5)
    await create(cluster, "growing", 1)
    where: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap}
    async with (
        AsyncConsumer("growing", start="latest", **where) as plain,
        AsyncGroupConsumer("growing", group="growers", **where) as member,
        AsyncGroupConsumer("growing", group="all", broadcast=True, instance="a", **where) as one,
        AsyncConsumer("growing", queues=[0], **where) as pinned,
    ):
        async with AsyncAdmin(cluster.bootstrap) as admin:
            await admin.alter_topic("growing", 3)
        await send(cluster, "growing", range(30), queues=3)
        for consumer in (plain, member, one):
            assert values(await read(consumer, 30)) == list(range(30)), "those in new queues from the first one on"
        assert values(await read(pinned, 10)) == list(range(0, 30, 3))
        assert await pinned.getmany(timeout_ms=1000) == []
