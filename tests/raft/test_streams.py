"""A stream to a peer is opened again whenever it breaks, until it is stopped."""

from __future__ import annotations

import asyncio

import grpc
from grpc import aio

from raft.transport.refused_messages import RefusedMessages
from raft.transport.streams import OutboundStream


class LateCall:
    """A call that fails at the moment of its cancellation. Like gRPC, it raises the failure and hides the
    cancellation."""

    def __init__(self) -> None:
        self.is_read = asyncio.Event()

    async def read(self) -> object:
        self.is_read.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata()) from None
        return aio.EOF

    async def write(self, message: object) -> None:
        raise AssertionError(f"nothing was sent: {message}")

    def cancel(self) -> None:
        pass


class SilentCall(LateCall):
    """A call on which nothing arrives. Its cancellation raises CancelledError."""

    async def read(self) -> object:
        self.is_read.set()
        await asyncio.Event().wait()
        return aio.EOF


async def test_a_stream_that_is_opened_again_gets_a_new_call() -> None:
    calls: asyncio.Queue[SilentCall] = asyncio.Queue()
    broken: list[bool] = []

    async def open_call() -> SilentCall:
        call = SilentCall()
        calls.put_nowait(call)
        return call

    stream = OutboundStream(
        "a stream",
        open_call,
        bound=1,
        on_answer=lambda _: None,
        on_broken=lambda: broken.append(True),
        refused=RefusedMessages(),
    )
    stream.reopen()  # nothing is open yet
    stream.start()
    async with asyncio.timeout(5):
        for _ in range(3):
            call = await calls.get()
            await call.is_read.wait()
            stream.reopen()
        await calls.get()
        await stream.stop()
    assert len(broken) == 4, "at each new call, and at the end"


async def test_a_swallowed_cancellation_stops_it_all_the_same() -> None:
    call = LateCall()
    broken: list[bool] = []

    async def open_call() -> LateCall:
        return call

    stream = OutboundStream(
        "a stream",
        open_call,
        bound=1,
        on_answer=lambda _: None,
        on_broken=lambda: broken.append(True),
        refused=RefusedMessages(),
    )
    stream.start()
    await call.is_read.wait()
    async with asyncio.timeout(1):
        await stream.stop()
    assert broken == [True]
