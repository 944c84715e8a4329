"""Tests how many queues one consumer group can claim, because its broadcasts must leave room for other groups, and that
a request for many queues becomes several entries.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.broker.consumer_groups import claims as module
from ledger.broker.consumer_groups.claims import QueueClaims
from ledger.broker.rpc.consumer_group_operations import ConsumerGroupOperations
from ledger.broker.rpc.consumer_groups import ConsumerGroupService
from ledger.errors import GroupFullError
from ledger.state import QueueResults, State
from ledger.state.commands import ClaimedQueue, ClaimQueues, ReleaseQueues, ResetOffset, ResetOffsets
from ledger.state.progress_table import ConsumedQueue
from ledger.v1 import consumer_group_operations_pb2, consumer_group_pb2
from tests.ledger.broker.shared.leader import ORDERS, LeasingLeader


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> QueueClaims:
    monkeypatch.setattr(module, "MAX_CONSUMED_QUEUES_OF_GROUP", 4)
    return QueueClaims(LeasingLeader(queues=3).replica)


def claim(claims: QueueClaims, name: str, queues: int = 1) -> asyncio.Future[QueueResults]:
    return claims.claim(ClaimQueues(name, tuple(ClaimedQueue(ORDERS, queue, 1, 0) for queue in range(queues))))


async def test_a_group_and_its_broadcasts_share_a_limit_and_leave_room_for_other_groups(claims: QueueClaims) -> None:
    await claim(claims, "a@one", queues=3)
    await claim(claims, "a")
    with pytest.raises(GroupFullError, match="consumer group 'a' and of its broadcasts in 4 queues, and at most 4"):
        claim(claims, "a@two")
    with pytest.raises(GroupFullError):
        claims.reset(ResetOffsets("a@two", (ResetOffset(ORDERS, 0, 0),)))
    await claim(claims, "a@one", queues=3)
    await claim(claims, "b@one", queues=3)
    await claims.forget("a@one")
    await claim(claims, "a@two", queues=3)


async def test_claims_that_are_not_applied_yet_count(claims: QueueClaims) -> None:
    claimed = [claim(claims, f"a@{name}") for name in range(4)]
    with pytest.raises(GroupFullError):
        claim(claims, "a@4")
    await asyncio.gather(*claimed)
    with pytest.raises(GroupFullError):
        claim(claims, "a@4")
    assert claims._beginning == {}


async def test_the_queues_of_a_group_are_counted_after_a_snapshot_and_a_deleted_topic() -> None:
    leader = LeasingLeader(queues=3)
    await claim(QueueClaims(leader.replica), "a@one", queues=3)
    decoded = State.decode(leader.replica.state.encode()).consumption.progress
    assert decoded.count_of("a") == decoded.count_of("a@two") == 3
    decoded.forget_topic(ORDERS)
    assert decoded.count_of("a") == 0


async def test_a_reset_of_many_queues_is_several_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """All replicas apply an entry in one go, and heartbeats wait meanwhile."""
    monkeypatch.setattr("ledger.consumer_groups.MAX_QUEUES_OF_ENTRY", 2)
    leader = LeasingLeader(queues=5)
    shard = SimpleNamespace(replica=leader.replica, claims=QueueClaims(leader.replica))

    async def leading(_: int) -> SimpleNamespace:
        return shard

    consumptions: Any = SimpleNamespace(leading=leading, lookup=leader.lookup)
    service = ConsumerGroupOperations(consumptions, cast(Any, None))
    leader.send(3, queue=4)
    resets = [consumer_group_operations_pb2.QueueReset(topic_id=ORDERS, queue=n, offset=0) for n in range(5)]
    request = consumer_group_operations_pb2.ResetOffsetsRequest(consumer_group="a", queues=resets)
    before = leader.applied
    response = await service.ResetOffsets(request, cast(Any, None))
    assert (response.HasField("error"), leader.applied - before) == (False, 3)
    progress = leader.replica.state.consumption.progress
    assert all(progress.get(ConsumedQueue("a", ORDERS, queue)) is not None for queue in range(5))


async def test_a_release_of_many_queues_is_several_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.consumer_groups.MAX_QUEUES_OF_ENTRY", 2)
    released: list[ReleaseQueues] = []

    async def release(wanted: ReleaseQueues) -> None:
        released.append(wanted)

    consumptions: Any = SimpleNamespace(coordinator=lambda shard, group: SimpleNamespace(release=release))
    queues = [consumer_group_pb2.QueueEpoch(topic_id=ORDERS, queue=queue, epoch=1) for queue in range(5)]
    request = consumer_group_pb2.ReleaseRequest(consumer_group="a", member="m", queues=queues)
    await ConsumerGroupService(consumptions, cast(Any, None)).Release(request, cast(Any, None))
    assert [[each.queue.queue for each in wanted.queues] for wanted in released] == [[0, 1], [2, 3], [4]]
