"""Reports this node's routes to the name servers: on every change, and at least every 30 s.

Each name server has its own stream. If a name server cannot be reached, the node retries without a limit. The streams
to the other name servers go on. A stream looks at the routes several times a second. The routes are the same object
until they change, so a look costs little.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from grpc import aio

from ledger.cancellation import heed_cancellation
from ledger.v1 import broker_pb2, nameserver_pb2, nameserver_pb2_grpc
from raft.transport.dialing import Dialer
from raft.transport.node_proof import NAME_SERVER, UnprovenError

log = logging.getLogger("ledgermq.node.registration")

# The longest time between two reports to one name server.
RENEW_S = 30.0
# How often the node checks whether its routes have changed.
LOOK_S = 0.2
RETRY_S = 1.0
# How long a name server may take to answer a report.
ANSWER_S = 5.0

# Returns the routes of the node: the same object until they change.
Routes = Callable[[], broker_pb2.GetRouteResponse]


class Registration:
    def __init__(self, node: int, name_servers: Sequence[str], routes: Routes, dialer: Dialer) -> None:
        self._dialer = dialer
        self._node = node
        self._name_servers = name_servers
        self._routes = routes

    async def run(self) -> None:
        """Report this node's routes to all name servers until the task is cancelled."""
        await asyncio.gather(*map(self._keep, self._name_servers))

    async def _keep(self, address: str) -> None:
        told = ""
        async with self._dialer.channel(NAME_SERVER, address) as channel:
            stub = nameserver_pb2_grpc.NameServerStub(channel)
            while True:
                try:
                    proof = await self._dialer.prove(channel, NAME_SERVER)
                    await self._register(stub.Register(metadata=proof), address)
                except (aio.AioRpcError, TimeoutError, asyncio.InvalidStateError, UnprovenError) as error:
                    reason = reason_of(error)
                    if reason != told:  # the same reason is logged once, however many attempts fail
                        log.warning("cannot register with name server %s, will try again: %s", address, reason)
                        told = reason
                heed_cancellation()
                await asyncio.sleep(RETRY_S)

    async def _register(self, stream: aio.StreamStreamCall, address: str) -> None:  # type: ignore[type-arg]
        loop = asyncio.get_running_loop()
        said: broker_pb2.GetRouteResponse | None = None
        said_at = 0.0
        while not stream.done():
            routes = self._routes()
            if routes is not said or loop.time() >= said_at + RENEW_S:
                async with asyncio.timeout(ANSWER_S):
                    await stream.write(nameserver_pb2.Registration(node=self._node, routes=routes))
                    if await stream.read() is aio.EOF:
                        return
                if said is None:
                    log.info("registered with name server %s", address)
                said, said_at = routes, loop.time()
            await asyncio.sleep(LOOK_S)


def reason_of(error: Exception) -> str:
    if isinstance(error, UnprovenError):
        return str(error)
    return error.details() or "" if isinstance(error, aio.AioRpcError) else "it does not answer"
