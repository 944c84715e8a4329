"""Writes the slow requests of a node into a response."""

from __future__ import annotations

from ledger.broker.slow.slow_requests import SlowRequests
from ledger.slow_request import CallingClient, SlowRequest
from ledger.v1 import slow_requests_pb2


def put_slow_requests(
    slow: SlowRequests, threshold_ms: float, response: slow_requests_pb2.GetSlowRequestsResponse
) -> None:
    """Add the requests that took at least `threshold_ms`."""
    response.recorded_from_ms = slow.threshold_ms
    response.requests.extend(map(_on_the_wire, slow.kept(threshold_ms)))


def client_on_the_wire(client: CallingClient) -> slow_requests_pb2.CallingClient:
    return slow_requests_pb2.CallingClient(**client._asdict())


def _on_the_wire(slow: SlowRequest) -> slow_requests_pb2.SlowRequest:
    return slow_requests_pb2.SlowRequest(
        began_ms=slow.began_ms,
        total_ms=slow.total_ms,
        method=slow.method,
        client=client_on_the_wire(slow.client),
        parts=[slow_requests_pb2.RequestPart(name=each.name, ms=each.ms) for each in slow.parts],
        error=slow.error,
        topic=slow.topic,
        queue=slow.queue,
        consumer_group=slow.consumer_group,
        count=slow.count,
        shard=slow.shard,
        index=slow.index,
        flush_ms=slow.flush_ms,
        followers=[slow_requests_pb2.FollowerPart(node=each.node, ms=each.ms) for each in slow.followers],
    )
