"""A stream to one peer that is kept open, and the options of the channels under it.

Sending never waits and may lose. While the stream is down, or its bounded queue is full, a message is
dropped: Raft sends again, and stale messages help nobody. What broke is told once, so that the core can start over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from grpc import aio

log = logging.getLogger("ledgermq.raft.transport")

RETRY_S = 0.1
"""Between attempts to reach a peer. A refusal for good (another incarnation or cluster) is retried more slowly."""
RETRY_REFUSED_S = 2.0
REFUSALS = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.DATA_LOSS)

MAX_MESSAGE_BYTES = 128 << 20
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # gRPC's own back-off takes seconds to notice that a peer is back.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    # Two channels with equal options would share a connection, and heartbeats would queue behind bulk.
    ("grpc.use_local_subchannel_pool", 1),
    # A peer that vanished without a word (a cut cable, a lost host) is noticed, and its connection given up.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
SERVER_OPTIONS = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.http2.max_ping_strikes", 0),  # peers ping an idle stream; a server's default is to cut them off for it
    ("grpc.so_reuseport", 0),  # a port in use must be an error
)


class SendQueue:
    """A bounded queue of messages for one stream, drained by one writer."""

    def __init__(self, bound: int) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue(bound)

    def put(self, message: Any) -> None:
        """Queues the message, or drops it where the queue is full."""
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(message)

    @contextlib.asynccontextmanager
    async def drained(self, write: Callable[[Any], Awaitable[None]], name: str) -> AsyncIterator[None]:
        """Within it a task writes what is queued, in order, until a write fails. That is not told here: whoever reads
        the same stream hears of its end."""
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
    """A bidirectional stream to a peer, opened again whenever it breaks. Call `start` once, `stop` at the end."""

    def __init__(
        self,
        name: str,
        open_call: Callable[[], Any],
        *,
        bound: int,
        on_answer: Callable[[Any], None],
        on_broken: Callable[[], None],
    ) -> None:
        """`open_call` gives None while there is no reason to call that peer yet; it is asked again."""
        self._name = name
        self._open_call = open_call
        self._bound = bound
        self._on_answer = on_answer
        self._on_broken = on_broken
        self._queue: SendQueue | None = None
        self._task: asyncio.Task[None] | None = None
        self._trouble = ""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def send(self, message: Any) -> None:
        """Never waits; dropped while the stream is down."""
        if self._queue is not None:
            self._queue.put(message)

    async def _run(self) -> None:
        while True:
            try:
                await self._converse()
                delay = RETRY_S
            except aio.AioRpcError as error:
                delay = RETRY_REFUSED_S if error.code() in REFUSALS else RETRY_S
                self._tell(f"{error.code().name}: {error.details()}")
            finally:
                self._queue = None
                self._on_broken()
            heed_cancellation()
            await asyncio.sleep(delay)

    async def _converse(self) -> None:
        """One life of the stream: returns or raises when it ends."""
        call = self._open_call()
        if call is None:
            return
        queue = self._queue = SendQueue(self._bound)
        async with queue.drained(call.write, f"{self._name} writer"):
            try:
                while (answer := await call.read()) is not aio.EOF:
                    self._trouble = ""
                    self._on_answer(answer)
                raise_for_end(await call.code(), await call.details())
            finally:
                call.cancel()

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log.info("%s: %s", self._name, trouble)


def heed_cancellation() -> None:
    """Raises CancelledError where the running task has been cancelled. gRPC may swallow that: of a call that fails at
    the moment of the cancellation, it reports the failure only."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def raise_for_end(code: grpc.StatusCode, details: str) -> None:
    """A stream that ended with a status is an error like any other."""
    if code is not grpc.StatusCode.OK:
        raise aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details=details)
