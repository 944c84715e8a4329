"""The gRPC services of a name server.

A node registers over a stream, which stays open while the node runs. A client asks a name server for routes with the
RPC `GetRoute`, which nodes have too.
"""

from __future__ import annotations

import logging
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

    def __init__(self, registrations: Registrations) -> None:
        self._registrations = registrations

    async def Register(self, request_iterator: Any, context: Context) -> None:  # noqa: N802 (gRPC names)
        node, stream = 0, object()
        try:
            while (said := await context.read()) is not aio.EOF:
                refusal = self._registrations.register(said.node, said.routes, stream)
                if refusal:
                    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, refusal)
                if not node:
                    log.info("node %d of cluster %r registered", said.node, said.routes.cluster)
                node = said.node
                await context.write(nameserver_pb2.RegistrationAnswer())
        finally:
            if node:
                log.info("the registration stream of node %d ended", node)
                self._registrations.forget(node, stream)


class RouteService(broker_pb2_grpc.BrokerServicer):
    """The gRPC service with which clients get routes. `RouteService` has the same RPC `GetRoute` as a broker, and
    no other RPC of a broker."""

    def __init__(self, registrations: Registrations) -> None:
        self._registrations = registrations

    async def GetRoute(  # noqa: N802
        self, request: broker_pb2.GetRouteRequest, context: Context
    ) -> broker_pb2.GetRouteResponse:
        response = self._registrations.routes(request.topics)
        if not response.nodes:
            error = UnavailableError(
                "no node has registered with this name server yet: start the nodes, or try again shortly"
            )
            response.error.CopyFrom(to_wire(error))
        return response
