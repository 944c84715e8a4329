"""The gRPC rim of a broker: each method checks its request, finds the replica, and puts the answer into protobuf.

It must not decide anything of its own: what a request means is in produce.py, fetch.py and replica.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grpc import aio

from ledger.broker.delays import Delays
from ledger.broker.fetch import fetch
from ledger.broker.membership import Standing
from ledger.broker.offsets import list_offsets
from ledger.broker.produce import serve_produce
from ledger.broker.proposals import Committed
from ledger.broker.query import query_messages
from ledger.broker.replica import Meter, Replica
from ledger.errors import LedgerError, ReplicaBehindError, UnknownQueueError, UnknownTopicError, to_wire
from ledger.state import Topic
from ledger.v1 import broker_pb2, broker_pb2_grpc
from store import CommitLog, ConsumeQueue

COORDINATORS = 1
"""Consumer groups are coordinated in the groups 0 .. COORDINATORS - 1."""

Context = aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node tells about itself."""

    node: int
    cluster: str
    addresses: Mapping[int, str]
    http_address: str
    data_directory: str
    version: str
    joins: bool = False
    """It waits to be added to a cluster, if it has not been."""


@dataclass(frozen=True, slots=True)
class QueueReader:
    """One queue on this node, for fetches (`ledger.broker.fetch.Readable`)."""

    log: CommitLog
    units: ConsumeQueue
    end_offset: int
    is_at_the_end: bool
    due_in_s: float | None = None


