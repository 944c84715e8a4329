"""The gRPC rim of a broker: each method checks its request, finds the replica, and puts the answer into protobuf.

It must not decide anything of its own: what a request means is in produce.py, fetch.py, topic_commands.py and
replica.py; which replica it is for, in replicas.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from grpc import RpcMethodHandler, StatusCode, aio, stream_stream_rpc_method_handler, unary_unary_rpc_method_handler

from ledger import produce_wire
from ledger.batch import place_of
from ledger.broker.broker_replica import BrokerReplica, Meter
from ledger.broker.consumer_groups.delays import Delays
from ledger.broker.fetch.fetch import fetch
from ledger.broker.fetch.fetch_waiters import FetchWaiters
from ledger.broker.fetch.offsets import list_offsets
from ledger.broker.fetch.query import query_messages
from ledger.broker.fetch.response_budget import ResponseBudget
from ledger.broker.members.membership import Standing
from ledger.broker.produce.proposals import Committed
from ledger.broker.replicas import Replicas
from ledger.broker.rpc.fetch_wire import FetchAnswer, GivenQueue, serialize
from ledger.broker.rpc.produce_stream import MAX_STREAMS, serve_produce
from ledger.broker.rpc.refusals import Context, RefusingService, answers, storage_checked
from ledger.broker.rpc.throttling import MeteredBatches, Quotas, client_of
from ledger.broker.topics.topic_commands import alter_topic, create_topic
from ledger.broker.topics.topic_deletion import TopicDeletion
from ledger.broker.topics.topic_opening import TopicOpening
from ledger.errors import (
    BusyError,
    LedgerError,
    ReplicaBehindError,
    ThrottledError,
    UnknownQueueError,
    UnknownTopicError,
    to_wire,
)
from ledger.state import Topic
from ledger.topics import TOPICS_SHARD, validate_topic_name
from ledger.v1 import broker_pb2, broker_pb2_grpc
from store import CommitLog, ConsumeQueue

COORDINATORS = 1
"""Consumer groups are coordinated in the shards 0 .. COORDINATORS - 1."""

UNREADABLE = "this node cannot read that"
"""Another node may be able to."""


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
    room: str = ""
    """The machine room that it is in."""
    shards: int = 1
    """How many there are to be at least: a topic that came before would not spread over them."""
    outside: Mapping[int, str] = field(default_factory=dict)
    """Where clients from outside of the nodes' network reach them, as far as this node was told."""


class Beginning(Protocol):
    """A shard of this node, before its replica is there."""

    @property
    def max_message_bytes(self) -> int: ...
    @property
    def is_closed(self) -> bool:
        """Whether its log is being repaired from the other nodes."""

    def not_ready(self) -> str:
        """What it waits for."""


@dataclass(frozen=True, slots=True)
class QueueReader:
    """One queue on this node, for fetches (`ledger.broker.fetch.fetch.Readable`)."""

    log: CommitLog
    units: ConsumeQueue
    end_offset: int
    is_at_the_end: bool
    due_in_s: float | None = None


def add_broker(service: BrokerService, server: aio.Server) -> None:
    """As the generated code does it, but for produce requests, which are read by hand, and answers to fetches, which
    are written by hand."""
    broker_pb2_grpc.add_BrokerServicer_to_server(service, server)
    by_hand: dict[str, RpcMethodHandler[Any, Any]] = {
        "Produce": stream_stream_rpc_method_handler(
            service.Produce,
            request_deserializer=produce_wire.parse,
            response_serializer=broker_pb2.ProduceResponse.SerializeToString,
        ),
        "Fetch": unary_unary_rpc_method_handler(service.Fetch, request_deserializer=broker_pb2.FetchRequest.FromString),
    }
    server.add_registered_method_handlers(produce_wire.SERVICE, by_hand)


