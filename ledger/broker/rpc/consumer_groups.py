"""The gRPC rim for consumers of consumer groups: each method checks its request, finds coordinator or replica, and puts
the answer into protobuf.

It must not decide anything of its own: what a request means is in coordinator.py, acknowledgements.py and the state.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.consumer_groups.acknowledgements import Acknowledgements
from ledger.broker.consumer_groups.claims import Claims
from ledger.broker.consumer_groups.consumed_offsets import start_offset
from ledger.broker.consumer_groups.coordinator import Coordinator
from ledger.broker.replicas import Replicas
from ledger.broker.rpc.broker import COORDINATORS, topic_route
from ledger.broker.rpc.refusals import RefusingService, answers
from ledger.broker.topics.topic_commands import keep_topic
from ledger.broker.topics.topic_opening import TopicOpening
from ledger.consumer_groups import (
    coordinator_shard,
    validate_consumed_name,
    validate_group_name,
)
from ledger.errors import BusyError, InvalidArgumentError, LedgerError, TopicExistsError, UnavailableError, to_wire
from ledger.retries import dead_letter_topic, retry_topic
from ledger.state import QueueResults, Topic
from ledger.v1 import command_pb2, consumer_group_pb2, consumer_group_pb2_grpc

MAX_WAIT_MS = 60_000


@dataclass(frozen=True, slots=True)
class ShardConsumption:
    """What one shard has for consumers."""

    replica: BrokerReplica
    coordinator: Coordinator
    acknowledgements: Acknowledgements
    claims: Claims


class Site(Protocol):
    """A shard on this node."""

    @property
    def shard_consumption(self) -> ShardConsumption | None:
        """None until it has started."""


class ConsumerGroupService(RefusingService, consumer_group_pb2_grpc.ConsumerGroupsServicer):
    """Until a shard has started here, this can only say so."""

    def __init__(
        self,
        sites: Mapping[int, Site],
        replicas: Replicas,
        opening: TopicOpening,
        retries: int,
        coordinators: int = COORDINATORS,
    ) -> None:
        """`sites`: the shards of this node, by number, as they come. `retries`: after how many different delays a
        message may be handed out again."""
        self._sites = sites
        self._replicas = replicas
        self._opening = opening
        self._retries = retries
        self._coordinators = coordinators
        self.refusals: Counter[str] = Counter()
        """What consumers were refused, by code."""

    @property
    def shard_consumptions(self) -> dict[int, ShardConsumption]:
        """Of the shards that have started here, by number."""
        return {
            number: site.shard_consumption
            for number, site in sorted(self._sites.items())
            if site.shard_consumption is not None
        }

    # -- as a coordinator

    @answers(consumer_group_pb2.JoinResponse)
    async def Join(  # noqa: N802 (gRPC names)
        self, request: consumer_group_pb2.JoinRequest, response: consumer_group_pb2.JoinResponse
    ) -> None:
        wanted = command_pb2.JoinConsumerGroup(
            consumer_group=request.consumer_group,
            member=request.member,
            client_id=request.client_id,
            strategy=request.strategy,
            room=request.room,
            session_timeout_ms=request.session_timeout_ms,
            subscriptions=[
                command_pb2.QueueCount(topic_id=each.topic_id, queues=each.queues) for each in request.subscriptions
            ],
            configured=[command_pb2.QueueRef(topic_id=each.topic_id, queue=each.queue) for each in request.configured],
            rooms=[command_pb2.ShardRoom(shard=each.shard, room=each.room) for each in request.rooms],
        )
        await self.coordinator(request.shard, request.consumer_group).join(request.consumer_group, wanted)

    @answers(consumer_group_pb2.AwaitAssignmentResponse)
    async def AwaitAssignment(  # noqa: N802
        self, request: consumer_group_pb2.AwaitAssignmentRequest, response: consumer_group_pb2.AwaitAssignmentResponse
    ) -> None:
        wait_s = min(request.max_wait_ms, MAX_WAIT_MS) / 1000
        coordinator = self.coordinator(request.shard, request.consumer_group)
        group = await coordinator.attend(request.consumer_group, request.member, request.version, wait_s)
        response.version = group.members[request.member].version
        for each in group.view(request.member):
            response.queues.add(
                topic_id=each.queue.topic_id, queue=each.queue.queue, epoch=each.epoch, leaving=each.is_leaving
            )

    @answers(consumer_group_pb2.ReleaseResponse)
    async def Release(  # noqa: N802
        self, request: consumer_group_pb2.ReleaseRequest, response: consumer_group_pb2.ReleaseResponse
    ) -> None:
        wanted = command_pb2.ReleaseQueues(
            consumer_group=request.consumer_group,
            member=request.member,
            queues=[
                command_pb2.OwnedEpoch(topic_id=each.topic_id, queue=each.queue, epoch=each.epoch)
                for each in request.queues
            ],
        )
        await self.coordinator(request.shard, request.consumer_group).release(request.consumer_group, wanted)

    @answers(consumer_group_pb2.LeaveResponse)
    async def Leave(  # noqa: N802
        self, request: consumer_group_pb2.LeaveRequest, response: consumer_group_pb2.LeaveResponse
    ) -> None:
        coordinator = self.coordinator(request.shard, request.consumer_group)
        await coordinator.leave(request.consumer_group, [request.member])

    # -- where the queues are

    @answers(consumer_group_pb2.ClaimResponse)
    async def Claim(  # noqa: N802
        self, request: consumer_group_pb2.ClaimRequest, response: consumer_group_pb2.ClaimResponse
    ) -> None:
        validate_consumed_name(request.consumer_group)
        shard_consumption = self.shard_consumption(request.shard)
        wanted = command_pb2.ClaimQueues(
            consumer_group=request.consumer_group,
            queues=[claimed(shard_consumption.replica, each) for each in request.queues],
        )
        results = await asyncio.shield(shard_consumption.claims.claim(wanted))
        response.queues.extend(self._progress_of(results))

    @answers(consumer_group_pb2.AcknowledgeResponse)
    async def Acknowledge(  # noqa: N802
        self, request: consumer_group_pb2.AcknowledgeRequest, response: consumer_group_pb2.AcknowledgeResponse
    ) -> None:
        offsets = [
            command_pb2.AcknowledgedOffset(
                topic_id=each.topic_id, queue=each.queue, epoch=each.epoch, resets=each.resets, offset=each.offset
            )
            for each in request.queues
        ]
        results = await self.shard_consumption(request.shard).acknowledgements.add(request.consumer_group, offsets)
        response.queues.extend(self._progress_of(results))

    @answers(consumer_group_pb2.MoveResponse)
    async def Move(  # noqa: N802
        self, request: consumer_group_pb2.MoveRequest, response: consumer_group_pb2.MoveResponse
    ) -> None:
        moving = self.shard_consumption(request.shard).claims.move(request)
        if moving is not None:
            await asyncio.shield(moving)

    # -- in shard 0

    @answers(consumer_group_pb2.PrepareRetriesResponse)
    async def PrepareRetries(  # noqa: N802
        self, request: consumer_group_pb2.PrepareRetriesRequest, response: consumer_group_pb2.PrepareRetriesResponse
    ) -> None:
        name = request.consumer_group
        validate_group_name(name)
        retry = await self._kept(retry_topic(name), self._retries)
        dead_letters = await self._kept(dead_letter_topic(name), 1)
        response.retry.CopyFrom(topic_route(retry))
        response.dead_letters.CopyFrom(topic_route(dead_letters))

    def _progress_of(self, results: QueueResults) -> list[consumer_group_pb2.QueueProgress]:
        progress = []
        for each in results:
            if isinstance(each, LedgerError):
                self.refusals[each.code] += 1
                progress.append(consumer_group_pb2.QueueProgress(error=to_wire(each)))
            else:
                progress.append(
                    consumer_group_pb2.QueueProgress(
                        offset=each.offset, settled=each.settled, epoch=each.epoch, resets=each.resets
                    )
                )
        return progress

    def refused(self, error: LedgerError) -> None:
        self.refusals[error.code] += 1

    async def _kept(self, name: str, queues: int) -> Topic:
        """The broker's own topic of that name, with so many queues in each shard, once it is open."""
        try:
            topic = await keep_topic(self._replicas.topics, name, queues)
        except TopicExistsError:  # somebody else is making it
            raise BusyError(f"topic {name!r} is being made: try again shortly") from None
        return await self._opening.wait(topic)

    def coordinator(self, shard: int, consumer_group: str) -> Coordinator:
        """Raises LedgerError where it is not here."""
        validate_group_name(consumer_group)
        right = coordinator_shard(consumer_group, self._coordinators)
        if shard != right:
            raise InvalidArgumentError(
                f"consumer group {consumer_group!r} is coordinated in shard {right}, not in shard {shard}"
            )
        return self.shard_consumption(shard).coordinator

    def shard_consumption(self, shard: int) -> ShardConsumption:
        """Of the shard. Raises LedgerError where it is not here."""
        self._replicas.require(shard)
        shard_consumption = self._sites[shard].shard_consumption
        if shard_consumption is None:
            raise UnavailableError(f"shard {shard} has not started on this node yet: try again shortly")
        return shard_consumption


def claimed(replica: BrokerReplica, wanted: consumer_group_pb2.QueueClaim) -> command_pb2.ClaimedQueue:
    """Raises UnknownTopicError, UnknownQueueError, InvalidArgumentError."""
    start = start_offset(replica, wanted.topic_id, wanted.queue, wanted.start_offset)
    return command_pb2.ClaimedQueue(
        topic_id=wanted.topic_id, queue=wanted.queue, epoch=wanted.epoch, start_offset=start
    )
