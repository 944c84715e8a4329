"""The Operations service: members, leadership, suspect nodes, the start of the log and holds on it, shards.

Each method checks its request, finds the replica, calls the module that decides (members.py, handover.py, log_trim.py,
topic_commands.py), and puts the result into protobuf. The identity of a new node, and the loss of a suspect node, come
from the `Site`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.members.handover import begin_transfer
from ledger.broker.members.members import Introduction, Members
from ledger.broker.produce.proposals import ChangeProposal
from ledger.broker.replicas import Replicas
from ledger.broker.retention.log_trim import LogTrim
from ledger.broker.retention.retention import Candidate
from ledger.broker.rpc.refusals import RefusingService, answers, storage_checked
from ledger.broker.topics.topic_commands import add_shard, open_topic
from ledger.broker.topics.topic_deletion import TopicDeletion
from ledger.errors import (
    InvalidArgumentError,
    NotSuspectError,
    RecoveryRefusedError,
)
from ledger.state import Hold, Topic
from ledger.topics import TOPICS_SHARD
from ledger.v1 import operations_pb2, operations_pb2_grpc
from raft.configuration_entry import ShardConfiguration
from store import Suspect

log = logging.getLogger("ledgermq.broker.operations")


class Site(Protocol):
    """The shard as it stands on this node, and the way to nodes that are no members yet."""

    async def ask_joining_node(self, node: int, address: str, configuration: ShardConfiguration) -> Introduction | None:
        """Who is there? None: nobody answers."""

    def doubt(self) -> Suspect | None:
        """What this node may have lost, as its disk remembers it."""

    async def accept_loss(self) -> None:
        """This node is trusted again; returns once its disk knows that."""


class OperationsService(RefusingService, operations_pb2_grpc.OperationsServicer):
    """Until shard 0 has started on this node, it can only say so."""

    def __init__(
        self, node: int, cluster: str, sites: Mapping[int, Site], replicas: Replicas, deletion: TopicDeletion
    ) -> None:
        """`sites`: the shards, by number, as they come to this node."""
        self._node = node
        self._cluster = cluster
        self._sites = sites
        self._replicas = replicas
        self._deletion = deletion

    @answers(operations_pb2.GetMembersResponse)
    async def GetMembers(  # noqa: N802 (gRPC names)
        self, request: operations_pb2.GetMembersRequest, response: operations_pb2.GetMembersResponse
    ) -> None:
        response.cluster = self._cluster
        replica = await self._leading(request.shard)
        raft, membership = replica.driver.raft, replica.membership
        assert membership.configuration is not None, "what a leader has applied begins with its own configuration"
        response.term, response.leader, response.transferring_to = raft.term, raft.leader, raft.transferring_to
        response.last_index, response.commit = replica.log.last_index, raft.commit
        response.configuration_index = membership.index
        for state in self._members(replica).states(membership.configuration):
            response.members.add(
                node=state.node,
                address=state.address,
                incarnation=state.incarnation,
                voter=state.is_voter,
                suspect=state.is_suspect,
                lag_entries=state.lag_entries,
                lag_bytes=state.lag_bytes,
                caught_up=state.caught_up,
            )

    @answers(operations_pb2.ChangeResponse)
    async def AddNode(  # noqa: N802
        self, request: operations_pb2.AddNodeRequest, response: operations_pb2.ChangeResponse
    ) -> None:
        check_address(request.address)
        change = await self._members(self._replicas.require(request.shard)).add(number(request.node), request.address)
        response.CopyFrom(await changed(change, wait=request.wait))

    @answers(operations_pb2.ChangeResponse)
    async def PromoteNode(  # noqa: N802
        self, request: operations_pb2.PromoteNodeRequest, response: operations_pb2.ChangeResponse
    ) -> None:
        change = await self._members(self._replicas.require(request.shard)).promote(number(request.node))
        response.CopyFrom(await changed(change, wait=request.wait))

    @answers(operations_pb2.ChangeResponse)
    async def RemoveNode(  # noqa: N802
        self, request: operations_pb2.RemoveNodeRequest, response: operations_pb2.ChangeResponse
    ) -> None:
        change = self._members(self._replicas.require(request.shard)).remove(number(request.node))
        response.CopyFrom(await changed(change, wait=request.wait))

    @answers(operations_pb2.TransferLeadershipResponse)
    async def TransferLeadership(  # noqa: N802
        self, request: operations_pb2.TransferLeadershipRequest, response: operations_pb2.TransferLeadershipResponse
    ) -> None:
        replica = self._replicas.require(request.shard)
        other_leads = request.from_node not in (0, self._node)
        if replica.driver.leads and (other_leads or request.to == self._node):
            response.to = self._node  # it came about already
        else:
            response.to = begin_transfer(replica, request.to)

    @answers(operations_pb2.RecoverNodeResponse)
    async def RecoverNode(  # noqa: N802
        self, request: operations_pb2.RecoverNodeRequest, response: operations_pb2.RecoverNodeResponse
    ) -> None:
        replica = self._replicas.require(request.shard)
        doubt = self._doubt(replica, number(request.node))
        response.reason, response.since_ms, response.last_index = doubt.reason, doubt.since_ms, doubt.last_index
        if request.accept_loss:
            self._check_is_alone(replica)
            await self._sites[replica.shard].accept_loss()
            response.recovered = True

    @answers(operations_pb2.TrimLogResponse)
    async def TrimLog(  # noqa: N802
        self, request: operations_pb2.TrimLogRequest, response: operations_pb2.TrimLogResponse
    ) -> None:
        replica = await self._leading(request.shard)
        with storage_checked("the log of this node cannot be looked at"):
            trim = LogTrim(replica)
            to = kept_by(trim, request)
            cut = trim.cut(to)
            response.held_by.extend(trim.held_by())
            if to is not None and not request.dry_run:
                log.info("shard %d: an operator has the log begin with entry %d", request.shard, cut.first_index)
                await asyncio.shield(trim.move(to).future)
        response.first_index, response.entries, response.bytes = cut.first_index, cut.entries, cut.size
        response.messages, response.newest_ms, response.bytes_kept = cut.messages, cut.newest_ms, cut.bytes_kept

    @answers(operations_pb2.HoldLogResponse)
    async def HoldLog(  # noqa: N802
        self, request: operations_pb2.HoldLogRequest, response: operations_pb2.HoldLogResponse
    ) -> None:
        replica = self._replicas.require(request.shard)
        hold = await asyncio.shield(replica.log_holds.take(request.name, request.ttl_ms))
        response.hold.CopyFrom(hold_on_the_wire(hold))
        response.first_index = replica.log.first_index

    @answers(operations_pb2.ReleaseLogResponse)
    async def ReleaseLog(  # noqa: N802
        self, request: operations_pb2.ReleaseLogRequest, response: operations_pb2.ReleaseLogResponse
    ) -> None:
        response.released = await asyncio.shield(self._replicas.require(request.shard).log_holds.release(request.name))

    @answers(operations_pb2.GetHoldsResponse)
    async def GetHolds(  # noqa: N802
        self, request: operations_pb2.GetHoldsRequest, response: operations_pb2.GetHoldsResponse
    ) -> None:
        replica = await self._leading(request.shard)
        response.holds.extend(hold_on_the_wire(hold) for hold in replica.state.holds)

    @answers(operations_pb2.AddShardResponse)
    async def AddShard(  # noqa: N802
        self, request: operations_pb2.AddShardRequest, response: operations_pb2.AddShardResponse
    ) -> None:
        replica = await self._leading(TOPICS_SHARD)
        shards = replica.state.shards
        if request.shards and len(shards.numbers) == request.shards + 1:
            response.shard = shards.numbers[-1]  # it came about already
        else:
            response.shard = await add_shard(replica, request.nodes)
        response.nodes.extend(replica.state.shards.nodes(response.shard))

    @answers(operations_pb2.OpenTopicResponse)
    async def OpenTopic(  # noqa: N802
        self, request: operations_pb2.OpenTopicRequest, response: operations_pb2.OpenTopicResponse
    ) -> None:
        topic = Topic(
            request.topic_id, request.name, tuple(request.shards), request.created_ms, opened=len(request.shards)
        )
        await asyncio.shield(open_topic(self._replicas.require(request.shard), topic))

    @answers(operations_pb2.DropTopicResponse)
    async def DropTopic(  # noqa: N802
        self, request: operations_pb2.DropTopicRequest, response: operations_pb2.DropTopicResponse
    ) -> None:
        await self._deletion.drop(self._replicas.require(request.shard), request.topic_id)

    async def _leading(self, shard: int) -> BrokerReplica:
        """The shard's replica, which leads at this moment and has applied all that was committed before it."""
        replica = self._replicas.require(shard)
        await replica.confirm_still_leading()
        return replica

    def _doubt(self, replica: BrokerReplica, node: int) -> Suspect:
        if node != self._node:
            raise InvalidArgumentError(f"this is node {self._node}, not node {node}: ask the suspect node itself")
        doubt = self._sites[replica.shard].doubt()
        if doubt is None or not replica.driver.raft.is_suspect:
            raise NotSuspectError(f"node {node} is not suspect: nothing that it acknowledged is in doubt")
        return doubt

    def _check_is_alone(self, replica: BrokerReplica) -> None:
        if leader := replica.driver.raft.leader:
            raise RecoveryRefusedError(
                f"node {self._node} follows node {leader}, which gives back what is missing: it is trusted again by "
                "itself once it has caught up, and nothing need be lost"
            )

    def _members(self, replica: BrokerReplica) -> Members:
        return Members(replica, self._sites[replica.shard].ask_joining_node)


