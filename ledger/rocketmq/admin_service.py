"""The gRPC service Admin of RocketMQ's protocol. Methods that the cluster cannot answer truthfully are refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from grpc import StatusCode

from ledger.rocketmq.administration import describe_group_accumulation, describe_topic_status, reset_group_offset
from ledger.rocketmq.calls import Context
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.service import FrontService
from ledger.rocketmq.v2 import admin_pb2, admin_pb2_grpc
from ledger.rocketmq.v2 import definition_pb2 as pb


class AdminFront(FrontService, admin_pb2_grpc.AdminServicer):
    """The service Admin of one port."""

    async def DescribeTopicStatus(  # noqa: N802 (gRPC names)
        self, request: admin_pb2.DescribeTopicStatusRequest, context: Context
    ) -> admin_pb2.DescribeTopicStatusResponse:
        return await self._answer(
            context,
            admin_pb2.DescribeTopicStatusResponse,
            lambda _, clients: describe_topic_status(request, clients),
        )

    async def DescribeGroupAccumulation(  # noqa: N802
        self, request: admin_pb2.DescribeGroupAccumulationRequest, context: Context
    ) -> admin_pb2.DescribeGroupAccumulationResponse:
        return await self._answer(
            context,
            admin_pb2.DescribeGroupAccumulationResponse,
            lambda _, clients: describe_group_accumulation(request, clients),
        )

    async def ResetGroupOffset(  # noqa: N802
        self, request: admin_pb2.ResetGroupOffsetRequest, context: Context
    ) -> admin_pb2.ResetGroupOffsetResponse:
        return await self._answer(
            context, admin_pb2.ResetGroupOffsetResponse, lambda _, clients: reset_group_offset(request, clients)
        )

    # -- what this cluster does not answer

    async def ChangeLogLevel(self, request: Any, context: Context) -> Any:  # noqa: N802
        # The answer has no status that could say it.
        await context.abort(StatusCode.UNIMPLEMENTED, "a node's log level is its setting `log_level`")


# The methods that the cluster refuses: the type of the answer, and what tells or does the same.
_REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "ListSubscription": (admin_pb2.ListSubscriptionResponse, "ledgermq group describe"),
    "DescribeSubscription": (admin_pb2.DescribeSubscriptionResponse, "ledgermq group describe"),
    "DeleteSubscription": (admin_pb2.DeleteSubscriptionResponse, "ledgermq group delete"),
    "ListConsumerConnection": (admin_pb2.ListConsumerConnectionResponse, "ledgermq group describe"),
    "QueryMessage": (admin_pb2.ListMessageResponse, "ledgermq message query"),
    "PrintThreadStackTrace": (admin_pb2.PrintThreadStackTraceResponse, ""),
    "VerifyMessage": (admin_pb2.VerifyMessageResponse, ""),
    "AdminSendMessage": (admin_pb2.AdminSendMessageResponse, "ledgermq produce"),
    "GetConsumerRunningInfo": (admin_pb2.GetConsumerRunningInfoResponse, ""),
    "GetTopicRoute": (admin_pb2.GetTopicRouteResponse, "ledgermq topic describe"),
    "QueryTimeSpan": (admin_pb2.QueryTimeSpanResponse, "ledgermq group describe"),
    "GetProxyRuntimeStats": (admin_pb2.GetProxyRuntimeStatsResponse, "the metrics of a node"),
}


def _refusing(
    name: str, answer: Callable[..., Any], instead: str
) -> Callable[[AdminFront, Any, Context], Awaitable[Any]]:
    """Return the method of this name, which refuses its requests."""
    advice = f": use {instead}" if instead else ""

    async def refuse(*_: Any) -> Any:
        raise FrontRefusal(pb.NOT_IMPLEMENTED, f"this cluster does not serve the method{advice}")

    async def method(self: AdminFront, request: Any, context: Context) -> Any:
        return await self._answer(context, answer, refuse, name)

    return method


for _name, _refused in _REFUSED.items():
    setattr(AdminFront, _name, _refusing(_name, *_refused))
