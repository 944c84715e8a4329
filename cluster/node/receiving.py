"""Limits how many requests a gRPC server receives at the same time, so that requests that are not complete have a bound
in memory.

gRPC makes room for a whole request as soon as the server asks for it, and keeps at most `LOOK_AHEAD_BYTES` of a request
before (raft/transport/streams.py). So the server asks for few requests at the same time:

    call ─> a turn of its connection ─> of its host ─> of the server ─> gRPC receives the request ─> the method runs

Most requests are there when the server asks, and their turns are short. A caller that does not send the rest of its
request loses its turn after `RECEIVE_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc import aio

from cluster.node.places import Places, host_of

Context = aio.ServicerContext[Any, Any]

# Requests that are received at the same time: by the server, from one host, and on one connection.
MOST = 16
MOST_OF_A_HOST = 8
MOST_OF_A_CONNECTION = 4
# Calls that wait for their turns, or have one.
MOST_CALLS = 2_048
MOST_CALLS_OF_A_HOST = 1_024
RECEIVE_S = 10.0


@dataclass(slots=True)
class _Turns:
    """The turns of one host or connection. `users` counts the calls that wait for a turn or have one."""

    free: asyncio.Semaphore
    users: int = 0


@dataclass(slots=True)
class _Group:
    """The turns of each host, or of each connection, that has a call now."""

    most: int
    of: dict[str, _Turns] = field(default_factory=dict)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        turns = self.of.get(key)
        if turns is None:
            turns = self.of[key] = _Turns(asyncio.Semaphore(self.most))
        turns.users += 1
        try:
            async with turns.free:
                yield
        finally:
            turns.users -= 1
            if not turns.users:
                del self.of[key]


class Receiving:
    """The turns of one server, in the order in which the calls arrive."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MOST)
        self._hosts = _Group(MOST_OF_A_HOST)
        self._connections = _Group(MOST_OF_A_CONNECTION)
        self._calls = Places(MOST_CALLS, MOST_CALLS_OF_A_HOST)

    async def read(self, context: Any) -> Any:
        """Return the next request of the call, or aio.EOF. End the call if too many calls wait, or if the caller does
        not send the whole request in time."""
        peer = context.peer()
        host = host_of_peer(peer)
        if self._calls.take(host):
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, "the node receives too many requests at the moment: try again shortly"
            )
        try:
            async with self._connections.turn(peer), self._hosts.turn(host), self._free:
                return await self._receive(context)
        finally:
            self._calls.give_back(host)

    async def _receive(self, context: Any) -> Any:
        try:
            async with asyncio.timeout(RECEIVE_S):
                return await context.read()
        except TimeoutError:
            await context.abort(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"the request was not complete within {RECEIVE_S:.0f} s: send it again",
            )


def host_of_peer(peer: str) -> str:
    """Return the host of a peer, which gRPC writes as "ipv4:127.0.0.1:40000" or "ipv6:%5B::1%5D:40000"."""
    return host_of(address_of_peer(peer)[0])


def address_of_peer(peer: str) -> tuple[str, str]:
    """Return the IP address and the port of a peer."""
    host, _, port = peer.partition(":")[2].rpartition(":")
    return host.removeprefix("%5B").removesuffix("%5D").strip("[]"), port
