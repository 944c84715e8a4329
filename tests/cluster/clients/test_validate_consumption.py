"""Validates a cluster whose logs contain every kind of entry: of consumer groups, retries, dead letters, compressed
batches, and topics that were deleted and created again under the same name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ledger.errors import UnknownTopicError
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.report.report import VALID
from ledger.validation.validate import validate
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, AsyncPushConsumer, Message, Outcome
from tests.cluster.fleet import Fleet, MakeFleet
from tests.cluster.led_shards import leaders
from tests.cluster.waiter import eventually, until

SHARDS, QUEUES, MESSAGES = 2, 2, 60


@pytest.fixture(autouse=True)
def quick_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients refresh their routes every 0.5 s instead of every 30 s."""
    monkeypatch.setattr("ledger.client.connection.routes._REFRESH_SECONDS", 0.5)


async def test_all_that_a_log_can_hold_is_valid(make_fleet: MakeFleet, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    fleet = make_fleet(shards=SHARDS, retry_delays_s=[0.1])
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin:

        async def all_led() -> bool:
            return len(await leaders(admin)) == SHARDS

        await eventually(all_led, "all shards are led")
        async with AsyncProducer(fleet.bootstrap, compression="lz4", history=history) as producer:
            sent = await make_anew_and_fill(admin, producer)
        await consume_in_trouble(fleet)
    await fleet.stop()
    sources = [str(fleet.data(node)) for node in fleet.nodes]
    report = validate(sources, PlainEngine(), histories=[history], span_bytes=16 << 10)
    assert (report.violations, report.not_judged, report.status) == ((), (), VALID)
    assert report.acknowledged is not None
    assert (report.acknowledged.acknowledged, report.acknowledged.dropped) == (sent, 0)
    for shard in report.shards:
        assert len({replica.state for replica in shard.replicas}) == 1
        assert shard.replicas[0].state is not None


async def make_anew_and_fill(admin: AsyncAdmin, producer: AsyncProducer) -> int:
    """Create topic `again` twice, and fill it twice with equal messages at equal offsets. The producer restarts its
    sequence numbers in the second topic. Return the number of acknowledged messages."""
    for again in range(2):
        await admin.create_topic("again", QUEUES)
        await eventually(lambda: fills(producer, "again"), "the producer writes to the topic")
        await producer.send_many("again", [b"the same"] * MESSAGES, queue=1)
        if not again:
            await admin.delete_topic("again")
    await admin.create_topic("trouble", QUEUES)
    await asyncio.gather(
        *(
            producer.send_nowait("trouble", b"%d" % number, key=f"key {number}", tag="tried")
            for number in range(MESSAGES)
        )
    )
    return 2 * (MESSAGES + 1) + MESSAGES


async def fills(producer: AsyncProducer, topic: str) -> bool:
    """Send a message to queue 0. Return False if the topic is unknown."""
    try:
        await producer.send(topic, b"first", queue=0)
    except UnknownTopicError:
        return False
    return True


async def consume_in_trouble(fleet: Fleet) -> None:
    """Consume with a listener that fails at the first attempt of some messages, and at every attempt of one
    message."""
    tried: list[tuple[bytes, int]] = []

    async def listener(message: Message) -> Outcome | None:
        tried.append((message.value, message.attempt))
        fails = message.value == b"7" or (message.value.startswith(b"1") and message.attempt == 1)
        return Outcome.RECONSUME_LATER if fails else None

    push = AsyncPushConsumer(
        "trouble", group="troubled", listener=listener, max_attempts=3, bootstrap_servers=fleet.bootstrap
    )
    async with push:
        async with AsyncConsumer("%DLQ%troubled", bootstrap_servers=fleet.bootstrap) as dead_letters:
            (dead,) = await dead_letters.getmany(1, 20_000)
        again = {(value, 2) for value, _ in tried if value.startswith(b"1")}
        await until(lambda: again <= set(tried), "what failed once came again")
    assert dead.value == b"7"
