"""A fake broker that loses answers, refuses requests or stops answering when a test requests it.

The broker runs in the test's process and serves real gRPC. The log of each queue is a list in memory. All nodes of one
`FakeCluster` share these logs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc.aio

from ledger.batch import Batch, BatchHeader
from ledger.errors import (
    LedgerError,
    NotLeaderError,
    OffsetBeyondEndError,
    SequenceGapError,
    TopicExistsError,
    UnknownTopicError,
    to_wire,
)
from ledger.timed import TIMED_TOPIC
from ledger.v1 import broker_pb2
from ledger.v1.broker_pb2_grpc import BrokerServicer, add_BrokerServicer_to_server
from ledgermq import AsyncProducer

MAX_MESSAGE_BYTES = 10_000


@dataclass
class Stored:
    base_offset: int
    count: int
    body: bytes


@dataclass
class FakeCluster:
    """The state that all fake nodes of a cluster share: leaders, topics, logs and planned faults."""

    leader: int = 1
    term: int = 1
    # The leaders of the shards 1, 2, ..., by shard number. `leader` leads shard 0.
    others: dict[int, int] = field(default_factory=dict)
    topics: dict[str, broker_pb2.TopicRoute] = field(default_factory=dict)
    queues: dict[tuple[int, int], list[Stored]] = field(default_factory=dict)
    addresses: dict[int, str] = field(default_factory=dict)
    # Faults for the next requests, one fault for each request. A LedgerError refuses the request. "lose" carries out
    # the request and then breaks the call before the response.
    troubles: list[LedgerError | str] = field(default_factory=list)
    requests: int = 0
    largest_request: int = 0  # in batches
    appends: int = 0
    # False: the nodes are of a version without delivery times.
    knows_timed: bool = True
    # Requests to create the topic of messages with delivery times.
    preparations: int = 0
    # (shard, target topic id, identity, delivery time) of messages with delivery times.
    cancelled: list[tuple[int, int, int, int]] = field(default_factory=list)
    # The number of messages in each request to cancel messages.
    cancel_requests: list[int] = field(default_factory=list)
    # The answer to requests to cancel messages; None: they succeed.
    cancel_error: LedgerError | None = None

    def leader_of(self, shard: int) -> int:
        return self.others.get(shard, self.leader)

    def shard_of(self, body: bytes) -> int:
        header = BatchHeader.parse(body)
        return next(route.shards[header.queue] for route in self.topics.values() if route.topic_id == header.topic_id)

    def create(self, name: str, queues: int, shards: Sequence[int] = ()) -> broker_pb2.TopicRoute:
        shards = shards or [0] * queues
        route = broker_pb2.TopicRoute(name=name, topic_id=len(self.topics) + 1, shards=shards, created_ms=1)
        self.topics[name] = route
        for queue in range(queues):
            self.queues[route.topic_id, queue] = []
        return route

    def end(self, topic_id: int, queue: int) -> int:
        stored = self.queues[topic_id, queue]
        return stored[-1].base_offset + stored[-1].count if stored else 0

    def append(self, body: bytes) -> broker_pb2.ProduceResult:
        header = BatchHeader.parse(body)
        queue = self.queues[header.topic_id, header.queue]
        expected = 0
        for stored in queue:
            known = BatchHeader.parse(stored.body)
            if (known.producer_id, known.epoch) == (header.producer_id, header.epoch):
                if known.first_sequence == header.first_sequence:
                    return broker_pb2.ProduceResult(base_offset=stored.base_offset, term=self.term, duplicate=True)
                expected = known.first_sequence + known.count
        if header.first_sequence != expected:
            return broker_pb2.ProduceResult(error=to_wire(SequenceGapError("gap")))
        self.appends += 1
        queue.append(Stored(self.end(header.topic_id, header.queue), header.count, body))
        return broker_pb2.ProduceResult(base_offset=queue[-1].base_offset, term=self.term, append_time_ms=5)

    def values(self, name: str, queue: int) -> list[bytes]:
        stored = self.queues[self.topics[name].topic_id, queue]
        return [value for each in stored for value in Batch(each.body).values()]


class FakeBroker(BrokerServicer):
    """One fake node.

    While `silent` is True, produce streams and creations of topics get no response. Each produce response is delayed by
    `late_s` seconds, and those to requests of more than 5,000 bytes by another `late_large_s` seconds. If `refusal` is
    set, this node refuses every batch with this error. `applied` has the topics that the node returns to requests that
    are not linearizable. The responses to these requests are delayed by `route_late_s` seconds.
    """

    def __init__(self, node: int, cluster: FakeCluster) -> None:
        self.node = node
        self.cluster = cluster
        self.silent = False
        self.late_s = 0.0
        self.late_large_s = 0.0
        self.route_late_s = 0.0
        self.refusal: LedgerError | None = None
        self.applied: list[broker_pb2.TopicRoute] = []
        self._server = grpc.aio.server()

    async def start(self) -> None:
        add_BrokerServicer_to_server(self, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.cluster.addresses[self.node] = f"127.0.0.1:{port}"
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    def not_leader(self, shard: int = 0) -> NotLeaderError | None:
        leader = self.cluster.leader_of(shard)
        if self.node == leader:
            return None
        return NotLeaderError("not here", leader=leader, leader_address=self.cluster.addresses[leader])

    async def Produce(  # noqa: N802 (gRPC names)
        self, request_iterator: AsyncIterator[broker_pb2.ProduceRequest], context: Any
    ) -> AsyncIterator[broker_pb2.ProduceResponse]:
        async for request in request_iterator:
            self.cluster.requests += 1
            self.cluster.largest_request = max(self.cluster.largest_request, len(request.batches))
            if self.silent:
                await asyncio.Event().wait()
            is_large = sum(map(len, request.batches)) > 5_000
            await asyncio.sleep(self.late_s + self.late_large_s * is_large)
            shard = self.cluster.shard_of(request.batches[0])
            trouble = (
                self.not_leader(shard)
                or self.refusal
                or (self.cluster.troubles.pop(0) if self.cluster.troubles else None)
            )
            if isinstance(trouble, LedgerError):
                results = [broker_pb2.ProduceResult(error=to_wire(trouble)) for _ in request.batches]
            else:
                results = [self.cluster.append(body) for body in request.batches]
            if trouble == "lose":
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")
            yield broker_pb2.ProduceResponse(results=results)

    async def Fetch(self, request: broker_pb2.FetchRequest, context: Any) -> broker_pb2.FetchResponse:  # noqa: N802
        response = broker_pb2.FetchResponse()
        for asked in request.queues:
            given = response.queues.add(topic_id=asked.topic_id, queue=asked.queue, next_offset=asked.offset)
            end = self.cluster.end(asked.topic_id, asked.queue)
            if asked.offset > end:
                given.error.CopyFrom(to_wire(OffsetBeyondEndError("beyond", first_offset=0, end_offset=end)))
            for stored in self.cluster.queues[asked.topic_id, asked.queue]:
                if stored.base_offset + stored.count > asked.offset:
                    given.batches.add(base_offset=stored.base_offset, term=self.cluster.term, body=stored.body)
                    given.next_offset = end
        if not any(given.batches or given.HasField("error") for given in response.queues):
            await asyncio.sleep(min(request.max_wait_ms, 20) / 1000)
        return response

    async def ListOffsets(  # noqa: N802
        self, request: broker_pb2.ListOffsetsRequest, context: Any
    ) -> broker_pb2.ListOffsetsResponse:
        response = broker_pb2.ListOffsetsResponse()
        if request.topic_id not in {topic.topic_id for topic in self.cluster.topics.values()}:
            response.error.CopyFrom(to_wire(UnknownTopicError(f"There is no topic {request.topic_id}.")))
            return response
        for queue in request.queues:
            response.queues.add(queue=queue, end_offset=self.cluster.end(request.topic_id, queue))
        return response

    async def GetRoute(  # noqa: N802
        self, request: broker_pb2.GetRouteRequest, context: Any
    ) -> broker_pb2.GetRouteResponse:
        cluster = self.cluster
        response = broker_pb2.GetRouteResponse(cluster="fake", max_message_bytes=MAX_MESSAGE_BYTES)
        for node, address in cluster.addresses.items():
            response.nodes.add(node=node, address=address)
        for shard in (0, *cluster.others):
            response.shards.add(shard=shard, term=cluster.term, leader=cluster.leader_of(shard))
        error = self.not_leader()
        if request.linearizable and error is not None:
            response.error.CopyFrom(to_wire(error))
        elif not request.linearizable:
            await asyncio.sleep(self.route_late_s)
            response.topics_index = len(self.applied)
            response.topics.extend(self.applied)
        else:
            response.topics_index = len(cluster.topics)
            wanted = request.topics or list(cluster.topics)
            response.topics.extend(cluster.topics[name] for name in wanted if name in cluster.topics)
        return response

    async def CreateTopic(  # noqa: N802
        self, request: broker_pb2.CreateTopicRequest, context: Any
    ) -> broker_pb2.CreateTopicResponse:
        if self.silent:
            await asyncio.Event().wait()
        trouble = self.not_leader() or (self.cluster.troubles.pop(0) if self.cluster.troubles else None)
        if request.name in self.cluster.topics:
            return broker_pb2.CreateTopicResponse(error=to_wire(TopicExistsError("it is there")))
        if not isinstance(trouble, LedgerError):
            route = self.cluster.create(request.name, request.queues)
            if trouble == "lose":
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")
            return broker_pb2.CreateTopicResponse(topic=route)
        return broker_pb2.CreateTopicResponse(error=to_wire(trouble))

    async def PrepareTimed(  # noqa: N802
        self, request: broker_pb2.PrepareTimedRequest, context: Any
    ) -> broker_pb2.PrepareTimedResponse:
        error, cluster = self.not_leader(), self.cluster
        if error is not None:
            return broker_pb2.PrepareTimedResponse(error=to_wire(error))
        if not cluster.knows_timed:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        cluster.preparations += 1
        shards = [0, *cluster.others]
        known = cluster.topics.get(TIMED_TOPIC)
        if known is None:
            known = cluster.create(TIMED_TOPIC, len(shards), shards)
        for shard in shards[len(known.shards) :]:
            cluster.queues[known.topic_id, len(known.shards)] = []
            known.shards.append(shard)
        return broker_pb2.PrepareTimedResponse(topic=known)

    async def CancelTimed(  # noqa: N802
        self, request: broker_pb2.CancelTimedRequest, context: Any
    ) -> broker_pb2.CancelTimedResponse:
        error = self.not_leader(request.shard) or self.cluster.cancel_error
        response = broker_pb2.CancelTimedResponse()
        if error is not None:
            return broker_pb2.CancelTimedResponse(error=to_wire(error))
        self.cluster.cancel_requests.append(len(request.messages))
        for each in request.messages:
            key = (request.shard, each.topic_id, each.identity, each.delivery_ms)
            response.cancelled.append(key not in self.cluster.cancelled)
            self.cluster.cancelled.append(key)
        return response

    async def GetStatus(  # noqa: N802
        self, request: broker_pb2.GetStatusRequest, context: Any
    ) -> broker_pb2.GetStatusResponse:
        response = broker_pb2.GetStatusResponse(node=self.node, cluster="fake", version="1")
        response.shards.add(role="leader" if self.node == self.cluster.leader else "follower", term=self.cluster.term)
        return response


@contextlib.asynccontextmanager
async def lone_broker() -> AsyncIterator[FakeBroker]:
    """Run a cluster of one node with the topic "t", which has one queue."""
    cluster = FakeCluster()
    cluster.create("t", 1)
    broker = FakeBroker(1, cluster)
    await broker.start()
    yield broker
    await broker.stop()


async def stopped(*producers: AsyncProducer) -> None:
    """Stop these producers at the same time."""
    await asyncio.gather(*(producer.stop() for producer in producers))


async def started(broker: FakeBroker, **settings: Any) -> AsyncProducer:
    """Return a started producer of the broker's cluster."""
    producer = AsyncProducer(broker.cluster.addresses[1], **settings)
    await producer.start()
    return producer
