"""The Operations service: members, leadership, suspect nodes, log start, holds and shards.

Each method finds the replica, calls the module that decides (members/, retention/, topics/), and turns the result into
protobuf.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.members.handover import transfer_leadership
from ledger.broker.members.members import MemberChanges, SuspectShard, doubt_of, recover, validate_node
from ledger.broker.members.pins import pin_leader, unpin_leader
from ledger.broker.placement.keeper import PlacementKeeper
from ledger.broker.produce.proposals import ChangeProposal
from ledger.broker.replicas import Replicas
from ledger.broker.retention.log_trim import LogTrim
from ledger.broker.retention.retention import TrimPoint
from ledger.broker.rpc.placement_wire import put_placement
from ledger.broker.rpc.refusals import RefusingService, answers, storage_checked
from ledger.broker.topics.topic_commands import ensure_shard, open_topic
from ledger.broker.topics.topic_deletion import TopicDeletion
from ledger.errors import InvalidArgumentError
from ledger.state import Hold, Topic
from ledger.state.commands import BalanceReplicas, DrainNode, EndDrain, PausePlacement, SetReplicas
from ledger.topics import TOPICS_SHARD
from ledger.v1 import operations_pb2, operations_pb2_grpc

log = logging.getLogger("ledgermq.broker.operations")


class OperationsService(RefusingService, operations_pb2_grpc.OperationsServicer):
    """The gRPC service for operators of the cluster. Until shard 0 has started on this node, requests are refused."""

    def __init__(
        self,
        node: int,
        cluster: str,
        shards: Mapping[int, SuspectShard],
        replicas: Replicas,
        deletion: TopicDeletion,
        placement: PlacementKeeper,
    ) -> None:
        """`shards` maps shard numbers to the shards of this node. Shards can be added to this mapping later."""
        self._node = node
        self._cluster = cluster
        self._shards = shards
        self._replicas = replicas
        self._deletion = deletion
        self._placement = placement

    @answers(operations_pb2.GetMembersResponse)
    async def GetMembers(  # noqa: N802 (gRPC names)
        self, request: operations_pb2.GetMembersRequest, response: operations_pb2.GetMembersResponse
    ) -> None:
        response.cluster = self._cluster
        replica = await self._leading(request.shard)
        raft, membership = replica.driver.raft, replica.membership
        assert membership.configuration is not None, "a leader has applied a configuration"
        response.term, response.leader, response.transferring_to = raft.term, raft.leader, raft.transferring_to
        response.last_index, response.commit = replica.log.last_index, raft.commit
        response.configuration_index = membership.index
        response.preferred_leader, response.pinned_leader = raft.preferred_leader, replica.pinned_leader
        response.preference_ms = replica.preference_ms
        response.log_bytes = replica.log.end - replica.log.start
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
                answers=state.answers,
            )

    @answers(operations_pb2.ChangeResponse)
    async def AddNode(  # noqa: N802
        self, request: operations_pb2.AddNodeRequest, response: operations_pb2.ChangeResponse
    ) -> None:
        change = await self._members(self._replicas.require(request.shard)).add(request.node, request.address)
        response.CopyFrom(await changed(change, wait=request.wait))

    @answers(operations_pb2.ChangeResponse)
    async def PromoteNode(  # noqa: N802
        self, request: operations_pb2.PromoteNodeRequest, response: operations_pb2.ChangeResponse
    ) -> None:
        change = await self._members(self._replicas.require(request.shard)).promote(request.node)
        response.CopyFrom(await changed(change, wait=request.wait))

    @answers(operations_pb2.ChangeResponse)
    async def RemoveNode(  # noqa: N802
        self, request: operations_pb2.RemoveNodeRequest, response: operations_pb2.ChangeResponse
    ) -> None:
        members = self._members(self._replicas.require(request.shard))
        if request.shard == TOPICS_SHARD and not request.force:
            await self._placement.check_serves_no_other(request.node)
        placement = self._replicas.topics.state.placement
        change = members.remove(request.node, placement=placement, force=request.force)
        response.CopyFrom(await changed(change, wait=request.wait))

    @answers(operations_pb2.GetPlacementResponse)
    async def GetPlacement(  # noqa: N802
        self, request: operations_pb2.GetPlacementRequest, response: operations_pb2.GetPlacementResponse
    ) -> None:
        replica = await self._leading(TOPICS_SHARD)
        put_placement(response, replica.state.placement, await self._placement.view(), self._placement.troubles)

    @answers(operations_pb2.SetPlacementResponse)
    async def SetPlacement(  # noqa: N802
        self, request: operations_pb2.SetPlacementRequest, response: operations_pb2.SetPlacementResponse
    ) -> None:
        replica = await self._leading(TOPICS_SHARD)
        replica.state.require_placement()
        if request.HasField("replicas"):
            await asyncio.shield(replica.propose_checked(SetReplicas(request.replicas, request.shard)))
        if request.HasField("balancing"):
            await asyncio.shield(replica.propose_checked(BalanceReplicas(request.balancing)))
        if request.HasField("paused"):
            await asyncio.shield(replica.propose_checked(PausePlacement(request.paused)))

    @answers(operations_pb2.DrainNodeResponse)
    async def DrainNode(  # noqa: N802
        self, request: operations_pb2.DrainNodeRequest, response: operations_pb2.DrainNodeResponse
    ) -> None:
        replica = await self._leading(TOPICS_SHARD)
        replica.state.require_placement()
        validate_node(request.node)
        if request.stop:
            await asyncio.shield(replica.propose_checked(EndDrain(request.node)))
            return
        await self._placement.check_drain(request.node)
        await asyncio.shield(replica.propose_checked(DrainNode(request.node, request.removes)))

    @answers(operations_pb2.TransferLeadershipResponse)
    async def TransferLeadership(  # noqa: N802
        self, request: operations_pb2.TransferLeadershipRequest, response: operations_pb2.TransferLeadershipResponse
    ) -> None:
        replica = self._replicas.require(request.shard)
        response.to = transfer_leadership(replica, from_node=request.from_node, to=request.to)

    @answers(operations_pb2.PinLeaderResponse)
    async def PinLeader(  # noqa: N802
        self, request: operations_pb2.PinLeaderRequest, response: operations_pb2.PinLeaderResponse
    ) -> None:
        replica = self._replicas.require(request.shard)
        if request.node:
            await pin_leader(replica, request.node, balances=request.balances)
        else:
            await unpin_leader(replica)

    @answers(operations_pb2.RecoverNodeResponse)
    async def RecoverNode(  # noqa: N802
        self, request: operations_pb2.RecoverNodeRequest, response: operations_pb2.RecoverNodeResponse
    ) -> None:
        replica = self._replicas.require(request.shard)
        shard = self._shards[replica.shard]
        doubt = doubt_of(replica, shard, request.node)
        response.reason, response.since_ms, response.last_index = doubt.reason, doubt.since_ms, doubt.last_index
        if request.accept_loss:
            await recover(replica, shard)
            response.recovered = True

    @answers(operations_pb2.TrimLogResponse)
    async def TrimLog(  # noqa: N802
        self, request: operations_pb2.TrimLogRequest, response: operations_pb2.TrimLogResponse
    ) -> None:
        replica = await self._leading(request.shard)
        with storage_checked("this node cannot read its log"):
            trim = LogTrim(replica)
            to = kept_by(trim, request)
            effect = trim.effect(to)
            response.held_by.extend(trim.held_by())
            if to is not None and not request.dry_run:
                log.info("shard %d: an operator moves the log start to entry %d", request.shard, effect.first_index)
                await trim.copy_and_move(to)
        response.first_index, response.entries, response.bytes = effect.first_index, effect.entries, effect.size
        response.messages, response.newest_ms, response.bytes_kept = (
            effect.messages,
            effect.newest_ms,
            effect.bytes_kept,
        )

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
        response.shard = await ensure_shard(
            replica, request.nodes, known_shards=request.shards, rooms=await self._placement.rooms()
        )
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
        """Make a read index of the shard, and return this node's replica of the shard. Raises LedgerError if this
        node does not lead the shard."""
        replica = self._replicas.require(shard)
        await replica.confirm_still_leading()
        return replica

    def _members(self, replica: BrokerReplica) -> MemberChanges:
        return MemberChanges(replica, self._shards[replica.shard].ask_introduction)


async def changed(change: ChangeProposal | None, *, wait: bool) -> operations_pb2.ChangeResponse:
    """Return the response to a change of members. `change` is None if the members were already as requested. With
    `wait`, return only after the change is committed."""
    if change is None:
        return operations_pb2.ChangeResponse()
    if wait:  # a client that disconnects does not cancel it
        await asyncio.shield(change.future)
    return operations_pb2.ChangeResponse(index=change.index)


def kept_by(trim: LogTrim, request: operations_pb2.TrimLogRequest) -> TrimPoint | None:
    """Return the latest possible log start that keeps all entries that the request asks to keep. Return None if
    there is no such log start. Raises LedgerError."""
    match request.WhichOneof("keep"):
        case "since_ms":
            return trim.keeping_since(request.since_ms)
        case "bytes":
            return trim.keeping_bytes(request.bytes)
        case "place":
            place = request.place
            return trim.keeping_from(place.topic, place.queue, place.offset)
        case _:
            raise InvalidArgumentError(
                "a trim must say what to keep: entries since a time, a number of bytes, or messages from an offset"
            )


def hold_on_the_wire(hold: Hold) -> operations_pb2.Hold:
    return operations_pb2.Hold(name=hold.name, index=hold.index, taken_ms=hold.taken_ms, expires_ms=hold.expires_ms)
