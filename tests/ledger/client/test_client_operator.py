"""Tests how the admin client completes an operator's requests: retries, waiting and errors.

The cluster is a fake with a list of answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from ledger.client.admin import members_admin
from ledger.client.admin.every_shard import EveryShard
from ledger.client.admin.members_admin import MembersAdmin
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.records import Members
from ledger.errors import (
    ChangeInProgressError,
    InvalidArgumentError,
    LedgerError,
    NodeSilentError,
    NotLeaderError,
    OperationTimeoutError,
    TransferFailedError,
    UnavailableError,
    UnknownNodeError,
    from_wire,
    to_wire,
)
from ledger.v1 import broker_pb2
from ledger.v1 import operations_pb2 as wire

LOST = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata())


def view(leader: int = 1, *, transferring_to: int = 0, caught_up: bool = True, **roles: bool) -> Any:
    """Return an answer to GetMembers. Node 1 is a voter. Each keyword `nN` adds node N as a voter (True) or as a
    learner (False).
    """
    response = wire.GetMembersResponse(term=3, leader=leader, transferring_to=transferring_to)
    response.members.add(node=1, voter=True, caught_up=True)
    for name, voter in roles.items():
        response.members.add(node=int(name[1:]), voter=voter, caught_up=caught_up or voter, lag_entries=7)
    return response


class Cluster:
    """Stands for a ClusterClient. Each method returns its prepared answers in order, and then repeats the last
    answer.
    """

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.asked: list[Any] = []

    async def call(
        self,
        shard: int,
        send: Callable[[Any, float], Awaitable[Any]],
        *,
        node: int | None = None,
        timeout_ms: float | None = None,
    ) -> Any:
        """Repeat the request after retriable errors, like the real client, but at most ten times and without waits."""
        for _ in range(10):
            try:
                response = await send(self, 1)
            except grpc.aio.AioRpcError:
                error: LedgerError = UnavailableError("lost")
                continue
            if not response.HasField("error"):
                return response
            error = from_wire(response.error)
            if not error.retriable:
                break
        raise error

    def __getattr__(self, method: str) -> Any:
        async def answer(request: Any, timeout: float) -> Any:
            self.asked.append(request)
            waiting = self.answers[method]
            given = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            if isinstance(given, grpc.aio.AioRpcError):
                raise given
            if isinstance(given, LedgerError):
                return wire.ChangeResponse(error=to_wire(given))
            return given

        return answer


OPTIONS: dict[str, Any] = {"wait": True, "timeout_ms": 400, "on_progress": None}
DONE = wire.ChangeResponse(index=9)


def operator(cluster: Cluster) -> MembersAdmin:
    return MembersAdmin(cluster)  # type: ignore[arg-type]


async def test_a_node_is_added_promoted_and_watched_meanwhile() -> None:
    cluster = Cluster(
        AddNode=[DONE],
        PromoteNode=[DONE],
        GetMembers=[view(n4=False, caught_up=False), view(n4=False), view(n4=False), view(n4=True)],
    )
    seen: list[Members] = []
    await operator(cluster).add(4, "d:4", promote=True, **{**OPTIONS, "timeout_ms": 5000, "on_progress": seen.append})
    assert [member.voter for each in seen if (member := each.get(4))] == [False, False, False, True]
    assert [type(request).__name__ for request in cluster.asked] == [
        "AddNodeRequest", "GetMembersRequest", "GetMembersRequest", "PromoteNodeRequest", "GetMembersRequest",
        "GetMembersRequest",
    ]  # fmt: skip


async def test_a_new_node_may_be_silent_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = NodeSilentError("no node answers at d:4")
    cluster = Cluster(AddNode=[silent, silent, DONE], GetMembers=[view(n4=False)])
    await operator(cluster).add(4, "d:4", promote=False, **{**OPTIONS, "timeout_ms": 5000})
    monkeypatch.setattr(members_admin, "_STARTS_WITHIN_MS", 150)
    with pytest.raises(NodeSilentError):
        await operator(Cluster(AddNode=[silent])).add(4, "d:4", promote=False, **OPTIONS)


async def test_without_waiting_the_request_is_all() -> None:
    cluster = Cluster(AddNode=[DONE])
    await operator(cluster).add(4, "d:4", promote=False, **{**OPTIONS, "wait": False})
    (request,) = cluster.asked
    assert not request.wait


async def test_a_node_that_does_not_catch_up_in_time() -> None:
    cluster = Cluster(AddNode=[DONE], GetMembers=[view(n4=False, caught_up=False)])
    with pytest.raises(OperationTimeoutError, match=r"node 4 is a learner now, and still lacks 7 entries .* 0.4 s"):
        await operator(cluster).add(4, "d:4", promote=False, **OPTIONS)


async def test_a_node_that_is_removed_while_it_is_added() -> None:
    cluster = Cluster(AddNode=[DONE], GetMembers=[view()])
    with pytest.raises(UnknownNodeError, match="removed while it was catching up"):
        await operator(cluster).add(4, "d:4", promote=False, **OPTIONS)


@pytest.mark.parametrize("first", [LOST, NotLeaderError("it led when it appended it")], ids=["lost", "deposed"])
async def test_a_removal_whose_answer_was_lost_has_come_about(first: Any) -> None:
    cluster = Cluster(RemoveNode=[first, UnknownNodeError("no such node")], GetMembers=[view()])
    await operator(cluster).remove(4, **OPTIONS)


async def test_a_node_that_was_never_there_cannot_be_removed() -> None:
    cluster = Cluster(RemoveNode=[UnknownNodeError("no such node")])
    with pytest.raises(UnknownNodeError):
        await operator(cluster).remove(4, **OPTIONS)


async def test_another_change_is_told_from_the_own_one_that_is_not_committed() -> None:
    busy = ChangeInProgressError("another change")
    with pytest.raises(ChangeInProgressError):
        await operator(Cluster(RemoveNode=[busy])).remove(4, **OPTIONS)
    with pytest.raises(OperationTimeoutError, match=r"removing node 4 is not committed after 0.4 s.*a majority"):
        await operator(Cluster(RemoveNode=[LOST, busy])).remove(4, **OPTIONS)


async def test_leadership_is_watched_until_it_has_moved() -> None:
    cluster = Cluster(
        TransferLeadership=[wire.TransferLeadershipResponse(to=2)],
        GetMembers=[view(n2=True), view(n2=True, transferring_to=2), view(2, n2=True)],
    )
    assert await operator(cluster).transfer(0, **OPTIONS) == 2
    assert [(one.to, one.from_node) for one in cluster.asked if hasattr(one, "to")] == [(0, 1)]


@pytest.mark.parametrize("later", [view(1, n2=True), view(3, n2=True, n3=True)], ids=["given up", "another"])
async def test_leadership_that_does_not_move(later: Any) -> None:
    cluster = Cluster(
        TransferLeadership=[wire.TransferLeadershipResponse(to=2)],
        GetMembers=[view(n2=True), view(n2=True, transferring_to=2), later],
    )
    with pytest.raises(TransferFailedError, match=f"node 2 did not take over leadership .* node {later.leader} leads"):
        await operator(cluster).transfer(2, **OPTIONS)


async def test_a_pin_names_the_node_and_zero_removes_it() -> None:
    cluster = Cluster(PinLeader=[wire.PinLeaderResponse()])
    for node in (2, 0):
        await operator(cluster).pin(node, 400)
    assert [(request.shard, request.node) for request in cluster.asked] == [(0, 2), (0, 0)]


async def test_members_tell_who_takes_leadership_and_when() -> None:
    answer = view(2, n2=True)
    answer.preferred_leader, answer.pinned_leader, answer.preference_ms = 1, 1, 4_000
    members = await operator(Cluster(GetMembers=[answer])).members(400)
    assert (members.preferred_leader, members.pinned_leader, members.preference_ms) == (1, 1, 4_000)


class Routes:
    """The routes of a client that knows only shard 0."""

    class table:  # noqa: N801
        leaders = (0,)

    def learn(self, _: broker_pb2.GetRouteResponse) -> None: ...


class GrownCluster(Cluster):
    """A cluster that has three shards, of which the client knows only shard 0."""

    routes, shards = Routes(), ClusterClient.shards

    def __init__(self, **answers: list[Any]) -> None:
        shards = [broker_pb2.ShardRoute(shard=shard) for shard in (0, 1, 2)]
        super().__init__(GetRoute=[broker_pb2.GetRouteResponse(shards=shards)], **answers)


async def test_a_node_is_removed_from_shards_that_its_client_had_not_heard_of() -> None:
    cluster = GrownCluster(RemoveNode=[DONE], GetMembers=[view(n4=True)])
    await EveryShard(cluster).remove(4, None, **{**OPTIONS, "wait": False})  # type: ignore[arg-type]
    assert cluster.asked[0].linearizable
    removed = [request.shard for request in cluster.asked if isinstance(request, wire.RemoveNodeRequest)]
    assert removed == [2, 1, 0]


async def test_a_shard_is_known_as_soon_as_the_leader_of_shard_0_knows_it() -> None:
    cluster = GrownCluster()
    assert await EveryShard(cluster).numbers(2) == [2]  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="There is no shard 3: the last one is 2"):
        await EveryShard(cluster).numbers(3)  # type: ignore[arg-type]
    assert all(request.linearizable for request in cluster.asked)


async def test_a_node_comes_to_shards_that_its_client_had_not_heard_of() -> None:
    cluster = GrownCluster(AddNode=[DONE])
    await EveryShard(cluster).add(4, "d:4", None, promote=False, **{**OPTIONS, "wait": False})  # type: ignore[arg-type]
    assert [request.shard for request in cluster.asked[1:]] == [0, 1, 2]


async def test_holds_are_listed_of_shards_that_the_client_had_not_heard_of() -> None:
    cluster = GrownCluster(GetHolds=[wire.GetHoldsResponse()])
    await EveryShard(cluster).holds(None, timeout_ms=400)  # type: ignore[arg-type]
    assert [request.shard for request in cluster.asked[1:]] == [0, 1, 2]


async def test_what_is_asked_of_one_shard_is_asked_of_no_other() -> None:
    cluster = GrownCluster(RemoveNode=[DONE])
    options = {**OPTIONS, "wait": False, "force": True}
    await EveryShard(cluster).remove(4, 0, **options)  # type: ignore[arg-type]
    assert [request.shard for request in cluster.asked] == [0]
