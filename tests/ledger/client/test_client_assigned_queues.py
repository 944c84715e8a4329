"""Tests that a group member applies a new assignment at once, even while a claim or an acknowledgement is
unanswered, and that a shard without an answer holds up no other shard.
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
from ledger.client.group.assigned_queue import AssignedQueue
from ledger.client.group.assigned_queues import AssignedQueues
from ledger.client.group.claiming import AssignmentSettings
from ledger.client.group.group_membership import Assignment, GroupMember
from ledger.client.group.rebalance_callbacks import RebalanceCallback, RebalanceCallbacks
from ledger.client.records import Message, TopicQueue
from ledger.errors import InternalError, NoLeaderError
from ledger.v1 import consumer_group_pb2 as pb2

# FIRST is in shard 0, and the others are in shard 1.
FIRST, SECOND, THIRD = TopicQueue("orders", 0), TopicQueue("orders", 1), TopicQueue("orders", 2)


class Cluster:
    """Stands for the cluster client of a member. A claim in a shard is answered when the event in `answers` is set. An
    acknowledgement in a shard of `silent` has no answer, and one in a shard of `leaderless` fails. No shard has a known
    leader, so nothing is fetched.
    """

    def __init__(self) -> None:
        # The shard of each claim request, in the order of the requests.
        self.asked: asyncio.Queue[int] = asyncio.Queue()
        self.acknowledged: list[pb2.QueueAcknowledgement] = []
        self.acknowledges = asyncio.Event()
        self.acknowledges.set()
        self.silent: list[int] = []
        self.leaderless: list[int] = []
        self.moves: list[pb2.MoveRequest] = []
        self.resets = 2
        self.answers = {0: asyncio.Event(), 1: asyncio.Event()}
        self.backoff = Backoff(1, 10, random.Random(1))
        self.request_timeout_ms = 60_000
        self.environment = Environment()
        topic = SimpleNamespace(topic_id=1, shards=(0, 1, 1))
        table = SimpleNamespace(topics={"orders": topic}, leader_address=lambda shard: None)
        self.routes = SimpleNamespace(table=table, refresh_soon=lambda: None)

    async def call(self, shard: int, send: Callable[[Any, float], Awaitable[Any]]) -> Any:
        return await send(self, 1.0)

    async def Claim(self, request: pb2.ClaimRequest, timeout: float) -> pb2.ClaimResponse:  # noqa: N802 (gRPC's)
        self.asked.put_nowait(request.shard)
        await self.answers[request.shard].wait()
        if request.shard in self.leaderless:
            raise NoLeaderError(f"No node leads shard {request.shard}.")
        return pb2.ClaimResponse(queues=[pb2.QueueProgress(offset=5, resets=self.resets) for _ in request.queues])

    async def Acknowledge(  # noqa: N802
        self, request: pb2.AcknowledgeRequest, timeout: float
    ) -> pb2.AcknowledgeResponse:
        await self.acknowledges.wait()
        if request.shard in self.leaderless:
            raise NoLeaderError(f"No node leads shard {request.shard}.")
        if request.shard in self.silent:
            await asyncio.Event().wait()
        self.acknowledged.extend(request.queues)
        return pb2.AcknowledgeResponse(queues=[pb2.QueueProgress() for _ in request.queues])

    async def Move(self, request: pb2.MoveRequest, timeout: float) -> pb2.MoveResponse:  # noqa: N802
        self.moves.append(request)
        return pb2.MoveResponse()

    async def claimed_in(self, shard: int) -> None:
        assert await asyncio.wait_for(self.asked.get(), 5) == shard


class Member:
    """Runs the assigned queues of a member inside a `with` block. The coordinator answers a release when `releases` is
    set. If `release_error` is not None, the release fails."""

    def __init__(self, cluster: Cluster, on_assigned: RebalanceCallback | None = None) -> None:
        settings = AssignmentSettings("billing", "earliest", None, True, 0.001, 30.0)
        fetching = FetchSettings(node=None, max_bytes=100, max_wait_ms=100, tag_hashes=())
        self.released: list[TopicQueue] = []
        self.releases = asyncio.Event()
        self.releases.set()
        self.release_error: Exception | None = None
        member = cast(GroupMember, SimpleNamespace(release=self._release, trouble=None))
        callbacks = RebalanceCallbacks("billing", ["orders"], on_assigned)
        self.assigned_queues = AssignedQueues(
            cast(ClusterClient, cluster), member, settings, fetching, lambda: None, callbacks
        )

    async def _release(self, queues: Iterable[tuple[TopicQueue, Assignment]]) -> None:
        await self.releases.wait()
        if self.release_error is not None:
            raise self.release_error
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


def view(*places: TopicQueue, leaving: Iterable[TopicQueue] = ()) -> dict[TopicQueue, Assignment]:
    return {place: Assignment(1, 7, place in leaving) for place in places}


def consumed(assigned_queues: AssignedQueues, *places: TopicQueue) -> None:
    """Let the messages before offset 8 of these queues be finished."""
    for place in places:
        assigned = assigned_queues.get(place)
        assert assigned is not None
        assigned_queues.seek(assigned, 8)


def offsets(cluster: Cluster) -> list[tuple[int, int]]:
    """Return the queue and the offset of each acknowledgement."""
    return [(each.queue, each.offset) for each in cluster.acknowledged]


async def test_a_shard_without_an_answer_holds_up_no_claim_of_another_shard() -> None:
    """The second assignment arrives while the claim of the first queue waits for its answer."""
    cluster = Cluster()
    cluster.answers[1].set()
    async with Member(cluster) as assigned_queues:
        assigned_queues.seen(view(FIRST, SECOND))
        await all_turns()
        assert assigned_queues.places() == [SECOND]
        assigned_queues.seen(view(FIRST, SECOND, THIRD))
        await all_turns()
        assert assigned_queues.places() == [SECOND, THIRD]
        cluster.answers[0].set()
        await all_turns()
        assert assigned_queues.places() == [FIRST, SECOND, THIRD]
    assert [cluster.asked.get_nowait() for _ in range(cluster.asked.qsize())] == [0, 1, 1]


async def test_a_claim_that_fails_is_tried_again_without_the_claims_of_other_shards() -> None:
    cluster = Cluster()
    cluster.leaderless.append(0)
    for answer in cluster.answers.values():
        answer.set()
    async with Member(cluster) as assigned_queues:
        assigned_queues.seen(view(FIRST, SECOND))
        for shard in (0, 1, 0, 0):
            await cluster.claimed_in(shard)
        assert assigned_queues.places() == [SECOND]
        cluster.leaderless.clear()
        async with asyncio.timeout(5):
            while assigned_queues.places() != [FIRST, SECOND]:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


async def test_a_claim_that_is_rejected_is_not_repeated_without_a_reason() -> None:
    """Two shards reject claims while a third change arrives. The end of one claim must not start the other again."""
    cluster = Cluster()
    async with Member(cluster) as assigned_queues:
        rejecting = Rejecting(cluster)
        assigned_queues._claims.claim = rejecting.claim  # type: ignore[method-assign]
        assigned_queues.seen(view(FIRST, SECOND))
        await all_turns()
        assigned_queues.seen(view(FIRST, SECOND))
        for answer in cluster.answers.values():
            answer.set()
        for _ in range(5):
            await all_turns()
        assert len(rejecting.asked) <= 6


class Rejecting:
    """Stands for the claims of a member, all of which are rejected."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.asked: list[int] = []

    async def claim(self, shard: int, new: object) -> list[AssignedQueue]:
        self.asked.append(shard)
        await self.cluster.answers[shard].wait()
        for _ in range(3 + shard):  # the answers do not come at the same time
            await asyncio.sleep(0)
        return []


