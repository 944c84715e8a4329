"""The gRPC service MessagingService of RocketMQ's protocol. Each method finds out who calls, and gives the request to
the front.

A refused request is answered with a status in the answer, and gRPC's own status is OK. Only the telemetry stream ends
with a status of gRPC.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ledger.errors import LedgerError
from ledger.rocketmq.calls import Context, FrontCall, front_call
from ledger.rocketmq.front import RocketmqFront
from ledger.rocketmq.names import group_of
from ledger.rocketmq.native_clients import NativeClients
from ledger.rocketmq.refusals import FrontRefusal, ok, refusal_of
from ledger.rocketmq.routing import query_assignment, query_route
from ledger.rocketmq.v2 import definition_pb2 as pb
from ledger.rocketmq.v2 import service_pb2, service_pb2_grpc

log = logging.getLogger("ledgermq.rocketmq")

Answer = TypeVar("Answer")
Work = Callable[[FrontCall, NativeClients], Awaitable[Answer]]

_NO_TYPE = (
    "the heartbeat has no known client type: set `client_type` to PRODUCER, PUSH_CONSUMER, SIMPLE_CONSUMER or "
    "PULL_CONSUMER"
)


class FrontService:
    """What the services of one port share."""

    def __init__(self, front: RocketmqFront, *, is_tls: bool) -> None:
        """`is_tls` says whether the port has TLS."""
        self._front = front
        self._is_tls = is_tls

    async def _answer(
        self, context: Context, answer: Callable[..., Answer], work: Work[Answer], method: str = ""
    ) -> Answer:
        """Return what `work` returns, or an answer that says why the request is refused. `method` is needed if the type
        of the answer is not named after the method."""
        try:
            call, clients = await self._begin(context)
            return await work(call, clients)
        except (FrontRefusal, LedgerError) as error:
            return answer(status=self._refused(method or answer.__name__.removesuffix("Response"), error).status)

    def _refused(self, method: str, error: FrontRefusal | LedgerError) -> FrontRefusal:
        """Return what the client is told, and count it."""
        refusal = error if isinstance(error, FrontRefusal) else refusal_of(error)
        self._front.refusals[method, pb.Code.Name(refusal.code)] += 1
        return refusal

    async def _begin(self, context: Context) -> tuple[FrontCall, NativeClients]:
        """Return who calls, and the clients that act for it. Raises FrontRefusal, LedgerError."""
        call = front_call(context, self._front.prove, is_tls=self._is_tls)
        self._front.sessions.seen(call)
        return call, await self._front.pool.of(call.caller)


class MessagingFront(FrontService, service_pb2_grpc.MessagingServiceServicer):
    """The service MessagingService of one port."""

    # -- routes

    async def QueryRoute(  # noqa: N802 (gRPC names)
        self, request: service_pb2.QueryRouteRequest, context: Context
    ) -> service_pb2.QueryRouteResponse:
        return await self._answer(
            context, service_pb2.QueryRouteResponse, lambda call, clients: query_route(request, call, clients.cluster)
        )

    async def QueryAssignment(  # noqa: N802
        self, request: service_pb2.QueryAssignmentRequest, context: Context
    ) -> service_pb2.QueryAssignmentResponse:
        async def work(call: FrontCall, clients: NativeClients) -> service_pb2.QueryAssignmentResponse:
            mode = self._front.groups.known(group_of(request.group))
            return await query_assignment(request, call, clients.cluster, by_key=mode is not None and mode.by_key)

        return await self._answer(context, service_pb2.QueryAssignmentResponse, work)

    # -- clients

    async def Heartbeat(  # noqa: N802
        self, request: service_pb2.HeartbeatRequest, context: Context
    ) -> service_pb2.HeartbeatResponse:
        async def work(call: FrontCall, clients: NativeClients) -> service_pb2.HeartbeatResponse:
            if request.client_type not in _KNOWN_TYPES:
                raise FrontRefusal(pb.UNRECOGNIZED_CLIENT_TYPE, _NO_TYPE)
            return service_pb2.HeartbeatResponse(status=ok())

        return await self._answer(context, service_pb2.HeartbeatResponse, work)

    async def Telemetry(self, requests: Any, context: Context) -> None:  # noqa: N802
        try:
            call, clients = await self._begin(context)
        except (FrontRefusal, LedgerError) as error:
            refusal = self._refused("Telemetry", error)
            await context.abort(refusal.stream_status, refusal.message)
            raise AssertionError("abort always raises") from error
        await self._front.telemetry.serve(call, clients, context)

    async def NotifyClientTermination(  # noqa: N802
        self, request: service_pb2.NotifyClientTerminationRequest, context: Context
    ) -> service_pb2.NotifyClientTerminationResponse:
        async def work(call: FrontCall, clients: NativeClients) -> service_pb2.NotifyClientTerminationResponse:
            self._front.sessions.end(self._front.sessions.seen(call))
            return service_pb2.NotifyClientTerminationResponse(status=ok())

        return await self._answer(context, service_pb2.NotifyClientTerminationResponse, work)

    # -- producers

    async def SendMessage(  # noqa: N802
        self, request: service_pb2.SendMessageRequest, context: Context
    ) -> service_pb2.SendMessageResponse:
        return await self._answer(
            context,
            service_pb2.SendMessageResponse,
            lambda call, clients: self._front.sending.send(request, call, clients),
        )

    async def EndTransaction(  # noqa: N802
        self, request: service_pb2.EndTransactionRequest, context: Context
    ) -> service_pb2.EndTransactionResponse:
        return await self._answer(
            context,
            service_pb2.EndTransactionResponse,
            lambda _, clients: self._front.sending.end_transaction(request, clients),
        )

    async def RecallMessage(  # noqa: N802
        self, request: service_pb2.RecallMessageRequest, context: Context
    ) -> service_pb2.RecallMessageResponse:
        return await self._answer(
            context, service_pb2.RecallMessageResponse, lambda _, clients: self._front.sending.recall(request, clients)
        )

    # -- consumers

    async def ReceiveMessage(  # noqa: N802
        self, request: service_pb2.ReceiveMessageRequest, context: Context
    ) -> None:
        try:
            call, clients = await self._begin(context)
            session = self._front.sessions.seen(call)
            await self._front.receiving.receive(request, call, session, clients, context)
            return
        except (FrontRefusal, LedgerError) as error:
            refusal = self._refused("ReceiveMessage", error)
        await context.write(service_pb2.ReceiveMessageResponse(status=refusal.status))
        end = service_pb2.ReceiveMessageResponse()
        end.delivery_timestamp.GetCurrentTime()
        await context.write(end)

    async def AckMessage(  # noqa: N802
        self, request: service_pb2.AckMessageRequest, context: Context
    ) -> service_pb2.AckMessageResponse:
        return await self._answer(
            context,
            service_pb2.AckMessageResponse,
            lambda _, clients: self._front.acknowledging.acknowledge(request, clients),
        )

    async def ChangeInvisibleDuration(  # noqa: N802
        self, request: service_pb2.ChangeInvisibleDurationRequest, context: Context
    ) -> service_pb2.ChangeInvisibleDurationResponse:
        return await self._answer(
            context,
            service_pb2.ChangeInvisibleDurationResponse,
            lambda _, clients: self._front.acknowledging.change_invisible_duration(request, clients),
        )

    async def ForwardMessageToDeadLetterQueue(  # noqa: N802
        self, request: service_pb2.ForwardMessageToDeadLetterQueueRequest, context: Context
    ) -> service_pb2.ForwardMessageToDeadLetterQueueResponse:
        return await self._answer(
            context,
            service_pb2.ForwardMessageToDeadLetterQueueResponse,
            lambda _, clients: self._front.acknowledging.forward_to_dead_letters(request, clients),
        )

    # -- consumers that keep offsets

    async def PullMessage(  # noqa: N802
        self, request: service_pb2.PullMessageRequest, context: Context
    ) -> None:
        try:
            call, clients = await self._begin(context)
            await self._front.pulling.pull(request, call, clients, context)
        except (FrontRefusal, LedgerError) as error:
            await context.write(service_pb2.PullMessageResponse(status=self._refused("PullMessage", error).status))

    async def QueryOffset(  # noqa: N802
        self, request: service_pb2.QueryOffsetRequest, context: Context
    ) -> service_pb2.QueryOffsetResponse:
        return await self._answer(
            context,
            service_pb2.QueryOffsetResponse,
            lambda _, clients: self._front.pulling.query_offset(request, clients),
        )

    async def GetOffset(  # noqa: N802
        self, request: service_pb2.GetOffsetRequest, context: Context
    ) -> service_pb2.GetOffsetResponse:
        return await self._answer(
            context, service_pb2.GetOffsetResponse, lambda _, clients: self._front.pulling.get_offset(request, clients)
        )

    async def UpdateOffset(  # noqa: N802
        self, request: service_pb2.UpdateOffsetRequest, context: Context
    ) -> service_pb2.UpdateOffsetResponse:
        return await self._answer(
            context,
            service_pb2.UpdateOffsetResponse,
            lambda _, clients: self._front.pulling.update_offset(request, clients),
        )

    # -- what this cluster does not have

    async def SyncLiteSubscription(  # noqa: N802
        self, request: service_pb2.SyncLiteSubscriptionRequest, context: Context
    ) -> service_pb2.SyncLiteSubscriptionResponse:
        async def work(call: FrontCall, clients: NativeClients) -> service_pb2.SyncLiteSubscriptionResponse:
            raise FrontRefusal(pb.UNSUPPORTED, "this cluster has no lite topics: use ordinary topics")

        return await self._answer(context, service_pb2.SyncLiteSubscriptionResponse, work)


_KNOWN_TYPES = frozenset({pb.PRODUCER, pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.PULL_CONSUMER})
