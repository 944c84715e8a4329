"""Validates a cluster whose logs have leases of a shared group, and dead letters: a replay computes the same leases."""

from __future__ import annotations

import asyncio

from ledger.retries import dead_letter_topic
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.report.report import VALID
from ledger.validation.validate import validate
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, AsyncSharedConsumer
from tests.cluster.fleet import MakeFleet
from tests.cluster.led_shards import leaders
from tests.cluster.waiter import eventually

SHARDS, QUEUES, MESSAGES = 2, 4, 200


async def test_a_log_with_leases_is_valid(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(shards=SHARDS)
    await fleet.start()
    async with AsyncAdmin(fleet.bootstrap) as admin, AsyncProducer(fleet.bootstrap, compression="lz4") as producer:

        async def all_led() -> bool:
            return len(await leaders(admin)) == SHARDS

        await eventually(all_led, "all shards are led")
        await admin.create_topic("leased", QUEUES)
        await admin.create_consumer_group("leased", order="key", max_attempts=2)
        for number in range(MESSAGES):
            await producer.send("leased", b"%d" % number, key=b"%d" % (number % 20))
        done: set[bytes] = set()
        async with AsyncSharedConsumer("leased", group="leased", bootstrap_servers=fleet.bootstrap) as consumer:
            while len(done) < MESSAGES - 10:
                messages = await consumer.receive(32, max_wait_ms=500)
                failing = [message for message in messages if message.key == b"7"]
                await consumer.nack(failing)
                finished = [message for message in messages if message.key != b"7"]
                await consumer.extend(finished[:1])
                await consumer.ack(finished)
                done |= {message.value for message in finished}
            while failing := await consumer.receive(32, max_wait_ms=500):
                await consumer.nack(failing)
            held = await producer.send_many("leased", [b"held"] * 3, queue=0)
            assert await consumer.receive(2, lease_ms=60_000), held
        async with AsyncConsumer(dead_letter_topic("leased"), bootstrap_servers=fleet.bootstrap) as reader:
            async with asyncio.timeout(20):
                letters = [await anext(reader) for _ in range(10)]
        assert {message.key for message in letters} == {b"7"}
    await fleet.stop()
    report = validate([str(fleet.data(node)) for node in fleet.nodes], PlainEngine(), span_bytes=16 << 10)
    assert (report.violations, report.not_judged, report.status) == ((), (), VALID)
    for shard in report.shards:
        assert len({replica.state for replica in shard.replicas}) == 1
        assert shard.replicas[0].state is not None
