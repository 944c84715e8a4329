"""Streams from a client inside a node to the same node: requests and responses pass in memory, without gRPC.

The front for RocketMQ's clients has native clients, which send to the leader of each shard. If this node is the leader,
a connection of the node to itself would only cost time.

    client ── write ──> 16 requests ──> method of the node ── write ──> 16 responses ── read ──> client

Batches of producers need not even these: a write appends them, and a read waits for their results.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from grpc import StatusCode, aio

from ledger.broker.access.callers import Caller, set_present_caller
from ledger.broker.rpc.broker import BrokerService
from ledger.broker.rpc.produce_stream import Batches, OwedResponses, response_of
from ledger.errors import LedgerError
from ledger.produce_wire import ProduceRequest
from ledger.slow_request import CallingClient
from ledger.v1 import broker_pb2

log = logging.getLogger("ledgermq.node.requests")

# Requests, and responses, that the other side has not read yet. A writer waits for room.
MOST_UNREAD = 16

# What a quota calls the clients of the node itself.
OWN = "of this node"

# A method of a service with a stream of requests and a stream of responses.
StreamMethod = Callable[[Any, Any], Awaitable[None]]


class OwnProduceStream:
    """A produce stream. It has the methods of a gRPC stream that our producers use."""

    def __init__(self, broker: BrokerService, caller: Callable[[], Caller]) -> None:
        """`caller()` returns for whom the stream is. It raises LedgerError if the user may not call any more."""
        self._broker = broker
        self._caller = caller
        self._batches: Batches | None = None
        self._owed = OwedResponses(broker.produce_load, CallingClient(peer=OWN))

    async def wait_for_connection(self) -> None:
        """Raises LedgerError if the user may not call."""
        set_present_caller(self._caller())
        self._batches = self._broker.batches_of(OWN)

    async def write(self, request: ProduceRequest) -> None:
        assert self._batches is not None, "a producer waits for the connection first"
        await self._owed.room()
        await self._owed.append(self._batches, request.batches, request.traceparent)

    async def read(self) -> broker_pb2.ProduceResponse:
        outcomes = await self._owed.oldest()
        response = response_of(outcomes, self._broker.configuration_index)
        self._owed.sent()
        return response

    def cancel(self) -> None:
        self._owed.drop()

    async def code(self) -> StatusCode:
        return StatusCode.CANCELLED  # only its client ends it

    async def details(self) -> str:
        return ""


class OwnStream:
    """The client's end of a stream. It has the methods of a gRPC stream that our clients use."""

    def __init__(self, method: StreamMethod, caller: Callable[[], Caller]) -> None:
        """`caller()` returns for whom the stream is. It raises LedgerError if the user may not call any more."""
        self._requests: asyncio.Queue[Any] = asyncio.Queue(MOST_UNREAD)
        self._responses: asyncio.Queue[Any] = asyncio.Queue(MOST_UNREAD)
        self._ended: asyncio.Future[tuple[StatusCode, str]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._serve(method, caller), name="stream of a node to itself")
        self._task.add_done_callback(self._end)

    async def wait_for_connection(self) -> None:
        pass

    async def write(self, request: Any) -> None:
        """Raises asyncio.InvalidStateError if the stream has ended."""
        if self._requests.full():
            writing = asyncio.ensure_future(self._requests.put(request))
            try:
                await asyncio.wait((writing, self._ended), return_when=asyncio.FIRST_COMPLETED)
            finally:
                writing.cancel()
        else:
            self._requests.put_nowait(request)
        if self._ended.done():
            raise asyncio.InvalidStateError("the stream has ended")

    async def read(self) -> Any:
        """Return the next response, or aio.EOF at the end of the stream."""
        if self._ended.done() and self._responses.empty():
            return aio.EOF
        return await self._responses.get()

    async def code(self) -> StatusCode:
        return (await asyncio.shield(self._ended))[0]

    async def details(self) -> str:
        return (await asyncio.shield(self._ended))[1]

    def cancel(self) -> None:
        self._task.cancel()

    async def _serve(self, method: StreamMethod, caller: Callable[[], Caller]) -> None:
        context = _OwnContext(self._requests, self._responses)
        try:
            set_present_caller(caller())
            await method(context, context)
            status = (StatusCode.OK, "")
        except aio.AbortError:
            status = context.status
        except LedgerError as error:
            status = (StatusCode.UNAUTHENTICATED, str(error))
        except Exception:
            log.exception("a stream of this node to itself failed, which is a defect of ledgermq")
            status = (StatusCode.INTERNAL, "the node failed to serve the request: its log has the details")
        if not self._ended.done():
            self._ended.set_result(status)
        await self._responses.put(aio.EOF)

    def _end(self, task: asyncio.Task[None]) -> None:
        if not self._ended.done():  # the task was cancelled
            self._ended.set_result((StatusCode.CANCELLED, "the stream was cancelled"))
            with contextlib.suppress(asyncio.QueueFull):
                self._responses.put_nowait(aio.EOF)


class _OwnContext:
    """The node's end: what its methods use of a gRPC context."""

    def __init__(self, requests: asyncio.Queue[Any], responses: asyncio.Queue[Any]) -> None:
        self.read = requests.get
        self.write = responses.put
        self.status = (StatusCode.OK, "")

    def peer(self) -> str:
        return OWN

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def abort(self, code: StatusCode, details: str = "") -> None:
        self.status = (code, details)
        raise aio.AbortError
