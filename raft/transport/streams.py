"""A stream to one peer that is opened again whenever it breaks, and the options of gRPC channels and servers.

`send` never waits. While the stream is down or its bounded queue is full, a message is dropped. Dropping is harmless,
because Raft repeats lost messages, and because old messages are useless. `on_broken` reports each break of a stream,
so that the core can send its last request to the peer again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from grpc import aio

from raft.core import InvalidMessage
from raft.transport.node_proof import UnprovenError
from raft.transport.refused_messages import RefusedMessages

log = logging.getLogger("ledgermq.raft.transport")

# The wait between two attempts to reach a peer.
RETRY_S = 0.1
# The wait after a refusal that time alone does not resolve, such as another incarnation or another cluster.
RETRY_REFUSED_S = 2.0
REFUSALS = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
)

# How long a stream waits for the peer to accept it, before it writes. A peer with an older program does not tell that
# it accepts a stream.
ACCEPT_S = 0.3
# What gRPC makes of the end of a stream on which it is writing. Then it does not keep the peer's status.
_LOST_STATUS = "Internal error from Core"

MAX_MESSAGE_BYTES = 128 << 20
# What a server reads of a call before the node asks for it.
LOOK_AHEAD_BYTES = 256 << 10
MAX_METADATA_BYTES = 16 << 10
# Calls at the same time on one connection. Further calls wait at the client.
MAX_CALLS_OF_A_CONNECTION = 2_000
# A connection that has not completed its handshake, or has no call for this time, is closed. Clients connect again.
HANDSHAKE_MS = 10_000
IDLE_MS = 600_000
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # gRPC's own back-off takes seconds to notice that a peer is back.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    # How long an attempt to connect may take, in spite of its name. A busy node needs a second for its side of it.
    ("grpc.min_reconnect_backoff_ms", 2_000),
    # Two channels with equal options would share a connection, and heartbeats would queue behind bulk.
    ("grpc.use_local_subchannel_pool", 1),
    # gRPC pings detect a peer that disappeared without closing the connection (a cut cable, a lost host). An answer may
    # wait behind bulk on a slow link. `grpc.keepalive_timeout_ms` has no effect: gRPC would wait for 60 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
# How much the largest request may exceed the largest entry.
_BESIDE_AN_ENTRY_BYTES = 2 << 20
# The smallest limit of requests: a byte range has up to 1 MiB, and requests of administrators can be long.
_SMALLEST_LIMIT_BYTES = 8 << 20
# Open connections of a server.
MAX_CONNECTIONS = 4_000


def server_options(largest_entry_bytes: int, connections: int = MAX_CONNECTIONS) -> tuple[tuple[str, int], ...]:
    """Return the options of a gRPC server with at most so many connections.

    Anybody can call it, so what gRPC holds before it knows the caller is bounded: the number of connections, the size
    of a request, what it reads ahead of a call, and the time of a handshake. Compressed requests are refused, because a
    small one can be large after decompression."""
    return (
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", max(largest_entry_bytes + _BESIDE_AN_ENTRY_BYTES, _SMALLEST_LIMIT_BYTES)),
        ("grpc.compression_enabled_algorithms_bitset", 1),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", LOOK_AHEAD_BYTES),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.max_concurrent_streams", MAX_CALLS_OF_A_CONNECTION),
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
        ("grpc.max_connection_idle_ms", IDLE_MS),
        # Peers ping idle streams; by default a gRPC server closes the connection for that.
        ("grpc.http2.max_ping_strikes", 0),
        # A port in use must be an error.
        ("grpc.so_reuseport", 0),
    )


def channel_options(largest_answer: int) -> tuple[tuple[str, int], ...]:
    """Return the options of a channel to another node, for answers of at most `largest_answer` bytes."""
    return (*CHANNEL_OPTIONS, ("grpc.max_receive_message_length", largest_answer))


class UndecodableAnswerError(Exception):
    """The bytes of an answer are no message of its type."""


class SendQueue:
    """`SendQueue` is a bounded queue of messages for one stream. One task writes the messages to the stream."""

    def __init__(self, bound: int) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue(bound)

    def put(self, message: Any) -> None:
        """Queue the message, or drop it if the queue is full."""
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(message)

    @contextlib.asynccontextmanager
    async def drained(self, write: Callable[[Any], Awaitable[None]], name: str) -> AsyncIterator[None]:
        """Return a context manager. During its `with` block, a task writes the queued messages in order, until a write
        fails.

        The context manager does not report a failed write, because the task that reads the same stream notices the
        end of the stream."""
        writer = asyncio.create_task(self._drain(write), name=name)
        try:
            yield
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _drain(self, write: Callable[[Any], Awaitable[None]]) -> None:
        while True:
            await write(await self._queue.get())


class OutboundStream:
    """A bidirectional stream to a peer, opened again whenever it breaks. Call `start` once, and `stop` at the end."""

    def __init__(
        self,
        name: str,
        open_call: Callable[[], Awaitable[Any]],
        *,
        bound: int,
        on_answer: Callable[[Any], None],
        on_broken: Callable[[], None],
        refused: RefusedMessages,
    ) -> None:
        """If `on_answer` raises InvalidMessage, the answer is counted in `refused`, and the stream is closed and opened
        again later. `open_call` returns a new call, or None if there is no reason to call the peer yet; it is called
        again later. `open_call` can raise UnprovenError."""
        self._name = name
        self._open_call = open_call
        self._bound = bound
        self._on_answer = on_answer
        self._on_broken = on_broken
        self._refused = refused
        self._queue: SendQueue | None = None
        self._task: asyncio.Task[None] | None = None
        # The present call, while there is one.
        self._conversation: asyncio.Task[None] | None = None
        self._trouble = ""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def reopen(self) -> None:
        """End the present call, and open a new call soon."""
        if self._conversation is not None:
            self._conversation.cancel()

    def send(self, message: Any) -> None:
        """Queue the message without waiting, or drop the message while the stream is down."""
        if self._queue is not None:
            self._queue.put(message)

    async def _run(self) -> None:
        while True:
            try:
                self._conversation = asyncio.create_task(self._converse(), name=f"{self._name} call")
                await self._conversation
                delay = RETRY_S
            except asyncio.CancelledError:
                heed_cancellation()
                delay = RETRY_S  # only the call was cancelled, by `reopen`
            except aio.AioRpcError as error:
                delay = RETRY_REFUSED_S if error.code() in REFUSALS else RETRY_S
                self._tell(reason_of(error))
            except (InvalidMessage, UndecodableAnswerError) as error:
                delay = RETRY_REFUSED_S
                self._refused.add(str(error), self._name)
            except UnprovenError as error:
                delay = RETRY_REFUSED_S
                self._tell(str(error))
            except Exception:
                delay = RETRY_REFUSED_S
                log.exception("the %s failed, which is a defect of ledgermq; it is opened again", self._name)
            finally:
                self._queue = self._conversation = None
                self._on_broken()
            heed_cancellation()
            await asyncio.sleep(delay)

    async def _converse(self) -> None:
        """Open the stream and read the peer's answers until the stream ends. Return if the stream ended in order.
        If the stream ended with an error, raise AioRpcError."""
        call = await self._open_call()
        if call is None:
            return
        queue = self._queue = SendQueue(self._bound)
        # gRPC loses the status of a refusal if a write is under way at that moment.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ACCEPT_S):
                await call.initial_metadata()
        async with queue.drained(call.write, f"{self._name} writer"):
            try:
                while (answer := await call.read()) is not aio.EOF:
                    if answer is None:  # gRPC's way to say that it cannot be decoded
                        raise UndecodableAnswerError("an answer of the peer cannot be decoded")
                    self._trouble = ""
                    self._on_answer(answer)
                raise_for_end(await call.code(), await call.details())
            finally:
                call.cancel()

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log.info("%s: %s", self._name, trouble)


async def accept(context: aio.ServicerContext[Any, Any]) -> None:
    """Tell the caller of a stream that it is not refused, so that it may write."""
    await context.send_initial_metadata(())


def reason_of(error: aio.AioRpcError) -> str:
    """Return why a stream ended."""
    if error.code() is grpc.StatusCode.INTERNAL and str(error.details()).startswith(_LOST_STATUS):
        return "the peer ended the stream while this node was sending: the peer's log says why"
    return f"{error.code().name}: {error.details()}"


def heed_cancellation() -> None:
    """Raise CancelledError if the running task has been cancelled.

    gRPC may hide a cancellation: if a call fails at the moment of the cancellation, gRPC raises only the failure."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def raise_for_end(code: grpc.StatusCode, details: str) -> None:
    """Raise AioRpcError if a stream ended with a status other than OK."""
    if code is not grpc.StatusCode.OK:
        raise aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details=details)
