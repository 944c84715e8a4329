"""Tests that a group member applies a new assignment at once, even while a claim or an acknowledgement is
unanswered.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.client.connection.backoff import Backoff
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.connection.environment import Environment
from ledger.client.consumer.fetcher import FetchSettings
from ledger.client.group.assigned_queues import AssignedQueues
from ledger.client.group.claiming import AssignmentSettings
from ledger.client.group.group_membership import Assignment, GroupMember
from ledger.client.group.rebalance_callbacks import RebalanceCallbacks
from ledger.client.records import Message, TopicQueue
from ledger.v1 import consumer_group_pb2 as pb2

FIRST, SECOND = TopicQueue("orders", 0), TopicQueue("orders", 1)


class Cluster:
    """Stands for the cluster client of a member. A claim in a shard is answered when the event in `answers` is set. No
    shard has a known leader, so nothing is fetched.
    """

    def __init__(self) -> None:
        # The shard of each claim request, in the order of the requests.
        self.asked: asyncio.Queue[int] = asyncio.Queue()
        self.acknowledged: list[pb2.QueueAcknowledgement] = []
        self.acknowledges = asyncio.Event()
        self.acknowledges.set()
        self.moves: list[pb2.MoveRequest] = []
        self.resets = 2
        self.answers = {0: asyncio.Event(), 1: asyncio.Event()}
        self.backoff = Backoff(1, 10, random.Random(1))
        self.request_timeout_ms = 60_000
        self.environment = Environment()
        topic = SimpleNamespace(topic_id=1, shards=(0, 1))
        table = SimpleNamespace(topics={"orders": topic}, leader_address=lambda shard: None)
        self.routes = SimpleNamespace(table=table, refresh_soon=lambda: None)

    async def call(self, shard: int, send: Callable[[Any, float], Awaitable[Any]]) -> Any:
        return await send(self, 1.0)

    async def Claim(self, request: pb2.ClaimRequest, timeout: float) -> pb2.ClaimResponse:  # noqa: N802 (gRPC's)
        self.asked.put_nowait(request.shard)
        await self.answers[request.shard].wait()
        return pb2.ClaimResponse(queues=[pb2.QueueProgress(offset=5, resets=self.resets) for _ in request.queues])

    async def Acknowledge(  # noqa: N802
        self, request: pb2.AcknowledgeRequest, timeout: float
    ) -> pb2.AcknowledgeResponse:
        await self.acknowledges.wait()
        self.acknowledged.extend(request.queues)
        return pb2.AcknowledgeResponse(queues=[pb2.QueueProgress() for _ in request.queues])

    async def Move(self, request: pb2.MoveRequest, timeout: float) -> pb2.MoveResponse:  # noqa: N802
        self.moves.append(request)
        return pb2.MoveResponse()

    async def claimed_in(self, shard: int) -> None:
        assert await asyncio.wait_for(self.asked.get(), 5) == shard


class Member:
    """Runs the assigned queues of a member inside a `with` block."""

    def __init__(self, cluster: Cluster) -> None:
        settings = AssignmentSettings("billing", "earliest", None, True, 1.0, 30.0)
        fetching = FetchSettings(node=None, max_bytes=100, max_wait_ms=100, tag_hashes=())
        self.released: list[TopicQueue] = []
        member = cast(GroupMember, SimpleNamespace(release=self._release))
        callbacks = RebalanceCallbacks("billing", ["orders"])
        self.assigned_queues = AssignedQueues(
            cast(ClusterClient, cluster), member, settings, fetching, lambda: None, callbacks
        )

    async def _release(self, queues: Iterable[tuple[TopicQueue, Assignment]]) -> None:
        self.released += [place for place, _ in queues]

    async def __aenter__(self) -> AssignedQueues:
        self._running = asyncio.create_task(self.assigned_queues.run())
        return self.assigned_queues

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self.assigned_queues.close()


async def all_turns() -> None:
    """Let the event loop run until all tasks wait. No call in these tests waits for a timer."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_queue_that_has_gone_elsewhere_is_dropped_while_another_ones_claim_is_not_answered() -> None:
    cluster = Cluster()
    cluster.answers[0].set()
    async with Member(cluster) as assigned_queues:
        assigned_queues.seen({FIRST: Assignment(1, 7, False), SECOND: Assignment(1, 9, False)})
        await cluster.claimed_in(0)
        await cluster.claimed_in(1)
        assert assigned_queues.places() == [FIRST]
        assigned_queues.seen({SECOND: Assignment(1, 9, False)})
        assert assigned_queues.places() == []


async def test_a_queue_that_has_gone_elsewhere_while_it_was_claimed_is_not_begun_with() -> None:
    cluster = Cluster()
    async with Member(cluster) as assigned_queues:
        assigned_queues.seen({FIRST: Assignment(1, 7, False), SECOND: Assignment(1, 9, False)})
        await cluster.claimed_in(0)
        assigned_queues.seen({SECOND: Assignment(1, 9, False)})
        cluster.answers[0].set()
        await cluster.claimed_in(1)
        assert assigned_queues.places() == []


async def test_acknowledgements_and_moves_tell_by_which_claim_and_after_which_reset() -> None:
    cluster = Cluster()
    cluster.answers[0].set()
    async with Member(cluster) as assigned_queues:
        assigned_queues.seen({FIRST: Assignment(1, 7, False)})
        await cluster.claimed_in(0)
        assigned = assigned_queues.get(FIRST)
        assert assigned is not None
        assigned_queues.seek(assigned, 8)
        await assigned_queues.acknowledge([assigned])
        await assigned_queues.move(Message("orders", 0, 8, 0, 0, None, b"", None, (), 1), give_up=False)
    (move,) = cluster.moves
    assert (move.epoch, move.resets, move.offset) == (7, 2, 8)
    assert cluster.acknowledged == [pb2.QueueAcknowledgement(topic_id=1, queue=0, epoch=7, resets=2, offset=8)]


async def test_a_queue_that_is_claimed_again_knows_whether_its_offset_was_reset_meanwhile() -> None:
    cluster = Cluster()
    cluster.answers[0].set()
    async with Member(cluster) as assigned_queues:
        for epoch, resets, was_reset in ((7, 2, False), (8, 2, False), (9, 3, True), (10, 3, False)):
            cluster.resets = resets
            assigned_queues.seen({FIRST: Assignment(1, epoch, False)})
            await cluster.claimed_in(0)
            await all_turns()
            assigned = assigned_queues.get(FIRST)
            assert assigned is not None
            assert (assigned.epoch, assigned.was_reset) == (epoch, was_reset)


@pytest.mark.parametrize("stays", [True, False])
async def test_a_queue_that_need_not_go_any_more_is_kept(stays: bool) -> None:
    """The coordinator revokes a queue, and may withdraw this while the last acknowledgement is still unanswered. Then
    the member keeps the queue and its state; otherwise finished messages would be delivered again.
    """
    cluster = Cluster()
    cluster.answers[0].set()
    member = Member(cluster)
    async with member as assigned_queues:
        assigned_queues.seen({FIRST: Assignment(1, 7, False)})
        await cluster.claimed_in(0)
        assigned = assigned_queues.get(FIRST)
        assert assigned is not None
        assigned_queues.seek(assigned, 8)
        cluster.acknowledges.clear()
        assigned_queues.seen({FIRST: Assignment(1, 7, True)})
        await all_turns()
        if stays:
            assigned_queues.seen({FIRST: Assignment(1, 7, False)})
        cluster.acknowledges.set()
        await all_turns()
        assert member.released == ([] if stays else [FIRST])
        assert (assigned_queues.get(FIRST) is assigned) == stays
