"""The Broker service: produce, fetch, offsets, keys, topics, routes and status.

Each method turns its request into a call of ledger/broker, and the result into protobuf. The service itself makes no
decision.
"""

from __future__ import annotations

import asyncio
from typing import Any

from grpc import RpcMethodHandler, StatusCode, aio, stream_stream_rpc_method_handler, unary_unary_rpc_method_handler

from ledger import produce_wire
from ledger.batch import place_of
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.broker import Broker
from ledger.broker.fetch.fetch import MAX_FETCH_QUEUES, fetch
from ledger.broker.fetch.fetch_result import FetchResult, QueueFetch
from ledger.broker.fetch.offsets import OffsetsQuery, list_offsets
from ledger.broker.fetch.query import KeyQuery, query_messages
from ledger.broker.fetch.tag_filter import MAX_FETCH_TAGS
from ledger.broker.meter import Meter
from ledger.broker.produce.proposals import Committed
from ledger.broker.rpc.fetch_wire import serialize, serialize_refusal
from ledger.broker.rpc.produce_stream import MAX_STREAMS, Batches, ProduceLoad, serve_produce
from ledger.broker.rpc.refusals import Context, RefusingService, answers, storage_checked
from ledger.broker.rpc.routes_wire import KnownRoutes, put_nodes, put_topics, shard_status, topic_route
from ledger.broker.rpc.throttling import MeteredBatches, Quotas, calling_client, client_of
from ledger.broker.rpc.topic_rights import TopicRights
from ledger.broker.rpc.waiting_wire import put_waiting, waiting_query
from ledger.broker.slow.slow_requests import SlowRequests
from ledger.broker.timed.cancelling import NamedMessage, cancel
from ledger.broker.timed.listing import list_waiting
from ledger.errors import InvalidArgumentError, LedgerError, ThrottledError
from ledger.slow_request import UNKNOWN_CLIENT
from ledger.v1 import broker_pb2, broker_pb2_grpc

# Begins the error of a read that failed on this node's disk. Another node may be able to read the data.
UNREADABLE = "this node cannot read the data"