async def changed(change: ChangeProposal | None, *, wait: bool) -> operations_pb2.ChangeResponse:
    """The answer to a change that was appended; None: nothing had to change."""
    if change is None:
        return operations_pb2.ChangeResponse()
    if wait:  # a client that goes away does not take it back
        await asyncio.shield(change.future)
    return operations_pb2.ChangeResponse(index=change.index)


def kept_by(trim: LogTrim, request: operations_pb2.TrimLogRequest) -> Candidate | None:
    """Where the log may begin so that all stays which is to stay. Raises LedgerError."""
    match request.WhichOneof("keep"):
        case "since_ms":
            return trim.keeping_since(request.since_ms)
        case "bytes":
            return trim.keeping_bytes(request.bytes)
        case "place":
            place = request.place
            return trim.keeping_from(place.topic, place.queue, place.offset)
        case _:
            raise InvalidArgumentError("a trim must say what is to stay: a time, a number of bytes, or an offset")


def hold_on_the_wire(hold: Hold) -> operations_pb2.Hold:
    return operations_pb2.Hold(name=hold.name, index=hold.index, taken_ms=hold.taken_ms, expires_ms=hold.expires_ms)


def number(node: int) -> int:
    if node < 1:
        raise InvalidArgumentError(f"{node} is no number of a node: they begin at 1")
    return node


def check_address(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise InvalidArgumentError(f"{address!r} is not an address of the form host:port")