async def test_a_shard_without_an_answer_holds_up_no_release_of_another_shard() -> None:
    cluster = Cluster()
    for answer in cluster.answers.values():
        answer.set()
    member = Member(cluster)
    async with member as assigned_queues:
        assigned_queues.seen(view(FIRST, SECOND))
        await all_turns()
        consumed(assigned_queues, FIRST, SECOND)
        cluster.silent.append(0)
        assigned_queues.seen(view(FIRST, SECOND, leaving=[FIRST, SECOND]))
        await all_turns()
        assert member.released == [SECOND]
        assert assigned_queues.places() == [FIRST]


@pytest.mark.parametrize("error", [None, NoLeaderError("The coordinator's shard has no leader.")])
async def test_a_release_that_does_not_succeed_holds_up_no_claim(error: Exception | None) -> None:
    """The released queue and the claimed queue are in one shard."""
    cluster = Cluster()
    cluster.answers[1].set()
    member = Member(cluster)
    async with member as assigned_queues:
        assigned_queues.seen(view(SECOND))
        await all_turns()
        member.release_error = error
        if error is None:
            member.releases.clear()
        assigned_queues.seen(view(SECOND, THIRD, leaving=[SECOND]))
        await all_turns()
        assert assigned_queues.places() == [SECOND, THIRD]
        assert member.released == []
        member.release_error = None
        member.releases.set()
        async with asyncio.timeout(5):
            while assigned_queues.places() != [THIRD]:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    assert member.released == [SECOND]


