"""Deletes a topic of three node processes under load, and kills a node with SIGKILL meanwhile. The topic must be
gone, and another topic must lose nothing. Consumers of both topics must read the deleted topic again when it is
created again."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster
from ledger.errors import LedgerError, UnknownTopicError
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, AsyncPushConsumer, Message
from tests.cluster.acknowledged_load import Load, assert_every_replica_holds
from tests.cluster.cli.command import run
from tests.cluster.led_shards import NODES, all_lead_in_turn
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import eventually, until

SHARDS, SEED = 3, 11


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DevCluster]:
    monkeypatch.setattr("ledger.client.connection.routes._REFRESH_SECONDS", 0.5)
    cluster = DevCluster(tmp_path / "cluster")
    cluster.start(3, base_port=free_base_port(3), shards=SHARDS)
    yield cluster
    cluster.purge()


async def produce(bootstrap: str, topic: str) -> str:
    """Send messages until a send fails, and return the code of the error."""
    async with AsyncProducer(bootstrap) as producer:
        number = 0
        while True:
            try:
                await asyncio.gather(*(producer.send(topic, b"%d" % (number + each)) for each in range(20)))
            except LedgerError as error:
                return error.code
            number += 20


async def plainly(consumer: AsyncConsumer, got: defaultdict[str, list[bytes]]) -> None:
    async for message in consumer:
        got[message.topic].append(message.value)


def has(got: defaultdict[str, list[bytes]], topic: str, values: set[bytes]) -> bool:
    return values <= set(got[topic])


@pytest.mark.parametrize("killed", [1, 2])  # the leader of shard 0, which deletes it; of another that has queues of it
async def test_a_topic_is_deleted_although_a_leader_dies(cluster: DevCluster, killed: int) -> None:
    bootstrap = cluster.bootstrap
    plain: defaultdict[str, list[bytes]] = defaultdict(list)
    pushed: defaultdict[str, list[bytes]] = defaultdict(list)

    async def listener(message: Message) -> None:
        pushed[message.topic].append(message.value)

    async with AsyncAdmin(bootstrap) as admin:
        await eventually(lambda: all_lead_in_turn(admin, SHARDS), "every shard is led")
        gone = await admin.create_topic("gone", 2 * SHARDS)
        await admin.create_topic("kept", SHARDS)
        async with (
            AsyncConsumer("gone", "kept", bootstrap_servers=bootstrap) as consumer,
            AsyncPushConsumer("gone", "kept", group="both", listener=listener, bootstrap_servers=bootstrap),
            AsyncPushConsumer("gone", "kept", group="both", listener=listener, bootstrap_servers=bootstrap),
        ):
            reading = asyncio.create_task(plainly(consumer, plain))
            async with Load(bootstrap, "kept", random.Random(SEED)) as load:
                producing = asyncio.create_task(produce(bootstrap, "gone"))
                await until(lambda: plain["gone"] and pushed["gone"] and plain["kept"], "all are at work")
                deleting = asyncio.create_task(admin.delete_topic("gone"))
                await asyncio.to_thread(cluster.kill, killed)
                await deleting
                assert await producing == UnknownTopicError.code
                await load.more(300)
                await asyncio.to_thread(cluster.restart, killed)
                again = await admin.create_topic("gone", 1)
                assert again.topic_id > gone.topic_id
                async with AsyncProducer(bootstrap) as producer:
                    await producer.send("gone", b"new")
                await load.more(300)
            everything = set(load.acknowledged.values())
            for got in (plain, pushed):
                await until(partial(has, got, "gone", {b"new"}), "the topic that came again is consumed")
                await until(partial(has, got, "kept", everything), "all of the other one is consumed")
            reading.cancel()
        await assert_every_replica_holds(bootstrap, "kept", load.acknowledged)
    await asyncio.to_thread(cluster.stop)
    for node in NODES:
        await asyncio.to_thread(run, "log", "verify", str(cluster.directory / f"node-{node}"))
