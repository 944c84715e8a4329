"""Tests five nodes with two shards, one of which has lost its majority: messages without key and queue go to the
other shard."""

from __future__ import annotations

import asyncio

import pytest

from ledger.errors import DeliveryTimeoutError
from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer
from tests.cluster.fleet import MakeFleet
from tests.cluster.waiter import eventually

MESSAGES = 60


@pytest.mark.parametrize("leader_stops", [True, False])
async def test_a_shard_without_a_majority_holds_up_only_what_belongs_there(
    make_fleet: MakeFleet, leader_stops: bool
) -> None:
    """A leader that lives on without its majority says which messages it did not append, so these are in no doubt."""
    fleet = make_fleet(5, shards=2)
    await fleet.start()
    await fleet.leader()
    async with (
        AsyncAdmin(fleet.bootstrap) as admin,
        AsyncProducer(fleet.bootstrap, batch_bytes=50, delivery_timeout_ms=15_000) as producer,
        AsyncProducer(fleet.bootstrap, delivery_timeout_ms=1_500) as impatient,
    ):
        topic = await admin.create_topic("topic", 4)
        before = [await producer.send("topic", b"before", queue=queue) for queue in range(4)]
        replicas = {node.node: each for node in await admin.cluster() for each in node.shards if each.shard == 1}
        voters = list(replicas)
        assert len(voters) == 3
        leader = next(each.leader for each in replicas.values() if each.leader)
        first, second = (voter for voter in voters if voter != leader)
        await fleet.stop(leader if leader_stops else second, first)

        async def leaderless() -> bool:
            shards = [each for node in await admin.cluster() for each in node.shards]
            return not any(each.leader for each in shards if each.shard == 1)

        await eventually(leaderless, "shard 1 has no leader")
        down = {queue for queue, shard in enumerate(topic.shards) if shard == 1}
        sent = await asyncio.gather(*(producer.send("topic", b"%d" % number) for number in range(MESSAGES)))
        assert {receipt.queue for receipt in sent} == set(range(4)) - down
        with pytest.raises(DeliveryTimeoutError):
            await impatient.send("topic", b"bound", queue=min(down))
        expected = [*(b"before" for receipt in before if receipt.queue not in down)]
        expected += [b"%d" % number for number in range(MESSAGES)]
        assert sorted(await _read(fleet.bootstrap, sorted(set(range(4)) - down), len(expected))) == sorted(expected)


async def _read(bootstrap: list[str], queues: list[int], count: int) -> list[bytes]:
    async with (
        asyncio.timeout(20),
        AsyncConsumer("topic", bootstrap_servers=bootstrap, queues=queues, start="earliest") as consumer,
    ):
        return [(await anext(consumer)).value for _ in range(count)]
