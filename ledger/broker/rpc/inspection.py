"""The Inspection service: what people who look at a cluster ask of each single node.

Each node answers for itself, from its memory and the entries in its log, and also without a leader.
"""

from __future__ import annotations

from ledger.broker.rpc.refusals import RefusingService, answers
from ledger.broker.rpc.slow_wire import put_slow_requests
from ledger.broker.slow.slow_requests import SlowRequests
from ledger.v1 import inspection_pb2_grpc, slow_requests_pb2


class InspectionService(RefusingService, inspection_pb2_grpc.InspectionServicer):
    def __init__(self, slow: SlowRequests) -> None:
        """`slow` are the slow requests of this node."""
        self._slow = slow

    @answers(slow_requests_pb2.GetSlowRequestsResponse)
    async def GetSlowRequests(  # noqa: N802 (gRPC names)
        self,
        request: slow_requests_pb2.GetSlowRequestsRequest,
        response: slow_requests_pb2.GetSlowRequestsResponse,
    ) -> None:
        put_slow_requests(self._slow, request.threshold_ms, response)