class BrokerService(broker_pb2_grpc.BrokerServicer):
    """Serves clients of one node. Until the node's group has started, `replica` is None and it can only say so."""

    def __init__(self, facts: NodeFacts, max_message_bytes: int, meter: Meter, delays: Delays) -> None:
        self._facts = facts
        self._delays = delays
        self._max_message_bytes = max_message_bytes
        self._meter = meter
        self._replica: Replica | None = None

    def serve(self, replica: Replica) -> None:
        self._replica = replica

    @property
    def configuration_index(self) -> int:
        return self._replica.membership.index if self._replica else 0

    # -- produce

    async def Produce(self, request_iterator: Any, context: Context) -> None:  # noqa: N802 (gRPC names)
        await serve_produce(self, context)

    def produce(self, batch: bytes) -> asyncio.Future[Committed]:
        return self._started().produce(batch)

    # -- fetch

    async def Fetch(self, request: broker_pb2.FetchRequest, context: Context) -> broker_pb2.FetchResponse:  # noqa: N802
        try:
            response = await fetch(self, request)
        except LedgerError as error:
            return broker_pb2.FetchResponse(
                queues=[
                    broker_pb2.FetchedQueue(
                        topic_id=each.topic_id, queue=each.queue, next_offset=each.offset, error=to_wire(error)
                    )
                    for each in request.queues
                ]
            )
        self._count(response)
        response.configuration_index = self.configuration_index
        return response

    def readable(self, topic_id: int, queue: int) -> QueueReader:
        replica = self._started()
        try:
            replica.state.topics.require(topic_id, queue)
        except (UnknownTopicError, UnknownQueueError) as error:
            if replica.knows_the_end:
                raise
            raise ReplicaBehindError(
                f"topic {topic_id} with queue {queue} has not come to this node yet: try again"
            ) from error
        due = self._delays.due(replica, topic_id, queue)
        return QueueReader(
            replica.log,
            replica.queues.get(topic_id, queue),
            replica.state.next_offset(topic_id, queue) if due is None else due.end_offset,
            # A clock that was set back makes less of a queue due than somebody has had already: he is to try again.
            replica.knows_the_end and due is None,
            None if due is None else due.next_in_s,
        )

    def arrival(self, queues: Iterable[tuple[int, int]]) -> asyncio.Future[None]:
        return self._started().arrivals.wait_for(queues)

    def _count(self, response: broker_pb2.FetchResponse) -> None:
        topics = self._started().state.topics
        for given in response.queues:
            if given.batches and (topic := topics.get(given.topic_id)) is not None:
                messages = given.next_offset - given.batches[0].base_offset
                self._meter.fetched(topic.name, messages, sum(len(batch.body) for batch in given.batches))

    # -- questions

    async def ListOffsets(  # noqa: N802
        self, request: broker_pb2.ListOffsetsRequest, context: Context
    ) -> broker_pb2.ListOffsetsResponse:
        try:
            replica = await self._reading(linearizable=request.linearizable)
            return await list_offsets(replica, request)
        except LedgerError as error:
            return broker_pb2.ListOffsetsResponse(error=to_wire(error))

    async def QueryMessages(  # noqa: N802
        self, request: broker_pb2.QueryMessagesRequest, context: Context
    ) -> broker_pb2.QueryMessagesResponse:
        try:
            replica = await self._reading(linearizable=request.linearizable)
            return await query_messages(replica, request)
        except LedgerError as error:
            return broker_pb2.QueryMessagesResponse(error=to_wire(error))

    async def GetRoute(  # noqa: N802
        self, request: broker_pb2.GetRouteRequest, context: Context
    ) -> broker_pb2.GetRouteResponse:
        try:
            await self._reading(linearizable=request.linearizable)
        except LedgerError as error:
            response = self.routes()
            response.ClearField("groups")
            response.ClearField("topics")
            response.error.CopyFrom(to_wire(error))
            return response
        return self.routes(request.topics)

    def routes(self, names: Collection[str] = ()) -> broker_pb2.GetRouteResponse:
        """As this node knows them: of these topics, or of all."""
        facts = self._facts
        response = broker_pb2.GetRouteResponse(
            cluster=facts.cluster, max_message_bytes=self._max_message_bytes, coordinators=COORDINATORS
        )
        for node, address in self._addresses().items():
            response.nodes.add(node=node, address=address)
        response.configuration_index = self.configuration_index
        if (replica := self._replica) is None:
            return response
        raft = replica.driver.raft
        response.groups.add(group=replica.group, term=raft.term, leader=raft.leader)
        topics = replica.state.topics
        named = (topics.named(name) for name in names) if names else topics
        response.topics.extend(topic_route(topic) for topic in named if topic is not None)
        return response

    async def CreateTopic(  # noqa: N802
        self, request: broker_pb2.CreateTopicRequest, context: Context
    ) -> broker_pb2.CreateTopicResponse:
        try:
            replica = self._started()
            topic = await asyncio.shield(replica.create_topic(request.name, request.queues))
        except LedgerError as error:
            return broker_pb2.CreateTopicResponse(error=to_wire(error))
        return broker_pb2.CreateTopicResponse(topic=topic_route(topic))

    async def GetStatus(  # noqa: N802
        self, request: broker_pb2.GetStatusRequest, context: Context
    ) -> broker_pb2.GetStatusResponse:
        facts = self._facts
        response = broker_pb2.GetStatusResponse(
            node=facts.node,
            cluster=facts.cluster,
            address=self._own_address(),
            http_address=facts.http_address,
            data_directory=facts.data_directory,
            version=facts.version,
        )
        response.groups.append(self._status())
        return response

    def _status(self) -> broker_pb2.GroupStatus:
        replica = self._replica
        if replica is None:
            return broker_pb2.GroupStatus(role="joining" if self._facts.joins else "waiting")
        raft, log = replica.driver.raft, replica.log
        return broker_pb2.GroupStatus(
            group=replica.group,
            role=self._role(replica),
            term=raft.term,
            leader=raft.leader,
            last_index=log.last_index,
            commit=raft.commit,
            applied=replica.driver.applied,
            end_position=log.end,
            chain=log.chain,
            suspect=raft.is_suspect,
        )

    def _role(self, replica: Replica) -> str:
        """As the core has it, where this node is a voter."""
        raft, standing = replica.driver.raft, replica.membership.standing
        if standing is Standing.REMOVED:
            return "removed"
        if self._facts.node in raft.configuration.voters:
            return raft.role.value
        if self._facts.node in raft.configuration.learners:
            return "learner"
        return "joining" if self._facts.joins else "waiting"

    def _addresses(self) -> Mapping[int, str]:
        """Where clients reach the nodes."""
        return self._replica.membership.addresses() if self._replica else dict(sorted(self._facts.addresses.items()))

    def _own_address(self) -> str:
        own = self._replica.membership.address(self._facts.node) if self._replica else ""
        return own or self._facts.addresses.get(self._facts.node, "")

    async def _reading(self, *, linearizable: bool) -> Replica:
        replica = self._started()
        if linearizable:
            await replica.confirm_leadership()
        return replica

    def _started(self) -> Replica:
        if self._replica is None:
            raise ReplicaBehindError("this node has not started yet: it waits for the others' first start")
        return self._replica


def topic_route(topic: Topic) -> broker_pb2.TopicRoute:
    """As clients may use it: queues that are not open yet are not there for them."""
    return broker_pb2.TopicRoute(
        name=topic.name,
        topic_id=topic.topic_id,
        groups=topic.groups[: topic.opened],
        created_ms=topic.created_ms,
    )
