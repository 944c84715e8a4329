"""Implements the server side of simulated RPCs. `Calls` runs a node's own servicer methods as tasks of the node's
simulated process.

The handlers of calls are production code, and this module replaces the server of gRPC. The simulated server passes a
context to each handler. With the context, the handler reads requests, writes responses and aborts the call. The
simulated server cancels a handler when the client gives up or the connection breaks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import grpc

from chaos.sim.engine.network import SimConnection
from chaos.sim.engine.node_life import Life
from chaos.sim.engine.rpc import Metadata, RpcClient

Handler = Callable[..., Awaitable[Any]]


class AbortError(Exception):
    """Raised when a handler ends its call with a status code."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


class Context:
    """The context of one call, with the methods of `grpc.aio.ServicerContext` that the production code uses."""

    def __init__(self, write: Callable[[Any], None], caller: int = 0, peer: str = "", metadata: Metadata = ()) -> None:
        """`caller` is the endpoint of the caller in the simulated network. `peer` names the connection."""
        self.caller = caller
        self._peer = peer
        self._metadata = metadata
        self._on_end: list[Callable[[Context], None]] = []
        self._received: deque[Any] = deque()
        self._news = asyncio.Event()
        self._write = write

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    async def read(self) -> Any:
        while not self._received:
            self._news.clear()
            await self._news.wait()
        return self._received.popleft()

    async def write(self, response: Any) -> None:
        self._write(response)

    def add_done_callback(self, callback: Callable[[Context], None]) -> None:
        self._on_end.append(callback)

    def ended(self) -> None:
        for callback in self._on_end:
            callback(self)

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        raise AbortError(code, details)

    def receive(self, request: Any) -> None:
        self._received.append(request)
        self._news.set()


class Calls:
    """Runs the calls that one simulated process serves. Implements `chaos.sim.engine.rpc.RpcServer`.

    The function `handler` returns the handler for the name of a method.
    """

    def __init__(self, life: Life, node: int, handler: Callable[[str], Handler]) -> None:
        self._life = life
        self._node = node
        self._handler = handler
        # Key: number of the connection, number of the call.
        self._calls: dict[tuple[int, int], tuple[asyncio.Task[None], Context]] = {}
        self._connections: dict[SimConnection, int] = {}

    def begin(
        self,
        connection: SimConnection,
        call: int,
        method: str,
        request: Any,
        answers: RpcClient,
        metadata: Metadata = (),
    ) -> None:
        self._life.deliver(self._begin, connection, call, method, request, answers, metadata)

    def message(self, connection: SimConnection, call: int, request: Any) -> None:
        self._life.deliver(self._message, connection, call, request)

    def cancel(self, connection: SimConnection, call: int) -> None:
        self._life.deliver(self._cancel, connection, call)

    def broken(self, connection: SimConnection) -> None:
        self._life.deliver(self._broken, connection)

    def stop(self) -> None:
        """Cancel all running calls of the process."""
        for task, _ in [*self._calls.values()]:
            task.cancel()

    def _begin(
        self,
        connection: SimConnection,
        call: int,
        method: str,
        request: Any,
        answers: RpcClient,
        metadata: Metadata,
    ) -> None:
        key = (self._connections.setdefault(connection, len(self._connections)), call)

        def write(response: Any) -> None:
            if not self._life.over:
                connection.send(self._node, lambda: answers.answered(call, response))

        def end(code: grpc.StatusCode, details: str) -> None:
            if not self._life.over:
                connection.send(self._node, lambda: answers.ended(call, code, details))

        caller = next((end for end in connection.ends if end != self._node), self._node)
        context = Context(write, caller, f"sim-{caller}:{key[0]}", metadata)
        work = self._serve(self._handler(method), request, context, write, end)
        task = self._life.create_task(work, name=f"{method} {key}")
        self._calls[key] = (task, context)
        task.add_done_callback(lambda _: self._ended(key, context))

    def _ended(self, key: tuple[int, int], context: Context) -> None:
        self._calls.pop(key, None)
        context.ended()

    async def _serve(
        self,
        handler: Handler,
        request: Any,
        context: Context,
        write: Callable[[Any], None],
        end: Callable[[grpc.StatusCode, str], None],
    ) -> None:
        try:
            response = await handler(request, context)
        except AbortError as aborted:
            end(aborted.code, aborted.details)
            return
        if response is None:  # a stream ended
            end(grpc.StatusCode.OK, "")
        else:
            write(response)

    def _message(self, connection: SimConnection, call: int, request: Any) -> None:
        found = self._found(connection, call)
        if found is not None:
            found[1].receive(request)

    def _cancel(self, connection: SimConnection, call: int) -> None:
        found = self._found(connection, call)
        if found is not None:
            found[0].cancel()

    def _found(self, connection: SimConnection, call: int) -> tuple[asyncio.Task[None], Context] | None:
        number = self._connections.get(connection)
        return None if number is None else self._calls.get((number, call))

    def _broken(self, connection: SimConnection) -> None:
        number = self._connections.get(connection)
        for (of, _), (task, _) in [*self._calls.items()]:
            if of == number:
                task.cancel()


class NoServer:
    """The server of a node that is down. `NoServer` ignores all calls, because the network breaks the connections
    to a node that is down."""

    def begin(
        self,
        connection: SimConnection,
        call: int,
        method: str,
        request: Any,
        answers: RpcClient,
        metadata: Metadata = (),
    ) -> None: ...
    def message(self, connection: SimConnection, call: int, request: Any) -> None: ...
    def cancel(self, connection: SimConnection, call: int) -> None: ...
    def broken(self, connection: SimConnection) -> None: ...
