"""Implements the client side of simulated RPCs. `SimChannel` and `SimStub` replace the channel and the stub of gRPC.

    The client calls a `SimChannel`, which sends the request over a `SimConnection`. On the node, `Calls`
    (rpc_server.py) passes the request to the node's own BrokerService.

A channel has at most one connection. When the connection of a channel breaks, all calls over the connection fail with
UNAVAILABLE, and the next call opens a new connection. Status codes, deadlines and cancellations of calls behave as in
gRPC.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import grpc
from grpc import aio

from chaos.sim.engine.network import Network, SimConnection
from chaos.sim.engine.node_life import Life
from cluster.node.formation.first_start import ANSWER_S
from cluster.node.repair import entry_source
from raft.v1 import raft_pb2

# What a call sends beside its request, such as a token.
Metadata = tuple[tuple[str, str], ...]

# Time limit for opening a connection.
CONNECT_S = 5.0


class RpcServer(Protocol):
    """The interface of the server side of a connection. The client chooses a number for each call over the
    connection."""

    def begin(
        self,
        connection: SimConnection,
        call: int,
        method: str,
        request: Any,
        answers: RpcClient,
        metadata: Metadata = (),
    ) -> None:
        """Start a call. For a stream, `request` is None, and each request of the stream arrives in a separate call
        of the method `message`."""

    def message(self, connection: SimConnection, call: int, request: Any) -> None: ...
    def cancel(self, connection: SimConnection, call: int) -> None: ...
    def broken(self, connection: SimConnection) -> None: ...


class RpcClient(Protocol):
    """The interface of the client side of a connection, which receives the responses of calls."""

    def answered(self, call: int, response: Any) -> None: ...
    def ended(self, call: int, code: grpc.StatusCode, details: str) -> None: ...


def error(code: grpc.StatusCode, details: str) -> aio.AioRpcError:
    """Return the exception that gRPC raises for a call with this status code."""
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details=details)


class SimChannel:
    """A channel from one client process to one node. Implements `ledger.client.connection.channels.Channel` and
    `RpcClient`."""

    def __init__(self, life: Life, network: Network, client: int, node: int, server: Callable[[], RpcServer]) -> None:
        self.stub: Any = SimStub(self)
        self.life = life
        self._network = network
        self._client = client
        self._node = node
        self._server = server
        self._connection: SimConnection | None = None
        self._connected: asyncio.Future[None] | None = None
        self._calls: dict[int, UnaryCall | StreamCall] = {}
        self._number = 0

    async def close(self) -> None:
        for call in [*self._calls.values()]:
            call.cancel()
        if self._connection is not None:
            self._say_goodbye(self._connection)

    # -- called by calls

    def begin(self, call: UnaryCall | StreamCall, method: str, request: Any, metadata: Metadata = ()) -> int:
        """Send the first message of a call to the server, which then starts the call. Return the number that the
        client chose for the call."""
        number = self._number = self._number + 1
        self._calls[number] = call
        connection, server = self._connect(), self._server()
        connection.send(self._client, lambda: server.begin(connection, number, method, request, self, metadata))
        return number

    def send(self, number: int, request: Any) -> None:
        if (connection := self._connection) is not None:
            server = self._server()
            connection.send(self._client, lambda: server.message(connection, number, request))

    def forget(self, number: int) -> None:
        """Remove a call that has received its response from the running calls."""
        self._calls.pop(number, None)

    def give_up(self, number: int) -> None:
        """Cancel a call at the server, because the client no longer needs the response."""
        if self._calls.pop(number, None) is not None and (connection := self._connection) is not None:
            server = self._server()
            connection.send(self._client, lambda: server.cancel(connection, number))

    async def wait_for_connection(self) -> None:
        self._connect()
        assert self._connected is not None
        await asyncio.shield(self._connected)

    # -- called by the connection

    def answered(self, call: int, response: Any) -> None:
        self.life.deliver(self._answered, call, response)

    def ended(self, call: int, code: grpc.StatusCode, details: str) -> None:
        self.life.deliver(self._ended, call, code, details)

    def _answered(self, number: int, response: Any) -> None:
        if (call := self._calls.get(number)) is not None:
            call.answered(response)

    def _ended(self, number: int, code: grpc.StatusCode, details: str) -> None:
        if (call := self._calls.pop(number, None)) is not None:
            call.ended(code, details)

    # -- the connection

    def _connect(self) -> SimConnection:
        connection = self._connection
        if connection is None:
            connected: asyncio.Future[None] = self.life.create_future()
            connected.add_done_callback(lambda done: done.cancelled() or done.exception())

            def broken(end: int) -> None:
                if end == self._client:
                    self.life.deliver(self._broken, opened)
                else:
                    self._server().broken(opened)

            def made() -> None:
                self.life.deliver(_settle, connected)

            opened = connection = self._connection = self._network.connection(self._client, self._node, broken)
            self._connected = connected
            opened.send(self._client, lambda: opened.send(self._node, made))
            self.life.call_later(CONNECT_S, self._too_late, opened, connected)
        return connection

    def _too_late(self, connection: SimConnection, connected: asyncio.Future[None]) -> None:
        if not connected.done() and not connection.broken:
            self._say_goodbye(connection)
            self._broken(connection)

    def _broken(self, connection: SimConnection) -> None:
        if connection is not self._connection:
            return
        connected, self._connection, self._connected = self._connected, None, None
        why = f"the connection to node {self._node} broke"
        if connected is not None and not connected.done():
            connected.set_exception(error(grpc.StatusCode.UNAVAILABLE, why))
        calls, self._calls = [*self._calls.values()], {}
        for call in calls:
            call.ended(grpc.StatusCode.UNAVAILABLE, why)

    def _say_goodbye(self, connection: SimConnection) -> None:
        server = self._server()
        server.broken(connection)
        connection.close()


class SimStub:
    """Calls the methods of a broker. The methods have the same names as in `ledger.v1.broker_pb2_grpc.BrokerStub`."""

    def __init__(self, channel: SimChannel) -> None:
        self._channel = channel

    def Produce(self) -> StreamCall:  # noqa: N802 (gRPC names)
        return StreamCall(self._channel, "Produce")

    def Share(self) -> StreamCall:  # noqa: N802
        return StreamCall(self._channel, "Share")

    def CheckTransactions(self) -> StreamCall:  # noqa: N802
        return StreamCall(self._channel, "CheckTransactions")

    def __getattr__(self, method: str) -> Callable[[Any, float], Awaitable[Any]]:
        """Return a function that makes a unary call of the broker's method `method`."""
        return lambda request, timeout: UnaryCall(self._channel, method, request, timeout).future


