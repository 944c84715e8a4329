"""A stream to a peer is opened again whenever it breaks, until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from grpc import aio

from raft.transport import streams
from raft.transport.refused_messages import RefusedMessages
from raft.transport.streams import OutboundStream, accept, reason_of
from raft.v1 import raft_pb2, raft_pb2_grpc
from tests.cluster.waiter import eventually

BOUND = 50


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

    async def initial_metadata(self) -> tuple[()]:
        return ()

    def cancel(self) -> None:
        pass


class SilentCall(LateCall):
    """A call on which nothing arrives. Its cancellation raises CancelledError."""

    async def read(self) -> object:
        self.is_read.set()
        await asyncio.Event().wait()
        return aio.EOF


def stream_of(
    open_call: Callable[[], Awaitable[object]], broken: list[bool], refused: RefusedMessages | None = None
) -> OutboundStream:
    """Return a stream that adds to `broken` at each break."""
    return OutboundStream(
        "a stream",
        open_call,
        bound=BOUND,
        on_answer=lambda _: None,
        on_broken=lambda: broken.append(True),
        refused=refused or RefusedMessages(),
    )


async def test_a_stream_that_is_opened_again_gets_a_new_call() -> None:
    calls: asyncio.Queue[SilentCall] = asyncio.Queue()
    broken: list[bool] = []

    async def open_call() -> SilentCall:
        call = SilentCall()
        calls.put_nowait(call)
        return call

    stream = stream_of(open_call, broken)
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

    stream = stream_of(open_call, broken)
    stream.start()
    await call.is_read.wait()
    async with asyncio.timeout(1):
        await stream.stop()
    assert broken == [True]


class GarbageCall(LateCall):
    """A call whose peer answers with bytes that gRPC cannot decode, for which gRPC returns None."""

    async def read(self) -> object:
        return None


async def test_an_answer_that_cannot_be_decoded_does_not_end_the_stream_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "RETRY_REFUSED_S", 0)
    opened: asyncio.Queue[None] = asyncio.Queue()
    refused = RefusedMessages()

    async def open_call() -> GarbageCall:
        opened.put_nowait(None)
        return GarbageCall()

    stream = stream_of(open_call, [], refused)
    stream.start()
    async with asyncio.timeout(5):
        for _ in range(3):
            await opened.get()
        await stream.stop()
    assert refused.count >= 2


async def test_a_defect_in_the_receiver_of_answers_does_not_end_the_stream_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "RETRY_REFUSED_S", 0)
    opened: asyncio.Queue[None] = asyncio.Queue()

    async def open_call() -> None:
        opened.put_nowait(None)
        raise AttributeError("a defect")

    stream = stream_of(open_call, [])
    stream.start()
    async with asyncio.timeout(5):
        for _ in range(3):
            await opened.get()
        await stream.stop()


class RefusingNode(raft_pb2_grpc.RaftServicer):
    """Refuses each stream as long as `reason` is not empty, after the caller had time to write."""

    def __init__(self, *, accepts: bool) -> None:
        self.reason = "this is node 2, not node 3"
        self.got: asyncio.Queue[Any] = asyncio.Queue()
        self._accepts = accepts

    async def Control(self, requests: Any, context: Any) -> None:  # noqa: N802 (gRPC names)
        if self.reason:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, self.reason)
        if self._accepts:
            await accept(context)
        while (bundle := await context.read()) is not aio.EOF:
            self.got.put_nowait(bundle)


@pytest.mark.real
@pytest.mark.parametrize("accepts", [True, False], ids=["new program", "older program"])
async def test_the_reason_of_a_refusal_is_known_however_much_the_node_has_to_send(
    accepts: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC tells INTERNAL instead of the status, if it is writing when the status arrives."""
    monkeypatch.setattr(streams, "RETRY_REFUSED_S", 0.01)
    caplog.set_level(logging.INFO, logger="ledgermq")
    node = RefusingNode(accepts=accepts)
    async with serving(node) as channel:

        async def open_call() -> Any:
            return raft_pb2_grpc.RaftStub(channel).Control()

        broken: list[bool] = []
        stream = stream_of(open_call, broken)
        bundle = raft_pb2.ControlBundle(messages=[raft_pb2.ControlMessage(incarnation=bytes(16))])
        stream.start()

        async def refused_often() -> bool:
            for _ in range(BOUND):
                stream.send(bundle)
            return len(broken) >= 10

        await eventually(refused_often, "the stream was refused ten times")
        assert caplog.messages == ["a stream: FAILED_PRECONDITION: this is node 2, not node 3"]
        node.reason = ""

        async def arrived() -> bool:
            stream.send(bundle)
            return not node.got.empty()

        await eventually(arrived, "the stream is open")
        await stream.stop()


@contextlib.asynccontextmanager
async def serving(node: RefusingNode) -> AsyncIterator[aio.Channel]:
    server = aio.server()
    raft_pb2_grpc.add_RaftServicer_to_server(node, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


def test_a_status_that_grpc_lost_is_not_told_as_a_defect() -> None:
    lost = aio.AioRpcError(grpc.StatusCode.INTERNAL, aio.Metadata(), aio.Metadata(), details="Internal error from Core")
    assert reason_of(lost) == "the peer ended the stream while this node was sending: the peer's log says why"
    lost = aio.AioRpcError(grpc.StatusCode.INTERNAL, aio.Metadata(), aio.Metadata(), details="the node failed")
    assert reason_of(lost) == "INTERNAL: the node failed"
