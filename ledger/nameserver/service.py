"""The gRPC services of a name server.

A node registers over a stream, which stays open while the node runs. A client asks a name server for routes with the
RPC `GetRoute`, which nodes have too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import grpc
from grpc import aio

from ledger.errors import UnavailableError, to_wire
from ledger.nameserver.registrations import Registrations
from ledger.v1 import broker_pb2, broker_pb2_grpc, nameserver_pb2, nameserver_pb2_grpc

log = logging.getLogger("ledgermq.nameserver")

Context = aio.ServicerContext[Any, Any]


class NameServerService(nameserver_pb2_grpc.NameServerServicer):
    """The gRPC service with which nodes report their routes."""

    def __init__(self, registrations: Registrations, proven_node: Callable[[Context], int] | None = None) -> None:
        """`proven_node(context)` returns the node that has proven itself for a call, or 0. None: every caller may
        register."""
        self._registrations = registrations
        self._proven_node = proven_node

    async def Register(self, request_iterator: Any, context: Context) -> None:  # noqa: N802 (gRPC names)
        node: int | None = None
        stream = object()
        proven = self._proven_node(context) if self._proven_node is not None else None
        if proven == 0:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "only nodes that prove themselves may register")
        try:
            while (said := await context.read()) is not aio.EOF:
                if proven is not None and said.node != proven:
                    reason = f"node {proven} speaks in the name of node {said.node}"
                    await context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)
                if node is not None and said.node != node:
                    reason = f"this stream reports the routes of node {node}: open another stream for node {said.node}"
                    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
                refusal = self._registrations.register(said.node, said.routes, stream)
                if refusal:
                    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, refusal)
                if node is None:
                    log.info("node %d of cluster %r registered", said.node, said.routes.cluster)
                node = said.node
                await context.write(nameserver_pb2.RegistrationAnswer())
        finally:
            if node is not None:
                log.info("the registration stream of node %d ended", node)
                self._registrations.forget(node, stream)


class RouteService(broker_pb2_grpc.BrokerServicer):
    """The gRPC service with which clients get routes. `RouteService` has the same RPC `GetRoute` as a broker, and
    no other RPC of a broker."""

    def __init__(self, registrations: Registrations, *, tells_topics: bool = True) -> None:
        """Without `tells_topics`, clients ask the nodes for topics, because only nodes know the rights of a client."""
        self._registrations = registrations
        self._tells_topics = tells_topics

    async def GetRoute(  # noqa: N802
        self, request: broker_pb2.GetRouteRequest, context: Context
    ) -> broker_pb2.GetRouteResponse:
        response = self._registrations.routes(request.topics)
        if not self._tells_topics:
            response.nodes_only, response.topics_index = True, 0
            response.ClearField("topics")
        if not response.nodes:
            error = UnavailableError(
                "no node has registered with this name server yet: start the nodes, or try again shortly"
            )
            response.error.CopyFrom(to_wire(error))
        return response
