"""Tests a leader that is paused (SIGSTOP) during an election, and then handles the messages that arrived meanwhile
(etcd issue 20418)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator

import grpc
import pytest

from cluster.local.processes import DevCluster, DevError
from ledger.v1 import broker_pb2
from ledger.v1.broker_pb2_grpc import BrokerStub
from ledgermq import AsyncAdmin, AsyncProducer
from tests.cluster.acknowledged_load import Load, assert_every_replica_holds, level
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import eventually

MESSAGES = 100


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    cluster = DevCluster(tmp_path_factory.mktemp("paused"))
    cluster.start(3, base_port=free_base_port(3))
    yield cluster
    cluster.purge()


async def another_leader(cluster: DevCluster, old: int) -> int:
    async def known() -> int | None:
        try:
            now = await asyncio.to_thread(cluster.leader)
        except DevError:
            return None
        return now if now != old else None

    return await eventually(known, "another node leads")


async def test_a_leader_that_stood_still_serves_no_old_read_and_loses_nothing(cluster: DevCluster) -> None:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        topic = await admin.create_topic("paused", 1)
    old = cluster.leader()
    pid = cluster.node(old).pid
    assert pid is not None
    async with grpc.aio.insecure_channel(cluster.node(old).address) as channel:
        question = broker_pb2.ListOffsetsRequest(topic_id=topic.topic_id, linearizable=True)
        stub = BrokerStub(channel)
        await stub.ListOffsets(question)  # so that the connection stands
        os.kill(pid, signal.SIGSTOP)
        try:
            early = stub.ListOffsets(question)
            await another_leader(cluster, old)
            others = [address for address in cluster.bootstrap.split(",") if address != cluster.node(old).address]
            async with AsyncProducer(others) as producer:
                for number in range(MESSAGES):
                    await producer.send("paused", b"%d" % number)
            late = stub.ListOffsets(question)
        finally:
            os.kill(pid, signal.SIGCONT)
        for answer in (await early, await late):
            served = [queue.end_offset for queue in answer.queues]
            assert answer.HasField("error") or served == [MESSAGES], "as of before the pause"


async def test_a_load_goes_on_while_leaders_stand_still(cluster: DevCluster) -> None:
    rng = random.Random(7)
    async with AsyncAdmin(cluster.bootstrap) as admin:
        await admin.create_topic("topic", 3)
    async with Load(cluster.bootstrap, "topic", rng) as load:
        for _ in range(2):
            await load.more(200)
            old = cluster.leader()
            pid = cluster.node(old).pid
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            try:
                await another_leader(cluster, old)
                await load.more(200)
            finally:
                os.kill(pid, signal.SIGCONT)
    await level(cluster)
    await assert_every_replica_holds(cluster.bootstrap, "topic", load.acknowledged)
