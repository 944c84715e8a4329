"""Limits how many requests a gRPC server receives at the same time, so that requests that are not complete have a bound
in memory.

gRPC makes room for a whole request as soon as the server asks for it, and keeps at most `LOOK_AHEAD_BYTES` of a request
before (raft/transport/streams.py). So the server asks for few requests at the same time:

    call ─> a turn of its connection ─> of its host ─> of the server ─> gRPC receives the request ─> the method runs

Most requests are there when the server asks, and their turns are short. A caller that does not send the rest of its
request loses its turn after `RECEIVE_S`, or after `PATIENCE_S` if another call waits for it.

The requests of streams have no turns, because a stream waits for its next request most of the time. Their incomplete
requests have a limit in bytes (security/connection_limits.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
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
PATIENCE_S = 2.0


class _Group:
    """The turns of each host, or of each connection, that has a call now."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._free: dict[str, asyncio.Semaphore] = {}
        self._users = Counter[str]()

    @contextmanager
    def used(self, key: str) -> Iterator[asyncio.Semaphore]:
        """Return the free turns of this host or connection, for the `with` block."""
        free = self._free.get(key)
        if free is None:
            free = self._free[key] = asyncio.Semaphore(self._most)
        self._users[key] += 1
        try:
            yield free
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._free[key]


@dataclass(frozen=True, slots=True)
class _Turn:
    host: str
    began_s: float
    deadline: asyncio.Timeout


class Receiving:
    """The turns of one server, in the order in which the calls arrive."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MOST)
        self._hosts = _Group(MOST_OF_A_HOST)
        self._connections = _Group(MOST_OF_A_CONNECTION)
        self._calls = Places(MOST_CALLS, MOST_CALLS_OF_A_HOST)
        self._turns: dict[object, _Turn] = {}
        # The calls that wait for a turn of a host. "" stands for all hosts.
        self._waiting = Counter[str]()

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
            with self._connections.used(peer) as of_connection, self._hosts.used(host) as of_host:
                async with self._turn(host, of_connection), self._turn(host, of_host), self._turn("", self._free):
                    return await self._receive(context, host)
        finally:
            self._calls.give_back(host)

    @asynccontextmanager
    async def _turn(self, host: str, free: asyncio.Semaphore) -> AsyncIterator[None]:
        """Hold a turn. While a call waits for it, the running turns that delay it get less time."""
        if free.locked():
            self._hurry(host)
        self._waiting[host] += 1
        try:
            await free.acquire()
        finally:
            self._waiting[host] -= 1
            if not self._waiting[host]:
                del self._waiting[host]
        try:
            yield
        finally:
            free.release()

    def _hurry(self, host: str) -> None:
        for turn in self._turns.values():
            if host in ("", turn.host) and not turn.deadline.expired():
                turn.deadline.reschedule(turn.began_s + PATIENCE_S)

    async def _receive(self, context: Any, host: str) -> Any:
        limit_s = PATIENCE_S if self._waiting[host] or self._waiting[""] else RECEIVE_S
        key = object()
        try:
            async with asyncio.timeout(limit_s) as deadline:
                self._turns[key] = _Turn(host, asyncio.get_running_loop().time(), deadline)
                return await context.read()
        except TimeoutError:
            late = "the request was not complete in time: send it again, in one piece"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, late)
        finally:
            del self._turns[key]


def host_of_peer(peer: str) -> str:
    """Return the host of a peer, which gRPC writes as "ipv4:127.0.0.1:40000" or "ipv6:%5B::1%5D:40000"."""
    return host_of(address_of_peer(peer)[0])


def address_of_peer(peer: str) -> tuple[str, str]:
    """Return the IP address and the port of a peer."""
    host, _, port = peer.partition(":")[2].rpartition(":")
    return host.removeprefix("%5B").removesuffix("%5D").strip("[]"), port