async def test_a_queue_whose_release_is_withdrawn_too_late_is_claimed_again() -> None:
    cluster = Cluster()
    cluster.answers[1].set()
    member = Member(cluster)
    async with member as assigned_queues:
        assigned_queues.seen(view(SECOND))
        await all_turns()
        first = assigned_queues.get(SECOND)
        member.releases.clear()
        assigned_queues.seen(view(SECOND, leaving=[SECOND]))
        await all_turns()
        assigned_queues.seen(view(SECOND))
        await all_turns()
        member.releases.set()
        await all_turns()
        assert assigned_queues.places() == [SECOND]
        assert assigned_queues.get(SECOND) is not first


async def test_callbacks_of_several_shards_are_called_one_after_another() -> None:
    running, most, told = 0, 0, []
    goes_on = asyncio.Event()

    async def on_assigned(places: list[TopicQueue]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        told.append(assigned_queues.places())
        await goes_on.wait()
        running -= 1

    cluster = Cluster()
    for answer in cluster.answers.values():
        answer.set()
    async with Member(cluster, on_assigned) as assigned_queues:
        assigned_queues.seen(view(FIRST, SECOND))
        await all_turns()
        assert told == [[FIRST]]
        assert assigned_queues.places() == [FIRST], "a queue was taken over while a callback was running"
        goes_on.set()
        await all_turns()
    assert told == [[FIRST], [FIRST, SECOND]]
    assert most == 1


async def test_a_shard_without_an_answer_holds_up_no_acknowledgement_of_another_shard() -> None:
    cluster = Cluster()
    for answer in cluster.answers.values():
        answer.set()
    async with Member(cluster) as assigned_queues:
        assigned_queues.seen(view(FIRST, SECOND, THIRD))
        await all_turns()
        consumed(assigned_queues, FIRST, SECOND)
        cluster.silent.append(0)
        regularly = asyncio.create_task(assigned_queues.keep_acknowledging())
        await all_offsets(cluster, [(1, 8)])
        consumed(assigned_queues, THIRD)
        await all_offsets(cluster, [(1, 8), (2, 8)])
        regularly.cancel()
        await asyncio.wait([regularly])


async def all_offsets(cluster: Cluster, wanted: list[tuple[int, int]]) -> None:
    async with asyncio.timeout(5):
        while offsets(cluster) != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_an_acknowledgement_that_fails_in_one_shard_is_made_in_the_others() -> None:
    cluster = Cluster()
    for answer in cluster.answers.values():
        answer.set()
    async with Member(cluster) as assigned_queues:
        assigned_queues.seen(view(FIRST, SECOND))
        await all_turns()
        consumed(assigned_queues, FIRST, SECOND)
        cluster.leaderless.append(0)
        with pytest.raises(NoLeaderError, match="shard 0"):
            await assigned_queues.acknowledge(assigned_queues)
    assert offsets(cluster) == [(1, 8)]


async def test_a_defect_of_a_claim_is_told_to_readers(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    member = Member(cluster)
    async with member as assigned_queues:
        cluster.Claim = None  # type: ignore[assignment, method-assign]
        assigned_queues.seen(view(FIRST))
        await all_turns()
        trouble = assigned_queues.trouble()
    assert isinstance(trouble, InternalError)
    assert "in shard 0" in str(trouble)
    assert isinstance(trouble.__cause__, TypeError)
    assert "Traceback" in caplog.text