def add_broker(service: BrokerService, server: aio.Server) -> None:
    """Add the service to a server. Our own code, and not generated code, parses produce requests and writes fetch
    responses."""
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
    """The gRPC service of one node for clients that send, fetch and ask for routes. Until shard 0 has started on
    this node, requests are refused."""

    def __init__(
        self,
        broker: Broker,
        meter: Meter,
        quotas: Quotas | None = None,
        authorizer: Authorizer | None = None,
        slow: SlowRequests | None = None,
    ) -> None:
        """`quotas` are the quotas of each client; None means no quotas. `authorizer` decides what callers may do; None
        means that every caller may do everything. `slow` records slow requests; None: they are not measured."""
        self._broker = broker
        self._meter = meter
        self._quotas = quotas or Quotas()
        self._rights = TopicRights(broker.replicas, authorizer)
        # Produce streams that are open.
        self._streams = 0
        self._slow = slow
        self._known_routes = KnownRoutes(broker.view)
        self.produce_load = ProduceLoad(slow=slow)

    @property
    def configuration_index(self) -> int:
        """The index of the entry with shard 0's newest configuration."""
        return self._broker.view.configuration_index

    # -- produce

    async def Produce(self, request_iterator: Any, context: Context) -> None:  # noqa: N802 (gRPC names)
        if self._streams >= MAX_STREAMS:
            reason = f"this node has {self._streams} produce streams, which is the limit: try again shortly"
            await context.abort(StatusCode.RESOURCE_EXHAUSTED, reason)
        self._streams += 1
        try:
            client = client_of(context) if self._quotas.produce.is_set else ""
            known = UNKNOWN_CLIENT if self._slow is None else calling_client(context)
            await serve_produce(self.batches_of(client), context, self.produce_load, known)
        finally:
            self._streams -= 1

    def batches_of(self, client: str) -> Batches:
        """Return what takes the batches of a client: with the client's quota, and the rights of the present caller."""
        quota = self._quotas.produce
        batches: Batches = MeteredBatches(self, quota, client, self._meter) if quota.is_set else self
        return self._rights.checked_batches(batches)

    def produce(self, batch: bytes) -> asyncio.Future[Committed]:
        """Pass a batch to this node's replica of the shard that contains the batch's queue."""
        return self._broker.replicas.of_queue(*place_of(batch)).produce(batch)

    # -- fetch

    async def Fetch(self, request: broker_pb2.FetchRequest, context: Context) -> bytes:  # noqa: N802
        """Return the response as bytes. gRPC keeps a response until the client has received it, so the response
        must not contain views of the log."""
        quota = self._quotas.fetch
        client = client_of(context) if quota.is_set else ""
        began_ms = 0.0 if self._slow is None else self._slow.now_ms()
        try:
            quota.admit(client, now_s())
            with storage_checked(UNREADABLE):
                result = await self._fetch(request)
        except LedgerError as error:
            if isinstance(error, ThrottledError):
                self._meter.throttled("consumer")
            return serialize_refusal(request, error)
        self._look_for_slow_fetch(began_ms, request, result, context)
        messages, size = self._broker.queues.count(result, self._meter)
        quota.charge(client, messages, size, now_s())
        # grpc's stubs want an instance of a class that grpc does not have.
        self._broker.queues.response_budget.leaves(size, context)  # type: ignore[arg-type]
        return serialize(result, self.configuration_index)

    def _look_for_slow_fetch(
        self, began_ms: float, request: broker_pb2.FetchRequest, result: FetchResult, context: Context
    ) -> None:
        """Record a fetch that was slow. Its wait for new messages does not count."""
        slow = self._slow
        if slow is None or slow.now_ms() - began_ms - result.waited_s * 1000 < slow.threshold_ms:
            return
        queues = [(each.topic_id, each.queue) for each in request.queues[:MAX_FETCH_QUEUES]]
        error = next((each.error.code for each in result.queues if each.error is not None), "")
        slow.fetched(began_ms, result.waited_s * 1000, result.queued_s * 1000, queues, calling_client(context), error)

    async def _fetch(self, request: broker_pb2.FetchRequest) -> FetchResult:
        if (tags := max((len(each.tag_hashes) for each in request.queues), default=0)) > MAX_FETCH_TAGS:
            raise InvalidArgumentError(f"A fetch can want at most {MAX_FETCH_TAGS} tags of a queue, not {tags}.")
        wanted = [
            QueueFetch(each.topic_id, each.queue, each.offset, tuple(each.tag_hashes), request.accepts_cut_batches)
            for each in request.queues[:MAX_FETCH_QUEUES]
        ]
        queues = self._broker.queues
        allowed, refused = self._rights.allowed(wanted)
        if refused:  # without a wait, so that the client learns of the refusals
            result = await fetch(queues, allowed, queues.turns, max_bytes=request.max_bytes, max_wait_ms=0)
            self._rights.withhold(result, allowed)
            result.queues += refused
            return result
        result = await fetch(queues, wanted, queues.turns, max_bytes=request.max_bytes, max_wait_ms=request.max_wait_ms)
        self._rights.withhold(result, wanted)
        return result

    # -- reads

    @answers(broker_pb2.ListOffsetsResponse)
    async def ListOffsets(  # noqa: N802
        self, request: broker_pb2.ListOffsetsRequest, response: broker_pb2.ListOffsetsResponse
    ) -> None:
        time_ms = request.time_ms if request.HasField("time_ms") else None
        query = OffsetsQuery(
            request.topic_id, tuple(dict.fromkeys(request.queues)), time_ms, request.linearizable, request.sizes
        )
        with storage_checked(UNREADABLE):
            for each in await list_offsets(self._broker.replicas, query):
                response.queues.add(
                    queue=each.queue,
                    first_offset=each.first_offset,
                    end_offset=each.end_offset,
                    time_offset=each.time_offset,
                    about_bytes=each.about_bytes,
                )

    @answers(broker_pb2.QueryMessagesResponse)
    async def QueryMessages(  # noqa: N802
        self, request: broker_pb2.QueryMessagesRequest, response: broker_pb2.QueryMessagesResponse
    ) -> None:
        query = KeyQuery(
            request.topic_id,
            request.key,
            begin_ms=request.begin_ms if request.HasField("begin_ms") else None,
            end_ms=request.end_ms if request.HasField("end_ms") else None,
            max_messages=request.max_messages,
            before_position=request.before_position,
        )
        with storage_checked(UNREADABLE):
            replica = self._broker.replicas.require(request.shard)
            result = await query_messages(await replica.up_to_date(linearizable=request.linearizable), query)
        for each in result.batches:
            found = response.batches.add(queue=each.queue).batch
            found.base_offset, found.append_time_ms = each.base_offset, each.append_time_ms
            found.term, found.body = each.term, each.body
        response.next_before_position = result.next_before_position

    @answers(broker_pb2.GetRouteResponse)
    async def GetRoute(  # noqa: N802
        self, request: broker_pb2.GetRouteRequest, response: broker_pb2.GetRouteResponse
    ) -> None:
        try:
            await self._broker.replicas.topics.up_to_date(linearizable=request.linearizable)
        finally:  # a refusal has the nodes too, so that the client can ask another node
            put_nodes(self._broker.view.nodes(), response)
        put_topics(self._rights.visible(self._broker.view.topics(request.topics)), response)

    def routes(self) -> broker_pb2.GetRouteResponse:
        """Return the routes of all topics, as this node knows them. The result is the same object until the routes
        change, and callers must not change it."""
        return self._known_routes.response()

    async def GetStatus(  # noqa: N802
        self, request: broker_pb2.GetStatusRequest, context: Context
    ) -> broker_pb2.GetStatusResponse:
        view = self._broker.view
        return broker_pb2.GetStatusResponse(
            node=view.facts.node,
            cluster=view.facts.cluster,
            address=view.address,
            http_address=view.facts.http_address,
            data_directory=view.facts.data_directory,
            version=view.facts.version,
            shards=map(shard_status, view.status()),
        )

    # -- topics

    @answers(broker_pb2.CreateTopicResponse)
    async def CreateTopic(  # noqa: N802
        self, request: broker_pb2.CreateTopicRequest, response: broker_pb2.CreateTopicResponse
    ) -> None:
        topic = await self._broker.topics.create(request.name, request.queues, request.type, request.replicas)
        response.topic.CopyFrom(topic_route(topic))

    @answers(broker_pb2.AlterTopicResponse)
    async def AlterTopic(  # noqa: N802
        self, request: broker_pb2.AlterTopicRequest, response: broker_pb2.AlterTopicResponse
    ) -> None:
        topic_type = request.type if request.HasField("type") else None
        topic = await self._broker.topics.alter(request.name, request.queues or None, topic_type)
        response.topic.CopyFrom(topic_route(topic))

    @answers(broker_pb2.DeleteTopicResponse)
    async def DeleteTopic(  # noqa: N802
        self, request: broker_pb2.DeleteTopicRequest, response: broker_pb2.DeleteTopicResponse
    ) -> None:
        await self._broker.topics.delete(request.topic_id)

    @answers(broker_pb2.PrepareTimedResponse)
    async def PrepareTimed(  # noqa: N802
        self, request: broker_pb2.PrepareTimedRequest, response: broker_pb2.PrepareTimedResponse
    ) -> None:
        response.topic.CopyFrom(topic_route(await self._broker.timed_topic.prepare()))

    @answers(broker_pb2.CancelTimedResponse)
    async def CancelTimed(  # noqa: N802
        self, request: broker_pb2.CancelTimedRequest, response: broker_pb2.CancelTimedResponse
    ) -> None:
        messages = [NamedMessage(each.topic_id, each.identity, each.delivery_ms) for each in request.messages]
        with storage_checked(UNREADABLE):
            response.cancelled.extend(await cancel(self._broker.replicas.require(request.shard), messages))

    @answers(broker_pb2.ListTimedResponse)
    async def ListTimed(  # noqa: N802
        self, request: broker_pb2.ListTimedRequest, response: broker_pb2.ListTimedResponse
    ) -> None:
        replica = self._broker.replicas.require(request.shard)
        with storage_checked(UNREADABLE):
            found = await list_waiting(replica, waiting_query(request), self._rights.may_read)
            put_waiting(found, response)
            if self._rights.may_see_cluster:
                response.waiting, response.waiting_bytes = replica.timed.waiting(replica.state)


def now_s() -> float:
    """Return the time of the event loop's clock, in seconds."""
    return asyncio.get_running_loop().time()
