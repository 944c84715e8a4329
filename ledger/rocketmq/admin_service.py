"""The gRPC service Admin of RocketMQ's protocol. Methods that the cluster cannot answer truthfully are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grpc import StatusCode

from ledger.rocketmq.administration import describe_group_accumulation, describe_topic_status, reset_group_offset
from ledger.rocketmq.calls import Context
from ledger.rocketmq.refusals import FrontRefusal
from ledger.rocketmq.service import Answer, FrontService
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

    async def ListSubscription(self, request: Any, context: Context) -> Any:  # noqa: N802
        return await self._not_served(context, admin_pb2.ListSubscriptionResponse, "ledgermq group describe")

    async def DescribeSubscription(self, request: Any, context: Context) -> Any:  # noqa: N802
        return await self._not_served(context, admin_pb2.DescribeSubscriptionResponse, "ledgermq group describe")

    async def DeleteSubscription(self, request: Any, context: Context) -> Any:  # noqa: N802
        return await self._not_served(context, admin_pb2.DeleteSubscriptionResponse, "ledgermq group delete")

    async def ListConsumerConnection(self, request: Any, context: Context) -> Any:  # noqa: N802
        return await self._not_served(context, admin_pb2.ListConsumerConnectionResponse, "ledgermq group describe")

    async def QueryMessage(self, request: Any, context: Context) -> Any:  # noqa: N802
        return await self._not_served(
            context, admin_pb2.ListMessageResponse, "ledgermq message query", method="QueryMessage"
        )

    async def PrintThreadStackTrace(self, request: Any, context: Context) -> Any:  # noqa: N802
        return await self._not_served(context, admin_pb2.PrintThreadStackTraceResponse)

    async def VerifyMessage(self, request: Any, context: Context) -> Any:  # noqa: N802
        return await self._not_served(context, admin_pb2.VerifyMessageResponse)

    async def AdminSendMessage(self, request: Any, context: Context) -> Any:  # noqa: N802
        return await self._not_served(context, admin_pb2.AdminSendMessageResponse, "ledgermq produce")

    async def GetConsumerRunningInfo(self, request: Any, context: Context) -> Any:  # noqa: N802
        return await self._not_served(context, admin_pb2.GetConsumerRunningInfoResponse)

    async def GetTopicRoute(self, request: Any, context: Context) -> Any:  # noqa: N802
        return await self._not_served(context, admin_pb2.GetTopicRouteResponse, "ledgermq topic describe")

    async def QueryTimeSpan(self, request: Any, context: Context) -> Any:  # noqa: N802
        return await self._not_served(context, admin_pb2.QueryTimeSpanResponse, "ledgermq group describe")

    async def GetProxyRuntimeStats(self, request: Any, context: Context) -> Any:  # noqa: N802
        return await self._not_served(context, admin_pb2.GetProxyRuntimeStatsResponse, "the metrics of a node")

    async def _not_served(
        self, context: Context, answer: Callable[..., Answer], instead: str = "", method: str = ""
    ) -> Answer:
        """Refuse a request. `instead` tells or does the same. `method` is needed if the type of the answer is not named
        after the method."""
        advice = f": use {instead}" if instead else ""

        async def refuse(*_: object) -> Answer:
            raise FrontRefusal(pb.NOT_IMPLEMENTED, f"this cluster does not serve the method{advice}")

        return await self._answer(context, answer, refuse, method)