class BrokerService(RefusingService, broker_pb2_grpc.BrokerServicer):
    """Serves clients of one node. Until shard 0 has started here, it can only say so."""

    def __init__(
        self,
        facts: NodeFacts,
        meter: Meter,
        *,
        beginnings: Mapping[int, Beginning],
        replicas: Replicas,
        fetch_waiters: FetchWaiters,
        opening: TopicOpening,
        deletion: TopicDeletion,
        delays: Delays,
        quotas: Quotas | None = None,
    ) -> None:
        """`beginnings`: the shards of this node, by number, as they come. `arrivals`: whom all these replicas wake.
        `quotas`: of each client; None: there are none."""
        self._facts = facts
        self._beginnings = beginnings
        self._delays = delays
        self._meter = meter
        self._replicas = replicas
        self._fetch_waiters = fetch_waiters
        self._opening = opening
        self._deletion = deletion
        self._quotas = quotas or Quotas()
        self._response_budget = ResponseBudget()
        self._streams = 0
        """Produce streams that are open."""

    @property
    def configuration_index(self) -> int:
        """Of shard 0: its members are the cluster's nodes."""
        return self._replicas.first.membership.index if self._replicas.first else 0

    # -- produce

    async def Produce(self, request_iterator: Any, context: Context) -> None:  # noqa: N802 (gRPC names)
        if self._streams >= MAX_STREAMS:
            told = f"this node has {self._streams} produce streams, as many as it may have: try again shortly"
            await context.abort(StatusCode.RESOURCE_EXHAUSTED, told)
        quota = self._quotas.produce
        batches = MeteredBatches(self, quota, client_of(context), self._meter) if quota.is_set else self
        self._streams += 1
        try:
            await serve_produce(batches, context)
        finally:
            self._streams -= 1

    def produce(self, batch: bytes) -> asyncio.Future[Committed]:
        return self._replicas.of_queue(*place_of(batch)).produce(batch)

    # -- fetch

    async def Fetch(self, request: broker_pb2.FetchRequest, context: Context) -> bytes:  # noqa: N802
        """The answer as bytes: gRPC keeps what it is given until the client has taken it all, and may not keep views of
        the log for so long."""
        quota = self._quotas.fetch
        client = client_of(context) if quota.is_set else ""
        try:
            quota.admit(client, now_s())
            with storage_checked(UNREADABLE):
                answer = await fetch(self, request)
        except LedgerError as error:
            if isinstance(error, ThrottledError):
                self._meter.throttled("consumer")
            why = to_wire(error)
            refused = [GivenQueue(each.topic_id, each.queue, each.offset, error=why) for each in request.queues]
            return serialize(FetchAnswer(refused))
        messages, size = self._count(answer)
        quota.charge(client, messages, size, now_s())
        self._response_budget.leaves(size, context)
        answer.configuration_index = self.configuration_index
        return serialize(answer)

    def readable(self, topic_id: int, queue: int) -> QueueReader:
        self._response_budget.check_room()
        replica = self._replicas.of_queue(topic_id, queue)
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
            # By another node's clock more may have been due, and given out.
            replica.knows_the_end and due is None,
            None if due is None else due.next_in_s,
        )

    def waiter(self, queues: Iterable[tuple[int, int]]) -> asyncio.Future[None]:
        return self._fetch_waiters.wait_for(queues)

    def _count(self, answer: FetchAnswer) -> tuple[int, int]:
        """Messages and bytes that are given."""
        all_messages = all_bytes = 0
        for given in answer.queues:
            if given.batches and (topic := self._replicas.topic(given.topic_id)) is not None:
                messages = given.next_offset - given.batches[0].base_offset
                size = sum(len(batch.body) for batch in given.batches)
                self._meter.fetched(topic.name, messages, size)
                all_messages, all_bytes = all_messages + messages, all_bytes + size
        return all_messages, all_bytes

    # -- questions

    @answers(broker_pb2.ListOffsetsResponse)
    async def ListOffsets(  # noqa: N802
        self, request: broker_pb2.ListOffsetsRequest, response: broker_pb2.ListOffsetsResponse
    ) -> None:
        with storage_checked(UNREADABLE):
            response.CopyFrom(await self._list_offsets(request))

    @answers(broker_pb2.QueryMessagesResponse)
    async def QueryMessages(  # noqa: N802
        self, request: broker_pb2.QueryMessagesRequest, response: broker_pb2.QueryMessagesResponse
    ) -> None:
        with storage_checked(UNREADABLE):
            replica = await reading(self._replicas.require(request.shard), linearizable=request.linearizable)
            response.CopyFrom(await query_messages(replica, request))

    @answers(broker_pb2.GetRouteResponse)
    async def GetRoute(  # noqa: N802
        self, request: broker_pb2.GetRouteRequest, response: broker_pb2.GetRouteResponse
    ) -> None:
        try:
            await reading(self._replicas.topics, linearizable=request.linearizable)
        finally:
            self._put_nodes(response)  # into a refusal too: a client asks another node then
        self._put_routes(response, request.topics)

    def routes(self, names: Collection[str] = ()) -> broker_pb2.GetRouteResponse:
        """As this node knows them: of these topics, or of all."""
        response = broker_pb2.GetRouteResponse()
        self._put_nodes(response)
        self._put_routes(response, names)
        return response

    def _put_nodes(self, response: broker_pb2.GetRouteResponse) -> None:
        facts = self._facts
        response.cluster = facts.cluster
        response.max_message_bytes = self._beginnings[TOPICS_SHARD].max_message_bytes
        response.coordinators = COORDINATORS
        for node, address in self._addresses().items():
            room = facts.room if node == facts.node else None
            outside = facts.outside.get(node, "")
            response.nodes.add(node=node, address=address, room=room, outside_address=outside)
        response.configuration_index = self.configuration_index

    def _put_routes(self, response: broker_pb2.GetRouteResponse, names: Collection[str]) -> None:
        """Leaders and topics; nothing before shard 0 has started here."""
        if (replica := self._replicas.first) is None:
            return
        response.shards.extend(self._shard_route(shard) for shard in replica.state.shards.numbers)
        topics = replica.state.topics
        response.topics_index = topics.changed_at
        named = (topics.named(name) for name in names) if names else topics
        response.topics.extend(topic_route(topic) for topic in named if topic is not None and topic.opened)

    def _shard_route(self, shard: int) -> broker_pb2.ShardRoute:
        replica = self._replicas.get(shard)
        if replica is None or replica.membership.is_removed:
            return broker_pb2.ShardRoute(shard=shard)
        raft = replica.driver.raft
        return broker_pb2.ShardRoute(shard=shard, term=raft.term, leader=raft.leader)

    @answers(broker_pb2.CreateTopicResponse)
    async def CreateTopic(  # noqa: N802
        self, request: broker_pb2.CreateTopicRequest, response: broker_pb2.CreateTopicResponse
    ) -> None:
        response.topic.CopyFrom(topic_route(await self._create_topic(request.name, request.queues)))

    async def _create_topic(self, name: str, queues: int) -> Topic:
        replica = self._replicas.topics
        if replica.knows_the_end and len(replica.state.shards.numbers) < self._facts.shards:
            raise BusyError(f"the {self._facts.shards} shards of the cluster are still being made: try again shortly")
        known = replica.state.topics.named(name)
        if known is not None and replica.knows_the_end and not known.opened:
            await self._opening.wait(known)  # begun before; perhaps this very client asks once more
        return await self._opening.wait(await asyncio.shield(create_topic(replica, name, queues)))

    @answers(broker_pb2.AlterTopicResponse)
    async def AlterTopic(  # noqa: N802
        self, request: broker_pb2.AlterTopicRequest, response: broker_pb2.AlterTopicResponse
    ) -> None:
        topic = await self._opening.wait(await alter_topic(self._replicas.topics, request.name, request.queues))
        response.topic.CopyFrom(topic_route(topic))

    @answers(broker_pb2.DeleteTopicResponse)
    async def DeleteTopic(  # noqa: N802
        self, request: broker_pb2.DeleteTopicRequest, response: broker_pb2.DeleteTopicResponse
    ) -> None:
        topic = self._replicas.topics.state.topics.get(request.topic_id)
        if topic is not None:
            validate_topic_name(topic.name)
        await self._deletion.delete(request.topic_id)

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
        for shard, beginning in sorted(self._beginnings.items()):
            if (replica := self._replicas.get(shard)) is not None:
                response.shards.append(self._status(replica))
            else:
                role = "damaged" if beginning.is_closed else self._outside
                response.shards.add(shard=shard, role=role)
        return response

    def _status(self, replica: BrokerReplica) -> broker_pb2.ShardStatus:
        raft, log = replica.driver.raft, replica.log
        return broker_pb2.ShardStatus(
            shard=replica.shard,
            role=self._role(replica),
            term=raft.term,
            leader=raft.leader,
            last_index=log.last_index,
            commit=raft.commit,
            applied=replica.driver.applied,
            end_position=log.end,
            chain=log.tail.chain,
            suspect=raft.is_suspect,
        )

    def _role(self, replica: BrokerReplica) -> str:
        """As the core has it, where this node is a voter."""
        raft, standing = replica.driver.raft, replica.membership.standing
        if standing is Standing.REMOVED:
            return "removed"
        if self._facts.node in raft.configuration.voters:
            return raft.role.value
        if self._facts.node in raft.configuration.learners:
            return "learner"
        return self._outside

    @property
    def _outside(self) -> str:
        return "joining" if self._facts.joins else "waiting"

    def _addresses(self) -> Mapping[int, str]:
        """Where clients reach the nodes."""
        first = self._replicas.first
        return first.membership.addresses() if first else dict(sorted(self._facts.addresses.items()))

    def _own_address(self) -> str:
        first = self._replicas.first
        own = first.membership.address(self._facts.node) if first else ""
        return own or self._facts.addresses.get(self._facts.node, "")

    async def _list_offsets(self, request: broker_pb2.ListOffsetsRequest) -> broker_pb2.ListOffsetsResponse:
        """Shard by shard, as the queues live."""
        topic = self._replicas.topic(request.topic_id)
        if topic is None or max(request.queues, default=0) >= topic.queues:
            replica = await reading(self._replicas.topics, linearizable=request.linearizable)
            replica.state.topics.require(request.topic_id, max(request.queues, default=0))
            topic = replica.state.topics.require(request.topic_id, 0)
        response = broker_pb2.ListOffsetsResponse()
        queues = request.queues or range(topic.queues)
        for shard in sorted({topic.shards[queue] for queue in queues}):
            replica = await reading(self._replicas.require(shard), linearizable=request.linearizable)
            here = [queue for queue in queues if topic.shards[queue] == shard]
            await list_offsets(replica, request, here, response)
        return response


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def reading(replica: BrokerReplica, *, linearizable: bool) -> BrokerReplica:
    """The same, once it has applied what was committed at the call."""
    if linearizable:
        await replica.confirm_leadership()
    return replica


def topic_route(topic: Topic) -> broker_pb2.TopicRoute:
    """As clients may use it: queues that are not open yet are not there for them."""
    return broker_pb2.TopicRoute(
        name=topic.name,
        topic_id=topic.topic_id,
        shards=topic.shards[: topic.opened],
        created_ms=topic.created_ms,
    )
