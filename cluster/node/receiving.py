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
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

import grpc
from grpc import aio

from ledger.broker.access.places import Places, host_of_peer

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
# How often the times are looked at.
LOOK_S = 0.05
_SERVER = ""


class _Turns:
    """The turns of connections, of hosts, or of the server: each key has at most `most` at the same time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[str, int] = {}
        # The calls that wait, in the order in which they came.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def take(self, key: str) -> bool:
        """Take a turn, and return True. If there is none, return False."""
        taken = self._taken.get(key, 0)
        if taken >= self._most:
            return False
        self._taken[key] = taken + 1
        return True

    async def wait(self, key: str) -> None:
        """Wait for a turn that another call gives back, and take it."""
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(passed)
        try:
            await passed
        except asyncio.CancelledError:
            if not passed.cancelled():  # this call has the turn already
                self.give_back(key)
            raise

    def give_back(self, key: str) -> None:
        """Give the turn to the call that waits longest, if there is one."""
        waiting = self._waiting.get(key)
        while waiting:
            first = waiting.popleft()
            if not waiting:
                del self._waiting[key]
            if not first.done():
                first.set_result(None)
                return
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]


@dataclass(eq=False, slots=True)
class _Reading:
    """A request that is being received. `cancelled` is how often its task was cancelled before."""

    host: str
    began_s: float
    task: asyncio.Task[Any]
    cancelled: int
    is_late: bool = False


class Receiving:
    """The turns of one server, in the order in which the calls arrive."""

    def __init__(self) -> None:
        self._all = _Turns(MOST)
        self._hosts = _Turns(MOST_OF_A_HOST)
        self._connections = _Turns(MOST_OF_A_CONNECTION)
        self._calls = Places(MOST_CALLS, MOST_CALLS_OF_A_HOST)
        self._reading: set[_Reading] = set()
        self._looks = False
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
        taken = 0
        turns = ((self._connections, peer, host), (self._hosts, host, host), (self._all, _SERVER, _SERVER))
        try:
            for of, key, delayed in turns:
                if not of.take(key):
                    await self._wait(of, key, delayed)
                taken += 1
            return await self._receive(context, host)
        finally:
            for of, key, _ in turns[:taken]:
                of.give_back(key)
            self._calls.give_back(host)

    async def _wait(self, of: _Turns, key: str, delayed: str) -> None:
        """Wait for a turn. Meanwhile the requests of the host `delayed` that are being received get less time."""
        self._waiting[delayed] += 1
        try:
            await of.wait(key)
        finally:
            self._waiting[delayed] -= 1
            if not self._waiting[delayed]:
                del self._waiting[delayed]

    async def _receive(self, context: Any, host: str) -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        reading = _Reading(host, loop.time(), task, task.cancelling())
        self._reading.add(reading)
        if not self._looks:
            self._looks = True
            loop.call_later(LOOK_S, self._look)
        try:
            return await context.read()
        except asyncio.CancelledError:
            if not reading.is_late or task.uncancel() > reading.cancelled:
                raise
        finally:
            self._reading.discard(reading)
        late = "the request was not complete in time: send it again, in one piece"
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, late)
        raise AssertionError("abort always raises")

    def _look(self) -> None:
        """End the calls whose requests take too long. One timer for all costs less than one for each."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for reading in self._reading:
            is_delaying = reading.host in self._waiting or _SERVER in self._waiting
            if not reading.is_late and now_s - reading.began_s >= (PATIENCE_S if is_delaying else RECEIVE_S):
                reading.is_late = True
                reading.task.cancel()
        self._looks = bool(self._reading)
        if self._looks:
            loop.call_later(LOOK_S, self._look)
