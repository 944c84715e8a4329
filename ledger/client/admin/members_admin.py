"""The admin client's operations on the members and the leader of one shard.

A node is added as a learner, and can be promoted to a voter after it has caught up. The other operations remove a
node, transfer leadership, and recover a suspect node. A request for a change is repeated until a leader accepts it. If
the caller waits for the change, the client repeats `GetMembers` until the answer shows the new state. If the answer to
a request is lost, the request is sent again; all requests of this module are idempotent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio

from ledger.client.checked_numbers import checked_number
from ledger.client.connection.channels import NodeStub
from ledger.client.connection.cluster_client import ClusterClient
from ledger.client.producer.producer_batch import leaves_doubt
from ledger.client.records import Doubt, Member, Members
from ledger.errors import (
    ChangeInProgressError,
    LedgerError,
    NodeSilentError,
    OperationError,
    OperationTimeoutError,
    RequestTimeoutError,
    TransferFailedError,
    UnknownNodeError,
    from_wire,
)
from ledger.topics import TOPICS_SHARD
from ledger.v1 import operations_pb2

_LOOK_AGAIN_S = 0.1
# How long a new node may be silent. A leader waits 4 s for its answer, and then the request is repeated.
_STARTS_WITHIN_MS = 12_000

# Called with the members about every 0.1 s while the caller waits.
OnProgress = Callable[[Members], None]


class Deadline:
    """The time limit of one operation, shared by all its requests."""

    def __init__(self, timeout_ms: float) -> None:
        """Raises InvalidArgumentError."""
        self._loop = asyncio.get_running_loop()
        self.timeout_ms = checked_number("timeout_ms", timeout_ms, 0)
        self._end = self._loop.time() + self.timeout_ms / 1000

    @property
    def left_ms(self) -> float:
        return max(0.0, (self._end - self._loop.time()) * 1000)


class MembersAdmin:
    """Reads and changes the members of one shard, over the connections of one admin client."""

    def __init__(self, client: ClusterClient, shard: int = TOPICS_SHARD) -> None:
        self._client = client
        self._shard = shard

    async def members(self, timeout_ms: float | None) -> Members:
        request = operations_pb2.GetMembersRequest(shard=self._shard)
        response = await self._client.call(
            self._shard, lambda stub, s: stub.GetMembers(request, timeout=s), timeout_ms=timeout_ms
        )
        return _members(response)

    async def add(
        self, node: int, address: str, *, promote: bool, wait: bool, timeout_ms: float, on_progress: OnProgress | None
    ) -> None:
        deadline = Deadline(timeout_ms)
        await self._add(node, address, wait, deadline)
        if not wait:
            return
        await self._until(lambda members: _is_caught_up(members, node), deadline, on_progress, _still_behind(node))
        if promote:
            await self.promote(node, wait=True, timeout_ms=deadline.left_ms, on_progress=on_progress)

    async def _add(self, node: int, address: str, wait: bool, deadline: Deadline) -> None:
        """Add a learner. Repeat the request for a while if the new node is silent, because the program that adds a node
        has often just started it."""
        request = operations_pb2.AddNodeRequest(shard=self._shard, node=node, address=address, wait=wait)
        starting = Deadline(min(_STARTS_WITHIN_MS, deadline.left_ms))
        while True:
            try:
                return await self._change(
                    f"adding node {node}", lambda stub, s: stub.AddNode(request, timeout=s), deadline
                )
            except NodeSilentError:
                if starting.left_ms <= 0:
                    raise
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def promote(self, node: int, *, wait: bool, timeout_ms: float, on_progress: OnProgress | None) -> None:
        deadline = Deadline(timeout_ms)
        request = operations_pb2.PromoteNodeRequest(shard=self._shard, node=node, wait=wait)
        await self._change(f"promoting node {node}", lambda stub, s: stub.PromoteNode(request, timeout=s), deadline)
        if wait:
            await self._until(
                lambda members: _is_voter(members, node), deadline, on_progress, f"node {node} is not a voter yet"
            )

    async def remove(
        self, node: int, *, force: bool = False, wait: bool, timeout_ms: float, on_progress: OnProgress | None
    ) -> None:
        deadline = Deadline(timeout_ms)
        request = operations_pb2.RemoveNodeRequest(shard=self._shard, node=node, wait=wait, force=force)
        await self._change(
            f"removing node {node}",
            lambda stub, s: stub.RemoveNode(request, timeout=s),
            deadline,
            done_already=UnknownNodeError,
        )
        if wait:
            await self._until(
                lambda members: members.get(node) is None, deadline, on_progress, f"node {node} is still a member"
            )

    async def transfer(self, to: int, *, wait: bool, timeout_ms: float, on_progress: OnProgress | None) -> int:
        deadline = Deadline(timeout_ms)
        before = (await self.members(deadline.left_ms)).leader
        request = operations_pb2.TransferLeadershipRequest(shard=self._shard, to=to, from_node=before)
        response = await self._client.call(
            self._shard, lambda stub, s: stub.TransferLeadership(request, timeout=s), timeout_ms=deadline.left_ms
        )
        target: int = response.to
        if wait and target != before:
            await self._until(
                lambda members: _leads(members, target, before),
                deadline,
                on_progress,
                f"leadership is being handed to node {target}",
            )
        return target

    async def pin(self, node: int, timeout_ms: float | None) -> None:
        """Pin a voter as the leader of the shard; 0 removes the pin."""
        request = operations_pb2.PinLeaderRequest(shard=self._shard, node=node)
        await self._client.call(self._shard, lambda stub, s: stub.PinLeader(request, timeout=s), timeout_ms=timeout_ms)

    async def recover(self, node: int, *, accept_loss: bool, timeout_ms: float) -> Doubt:
        request = operations_pb2.RecoverNodeRequest(shard=self._shard, node=node, accept_loss=accept_loss)
        response = await self._client.call(
            self._shard, lambda stub, s: stub.RecoverNode(request, timeout=s), node=node, timeout_ms=timeout_ms
        )
        return Doubt(node, response.reason, response.since_ms, response.last_index, response.recovered, self._shard)

    # -- requests and waiting

    async def _change(
        self,
        what: str,
        send: Callable[[NodeStub, float], Awaitable[operations_pb2.ChangeResponse]],
        deadline: Deadline,
        done_already: type[LedgerError] | None = None,
    ) -> None:
        """Repeat the request until a leader accepts it.

        `done_already` is the error that a leader returns if an earlier attempt has made the change. If a failed
        attempt may have made the change, the error `done_already` counts as success.
        """
        attempts = _Attempts(send)
        try:
            await self._client.call(self._shard, attempts, timeout_ms=deadline.left_ms)
        except (ChangeInProgressError, RequestTimeoutError) as error:
            if not attempts.doubtful:
                raise
            raise OperationTimeoutError(
                f"{what} is not committed after {deadline.timeout_ms / 1000:g} s; the change may still be committed: "
                "check that a majority of the voters runs"
            ) from error
        except LedgerError as error:
            if done_already is None or not isinstance(error, done_already) or not attempts.doubtful:
                raise

    async def _until(
        self,
        done: Callable[[Members], bool],
        deadline: Deadline,
        on_progress: OnProgress | None,
        otherwise: str | Callable[[Members], str],
    ) -> None:
        """Ask for the shard's members repeatedly, until `done(members)` returns True.

        `otherwise` describes the state in the error that is raised at the deadline. `otherwise` is a text, or a
        function that makes the text from the members.
        """
        while True:
            members = await self.members(deadline.left_ms)
            if on_progress is not None:
                on_progress(members)
            if done(members):
                return
            if deadline.left_ms <= _LOOK_AGAIN_S * 1000:
                state = otherwise if isinstance(otherwise, str) else otherwise(members)
                raise OperationTimeoutError(
                    f"{state}, after {deadline.timeout_ms / 1000:g} s; the operation continues in the cluster"
                )
            await asyncio.sleep(_LOOK_AGAIN_S)


class _Attempts:
    """A request that changes members, and all attempts to send it. `doubtful` is True if a failed attempt may have
    made the change."""

    def __init__(self, send: Callable[[NodeStub, float], Awaitable[operations_pb2.ChangeResponse]]) -> None:
        self.doubtful = False
        self._send = send

    async def __call__(self, stub: NodeStub, seconds: float) -> operations_pb2.ChangeResponse:
        try:
            response = await self._send(stub, seconds)
        except grpc.aio.AioRpcError:
            self.doubtful = True
            raise
        if response.HasField("error"):
            error = from_wire(response.error)
            self.doubtful |= leaves_doubt(error) and not isinstance(error, OperationError | ChangeInProgressError)
        return response


def _is_caught_up(members: Members, node: int) -> bool:
    member = members.get(node)
    if member is None:
        raise UnknownNodeError(f"node {node} was removed while it was catching up: add it again")
    return member.caught_up


def _is_voter(members: Members, node: int) -> bool:
    member = members.get(node)
    return member is not None and member.voter


def _leads(members: Members, target: int, before: int) -> bool:
    if members.leader == target:
        return True
    if members.leader != before or members.transferring_to != target:
        raise TransferFailedError(
            f"node {target} did not take over leadership in time, and node {members.leader} leads: check that node "
            f"{target} runs and has caught up, then try again"
        )
    return False


def _still_behind(node: int) -> Callable[[Members], str]:
    def sentence(members: Members) -> str:
        member = members.get(node)
        lag = f"{member.lag_entries:,} entries ({member.lag_bytes / 1e6:,.1f} MB)" if member else "much"
        return f"node {node} is a learner now, and still lacks {lag}"

    return sentence


def _members(response: Any) -> Members:
    return Members(
        cluster=response.cluster,
        term=response.term,
        leader=response.leader,
        transferring_to=response.transferring_to,
        last_index=response.last_index,
        commit=response.commit,
        configuration_index=response.configuration_index,
        members=tuple(
            Member(
                node=each.node,
                address=each.address,
                incarnation=each.incarnation,
                voter=each.voter,
                suspect=each.suspect,
                lag_entries=each.lag_entries,
                lag_bytes=each.lag_bytes,
                caught_up=each.caught_up,
            )
            for each in response.members
        ),
        preferred_leader=response.preferred_leader,
        pinned_leader=response.pinned_leader,
        preference_ms=response.preference_ms,
    )
