"""The progress of a mirror: a shard without an answer holds up no other shard, and another mirror is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.route_table import RoutedTopic
from ledger.errors import ConsumerFencedError, LedgerError, NoLeaderError, to_wire
from ledger.mirror.mirror_errors import MirrorRefusedError
from ledger.mirror.mirror_progress import MIRROR_GROUP, MirrorProgress
from ledger.v1 import consumer_group_pb2 as pb2

TOPIC = RoutedTopic("orders", 1, (0, 1, 2), 0)


class Cluster:
    """Stands for the client of a mirror. Acknowledgements in the shards of `errors` fail with these errors. Those in
    the shards of `silent` have no answer."""

    def __init__(self) -> None:
        self.errors: dict[int, LedgerError] = {}
        self.silent: list[int] = []
        self.stored: list[int] = []
        # The epoch that the next claim gets.
        self.epoch = 1
        # Acknowledgements wait for this. After that, those with an older epoch are fenced.
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def call(self, shard: int, send: Callable[[Any, float], Awaitable[Any]]) -> Any:
        return await send(self, 1.0)

    async def Claim(self, request: pb2.ClaimRequest, timeout: float) -> pb2.ClaimResponse:  # noqa: N802 (gRPC's)
        return pb2.ClaimResponse(queues=[pb2.QueueProgress(epoch=self.epoch) for _ in request.queues])

    async def Acknowledge(  # noqa: N802
        self, request: pb2.AcknowledgeRequest, timeout: float
    ) -> pb2.AcknowledgeResponse:
        if request.shard in self.silent:
            await asyncio.Event().wait()
        await self.may_answer.wait()
        error = self.errors.get(request.shard)
        if any(each.epoch < self.epoch for each in request.queues):
            error = ConsumerFencedError("fenced")
        if isinstance(error, NoLeaderError):
            raise error
        if error is not None:
            return pb2.AcknowledgeResponse(queues=[pb2.QueueProgress(error=to_wire(error)) for _ in request.queues])
        self.stored += [each.queue for each in request.queues]
        return pb2.AcknowledgeResponse(queues=[pb2.QueueProgress() for _ in request.queues])


async def claimed(cluster: Cluster) -> MirrorProgress:
    """Return the progress of queues that are all copied up to offset 5."""
    progress = MirrorProgress(cast(ClusterClient, cluster), MIRROR_GROUP, "there")
    await progress.claim(TOPIC, dict.fromkeys(range(3), 0))
    for queue in range(3):
        progress.copied(TOPIC.topic_id, queue, 5)
    return progress


async def test_a_shard_without_a_leader_holds_up_the_progress_of_no_other_shard() -> None:
    cluster = Cluster()
    progress = await claimed(cluster)
    cluster.errors[0] = NoLeaderError("no leader")
    with pytest.raises(NoLeaderError):
        await progress.store()
    assert cluster.stored == [1, 2]
    cluster.errors.clear()
    await progress.store()
    assert cluster.stored == [1, 2, 0]


async def test_a_shard_that_does_not_answer_holds_up_the_progress_of_no_other_shard() -> None:
    cluster = Cluster()
    progress = await claimed(cluster)
    cluster.silent.append(0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(progress.store(), 0.05)
    assert cluster.stored == [1, 2]


async def test_another_mirror_is_noticed_although_a_shard_has_no_leader() -> None:
    cluster = Cluster()
    progress = await claimed(cluster)
    cluster.errors = {0: NoLeaderError("no leader"), 2: ConsumerFencedError("fenced")}
    with pytest.raises(MirrorRefusedError, match="Another mirror"):
        await progress.store()


@pytest.mark.parametrize("claims_again", [True, False])
async def test_a_mirror_is_not_fenced_by_its_own_later_claims(claims_again: bool) -> None:
    """The target topic is deleted while a store is repeated. The mirror forgets its queues, and claims them anew."""
    cluster = Cluster()
    progress = await claimed(cluster)
    cluster.may_answer.clear()
    storing = asyncio.create_task(progress.store())
    await asyncio.sleep(0.01)
    cluster.epoch = 2
    for queue in range(3):
        progress.forget(TOPIC.topic_id, queue)
    if claims_again:
        await progress.claim(TOPIC, dict.fromkeys(range(3), 0))
        progress.copied(TOPIC.topic_id, 0, 3)
    cluster.may_answer.set()
    await storing
    assert cluster.stored == []
    await progress.store()
    assert cluster.stored == ([0] if claims_again else [])
