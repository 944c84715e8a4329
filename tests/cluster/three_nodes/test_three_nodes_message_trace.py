"""A trace of a message says who sent it, when each replica wrote it, and what consumer groups did with it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from datetime import timedelta

import pytest

from ledgermq import (
    AsyncAdmin,
    AsyncGroupConsumer,
    AsyncProducer,
    AsyncPushConsumer,
    AsyncSharedConsumer,
    Message,
    MessageTrace,
)
from ledgermq.errors import InvalidArgumentError, OffsetBeyondEndError
from tests.cluster.cli.command import run
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.waiter import eventually


async def started(make_fleet: MakeFleet, **settings: object) -> Fleet:
    fleet = make_fleet(**settings)
    await fleet.start()
    await fleet.leader()
    await fleet.create_topic("orders", queues=2)
    await fleet.level()
    return fleet


def kinds(trace: MessageTrace, group: str = "") -> list[str]:
    return [event.kind for event in trace.events if event.group == group]


async def test_sender_replicas_and_acknowledgements_of_a_message(make_fleet: MakeFleet) -> None:
    fleet = await started(make_fleet)
    async with AsyncProducer(fleet.bootstrap, client_id="shop") as producer:
        sent = await producer.send("orders", b"one", key="k", queue=1)
        await producer.send("orders", b"two", queue=1)
    async with AsyncGroupConsumer("orders", group="billing", bootstrap_servers=fleet.bootstrap) as consumer:
        consumer.finish(await anext(consumer))
        consumer.finish(await anext(consumer))
        await consumer.acknowledge()
    await fleet.level()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        trace = await admin.trace_message("orders", 1, sent.offset)
    assert trace.message is not None
    assert (trace.message.value, trace.entry.append_time_ms) == (b"one", sent.timestamp_ms)
    assert trace.entry.client is not None
    assert trace.entry.client.name == "shop"
    leader = await fleet.leader()
    assert [each.node for each in trace.replicas] == fleet.nodes
    for each in trace.replicas:
        assert each.note == ""
        assert each.written_ms is not None
        assert each.committed_ms is not None
        assert abs(each.written_ms - sent.timestamp_ms) < 5_000
        assert each.leads == (each.node == leader)
        others = [node for node in fleet.nodes if node != leader]
        assert [node for node, _ in each.acknowledged_ms] == (others if each.leads else [])
    assert kinds(trace, "billing") == ["acknowledged"]
    assert trace.is_complete


async def test_nothing_is_known_of_groups_that_have_not_acknowledged(make_fleet: MakeFleet) -> None:
    fleet = await started(make_fleet)
    async with AsyncProducer(fleet.bootstrap) as producer:
        first = await producer.send("orders", b"one", queue=0)
        second = await producer.send("orders", b"two", queue=0)
    async with AsyncGroupConsumer("orders", group="billing", bootstrap_servers=fleet.bootstrap) as consumer:
        consumer.finish(await anext(consumer))
        await consumer.acknowledge()
        async with AsyncAdmin(fleet.bootstrap) as admin:
            assert kinds(await admin.trace_message("orders", 0, first.offset), "billing") == ["acknowledged"]
            assert kinds(await admin.trace_message("orders", 0, second.offset), "billing") == []
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.reset_offsets("billing", "earliest", topic="orders")
        assert kinds(await admin.trace_message("orders", 0, first.offset), "billing") == ["acknowledged", "reset"]


async def test_retries_and_dead_letters_are_followed(make_fleet: MakeFleet) -> None:
    fleet = await started(make_fleet, retry_delays_s=(0.1,))
    failed = 0

    async def fail(message: Message) -> None:
        nonlocal failed
        failed += 1
        raise ValueError("no")

    async with AsyncProducer(fleet.bootstrap) as producer:
        sent = await producer.send("orders", b"poison", queue=0)
    async with (
        AsyncPushConsumer("orders", listener=fail, group="billing", bootstrap_servers=fleet.bootstrap, max_attempts=2),
        AsyncAdmin(fleet.bootstrap) as admin,
    ):

        async def is_dead() -> MessageTrace | None:
            trace = await admin.trace_message("orders", 0, sent.offset)
            return trace if "dead letter" in kinds(trace, "billing") else None

        trace = await eventually(is_dead, "the message is a dead letter")
    assert failed == 2
    told = [event for event in trace.events if event.kind in ("retry", "dead letter")]
    assert [event.kind for event in told] == ["retry", "dead letter"]
    assert told[0].to is not None
    assert told[1].to is not None
    assert trace.name_of(told[0].to).startswith("%RETRY%billing:")
    assert told[1].at == told[0].to
    assert trace.name_of(told[1].to).startswith("%DLQ%billing:")


async def test_leases_of_shared_groups(make_fleet: MakeFleet) -> None:
    fleet = await started(make_fleet)
    async with AsyncProducer(fleet.bootstrap) as producer:
        sent = await producer.send("orders", b"one", queue=0)
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_consumer_group("pool")
    async with AsyncSharedConsumer("orders", group="pool", bootstrap_servers=fleet.bootstrap) as consumer:
        async for message in consumer:
            assert message.offset == sent.offset
            break
    async with AsyncAdmin(fleet.bootstrap) as admin:

        async def is_acknowledged() -> MessageTrace | None:
            trace = await admin.trace_message("orders", 0, sent.offset)
            return trace if kinds(trace, "pool") else None

        trace = await eventually(is_acknowledged, "the lease is in the log")
    assert kinds(trace, "pool")[0] == "leased"


async def test_a_waiting_message_is_traced_by_its_handle(make_fleet: MakeFleet) -> None:
    fleet = await started(make_fleet)
    async with AsyncProducer(fleet.bootstrap, client_id="shop") as producer, AsyncAdmin(fleet.bootstrap) as admin:
        late = await producer.send("orders", b"later", queue=0, delay=timedelta(hours=1))
        soon = await producer.send("orders", b"soon", queue=0, delay=timedelta(milliseconds=300))
        assert late.handle is not None
        assert soon.handle is not None
        trace = await admin.trace_waiting_message(late.handle)
        assert kinds(trace) == ["waits"]
        await producer.cancel(late.handle)
        assert kinds(await admin.trace_waiting_message(late.handle)) == ["waits", "cancelled"]
        handle = soon.handle

        async def is_delivered() -> MessageTrace | None:
            trace = await admin.trace_waiting_message(handle)
            return trace if kinds(trace) == ["waits", "delivered"] else None

        trace = await eventually(is_delivered, "the message was delivered")
        place = trace.events[-1].to
        assert place is not None
        assert trace.name_of(place) == "orders:0:0"
        delivered = await admin.trace_message("orders", 0, 0)
    assert kinds(delivered) == ["waits", "delivered"]
    assert delivered.entry.client is not None
    assert delivered.entry.client.name == "shop"


async def test_a_message_of_a_transaction(make_fleet: MakeFleet) -> None:
    fleet = await started(make_fleet)
    async with AsyncProducer(fleet.bootstrap, client_id="shop") as producer, AsyncAdmin(fleet.bootstrap) as admin:
        async with producer.transaction("orders", group="checkout") as transaction:
            await transaction.send(b"zero", queue=0)
            await transaction.send(b"one", queue=0)

        async def is_there() -> MessageTrace | None:
            try:
                return await admin.trace_message("orders", 0, 1)
            except OffsetBeyondEndError:
                return None

        trace = await eventually(is_there, "the transaction is committed")
    assert kinds(trace) == ["prepared", "delivered"]
    assert trace.entry.client is not None
    assert trace.entry.client.name == "shop"


async def test_a_message_is_traced_by_its_message_id(make_fleet: MakeFleet) -> None:
    fleet = await started(make_fleet)
    async with AsyncProducer(fleet.bootstrap) as producer, AsyncAdmin(fleet.bootstrap) as admin:
        await producer.send("orders", b"zero", queue=1)
        sent = await producer.send("orders", b"one", queue=1, message_id="order 7")
        trace = await admin.trace_message_id("orders", "order 7")
        assert (trace.topic, trace.queue, trace.offset) == ("orders", 1, sent.offset)
        with pytest.raises(InvalidArgumentError, match="5 minutes"):
            await admin.trace_message_id("orders", "order 8")


async def test_what_a_restarted_node_does_not_remember_is_said(make_fleet: MakeFleet) -> None:
    fleet = await started(make_fleet)
    async with AsyncProducer(fleet.bootstrap) as producer:
        sent = await producer.send("orders", b"one", queue=0)
    await fleet.level()
    follower = await fleet.follower()
    await fleet.stop(follower)
    await fleet.start(follower)
    await fleet.level()
    async with AsyncAdmin(fleet.bootstrap) as admin:
        trace = await admin.trace_message("orders", 0, sent.offset)
    (replica,) = [each for each in trace.replicas if each.node == follower]
    assert replica.written_ms is None
    assert "had the entry then" in replica.note


async def test_a_trace_reads_no_more_than_it_may(make_fleet: MakeFleet) -> None:
    fleet = await started(make_fleet)
    async with AsyncProducer(fleet.bootstrap) as producer, AsyncAdmin(fleet.bootstrap) as admin:
        sent = await producer.send("orders", b"one", queue=0)
        for _ in range(200):
            await producer.send("orders", b"more", queue=0)
        reported: list[tuple[int, int]] = []
        trace = await admin.trace_message(
            "orders", 0, sent.offset, on_progress=lambda done, of: reported.append((done, of))
        )
        assert trace.is_complete
        assert reported[-1][0] >= reported[-1][1] >= 200
        with pytest.raises(InvalidArgumentError):
            await admin.trace_message("orders", 0, sent.offset, max_entries=0)


async def test_the_command_prints_a_timeline(make_fleet: MakeFleet) -> None:
    fleet = await started(make_fleet)
    async with AsyncProducer(fleet.bootstrap, client_id="shop") as producer:
        sent = await producer.send("orders", b"one", key="k", queue=1)
        await producer.send("orders", b"two", key="twice", queue=0)
        await producer.send("orders", b"three", key="twice", queue=0)
    addresses = ",".join(fleet.bootstrap)
    done = await command("--bootstrap", addresses, sent_id := f"orders:1:{sent.offset}")
    assert b"client shop" in done.stdout
    assert done.stdout.count(b"wrote it") == 3
    assert b"up to its end" in done.stderr
    shown = json.loads(
        (await command("--bootstrap", addresses, "--topic", "orders", "--key", "k", "--format", "json")).stdout
    )
    assert (shown["id"], shown["complete"], len(shown["replicas"])) == (sent_id, True, 3)
    done = await command("--bootstrap", addresses, "--topic", "orders", "--key", "twice", status=1)
    assert done.stdout.split() == [b"orders:0:1", b"orders:0:0"]
    done = await command("--bootstrap", addresses, "nonsense", status=2)
    assert b"add --topic" in done.stderr


async def command(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[bytes]:
    return await asyncio.to_thread(run, "message", "trace", *arguments, status=status)