class StubChannel:
    """The methods of a gRPC channel from which generated stubs and `ProvenChannel` make calls. Requests and responses
    are not encoded."""

    def __init__(self, channel: SimChannel) -> None:
        self._channel = channel

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Callable[..., Awaitable[Any]]:
        def call(request: Any, *, timeout: float, metadata: Metadata = ()) -> Awaitable[Any]:
            return UnaryCall(self._channel, short_name(method), request, timeout, metadata).future

        return call

    def stream_stream(self, method: str, *_: Any, **__: Any) -> Callable[..., StreamCall]:
        def call(*, timeout: float | None = None, metadata: Metadata = ()) -> StreamCall:
            return StreamCall(self._channel, short_name(method), timeout, metadata)

        return call


def short_name(method: str) -> str:
    """Return "Fetch" for "/ledger.v1.Broker/Fetch"."""
    return method.rpartition("/")[2]


class UnaryCall:
    """A call with one request and one response. The future of a call gets the response, or the exception
    AioRpcError."""

    def __init__(self, channel: SimChannel, method: str, request: Any, timeout: float, metadata: Metadata = ()) -> None:
        self.future: asyncio.Future[Any] = channel.life.create_future()
        self._channel = channel
        self._number = channel.begin(self, method, request, metadata)
        self._deadline = channel.life.call_later(timeout, self._expire)
        self.future.add_done_callback(self._done)

    @property
    def has_ended(self) -> bool:
        """True if the call takes no response any more."""
        return self.future.done()

    def answered(self, response: Any) -> None:
        self._channel.forget(self._number)
        if not self.future.done():
            self.future.set_result(response)

    def ended(self, code: grpc.StatusCode, details: str) -> None:
        if not self.future.done():
            self.future.set_exception(error(code, details))

    def cancel(self) -> None:
        self.future.cancel()

    def _expire(self) -> None:
        self.ended(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")

    def _done(self, _: asyncio.Future[Any]) -> None:
        self._deadline.cancel()
        self._channel.give_up(self._number)


class StreamCall:
    """A bidirectional stream, with the methods of `grpc.aio.StreamStreamCall` that the production code uses."""

    def __init__(self, channel: SimChannel, method: str, timeout: float | None = None, metadata: Metadata = ()) -> None:
        self._channel = channel
        self._received: deque[Any] = deque()
        self._news = asyncio.Event()
        self._status: tuple[grpc.StatusCode, str] | None = None
        self._number = channel.begin(self, method, None, metadata)
        if timeout is not None:
            channel.life.call_later(timeout, self._expire)

    @property
    def has_ended(self) -> bool:
        """True if the call takes no response any more."""
        return self._status is not None

    async def wait_for_connection(self) -> None:
        await self._channel.wait_for_connection()
        self._raise_for_status()

    async def write(self, request: Any) -> None:
        if self._status is not None:
            self._raise_for_status()
            raise asyncio.InvalidStateError("RPC already finished.")
        self._channel.send(self._number, request)

    async def read(self) -> Any:
        while not self._received:
            if self._status is not None:
                self._raise_for_status()
                return aio.EOF
            self._news.clear()
            await self._news.wait()
        return self._received.popleft()

    async def code(self) -> grpc.StatusCode:
        return (await self._ended())[0]

    async def details(self) -> str:
        return (await self._ended())[1]

    def cancel(self) -> None:
        if self._status is None:
            self._channel.give_up(self._number)
            self.ended(grpc.StatusCode.CANCELLED, "Locally cancelled by application!")

    def answered(self, response: Any) -> None:
        if self._status is None:
            self._received.append(response)
            self._news.set()

    def ended(self, code: grpc.StatusCode, details: str) -> None:
        if self._status is None:
            self._status = (code, details)
            self._news.set()

    def _expire(self) -> None:
        if self._status is None:
            self._channel.give_up(self._number)
            self.ended(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")

    async def _ended(self) -> tuple[grpc.StatusCode, str]:
        while self._status is None:
            self._news.clear()
            await self._news.wait()
        return self._status

    def _raise_for_status(self) -> None:
        if self._status is None or self._status[0] is grpc.StatusCode.OK:
            return
        code, details = self._status
        if code is grpc.StatusCode.CANCELLED:
            raise asyncio.CancelledError(details)
        raise error(code, details)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class SimIntroductions:
    """At the first start of a cluster, a node uses this class to ask other nodes for their identity. Implements
    `cluster.node.formation.first_start.Introductions`."""

    def __init__(self, channels: Mapping[int, SimChannel]) -> None:
        self._channels = channels

    async def ask(self, node: int, request: raft_pb2.IntroduceRequest) -> raft_pb2.IntroduceResponse | None:
        try:
            answer: raft_pb2.IntroduceResponse = await UnaryCall(
                self._channels[node], "Introduce", request, ANSWER_S
            ).future
        except aio.AioRpcError:
            return None
        return answer

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()


class SimEntrySource:
    """A node that repairs its log uses this class to read entries of other nodes. Implements
    `cluster.node.repair.entry_source.EntrySource`."""

    def __init__(self, channels: Mapping[int, SimChannel]) -> None:
        self._channels = channels

    async def read(self, node: int, request: raft_pb2.ReadEntriesRequest) -> raft_pb2.ReadEntriesResponse | None:
        try:
            answer: raft_pb2.ReadEntriesResponse = await UnaryCall(
                self._channels[node], "ReadEntries", request, entry_source.ANSWER_S
            ).future
        except aio.AioRpcError:
            return None
        return answer

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
