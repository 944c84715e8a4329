"""Asks nodes for the slow requests that they keep."""

from __future__ import annotations

import asyncio

import grpc.aio

from ledger.client.connection.channels import failure
from ledger.client.connection.cluster_client import ClusterClient
from ledger.errors import LedgerError, PermissionDeniedError, from_wire
from ledger.slow_request import CallingClient, FollowerPart, NodeSlowRequests, RequestPart, SlowRequest
from ledger.v1 import slow_requests_pb2

_SECONDS = 5.0


async def slow_requests(client: ClusterClient, threshold_ms: float, node: int | None) -> list[NodeSlowRequests]:
    """Return the slow requests of all nodes, or of `node`. Raises InvalidArgumentError if there is no such node, and
    PermissionDeniedError."""
    asked = dict(sorted(client.routes.table.nodes.items())) if node is None else {node: client.node_address(node)}
    return await asyncio.gather(*(_ask(client, each, address, threshold_ms) for each, address in asked.items()))


async def _ask(client: ClusterClient, node: int, address: str, threshold_ms: float) -> NodeSlowRequests:
    request = slow_requests_pb2.GetSlowRequestsRequest(threshold_ms=threshold_ms)
    try:
        response = await client.connections.stub(address).GetSlowRequests(request, timeout=_SECONDS)
        if response.HasField("error"):
            raise from_wire(response.error)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return NodeSlowRequests(node, "the node runs an older version of ledgermq: upgrade it")
        failed = failure(address, error)
        if isinstance(failed, PermissionDeniedError):
            raise failed from error
        return NodeSlowRequests(node, failed.message)
    except LedgerError as error:
        return NodeSlowRequests(node, error.message)
    return NodeSlowRequests(node, "", response.recorded_from_ms, tuple(map(_read, response.requests)))


def calling_client(wire: slow_requests_pb2.CallingClient) -> CallingClient:
    return CallingClient(wire.name, wire.peer, wire.user)


def _read(wire: slow_requests_pb2.SlowRequest) -> SlowRequest:
    return SlowRequest(
        wire.began_ms,
        wire.total_ms,
        wire.method,
        calling_client(wire.client),
        tuple(RequestPart(each.name, each.ms) for each in wire.parts),
        wire.error,
        wire.topic,
        wire.queue,
        wire.consumer_group,
        wire.count,
        wire.shard,
        wire.index,
        wire.flush_ms if wire.HasField("flush_ms") else None,
        tuple(FollowerPart(each.node, each.ms if each.HasField("ms") else None) for each in wire.followers),
    )
