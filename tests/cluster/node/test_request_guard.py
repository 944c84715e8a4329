"""The guard of the gRPC methods: malformed requests and unexpected errors, seen from the caller and in the log."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from cluster.node.request_guard import RequestGuard
from ledger.v1 import broker_pb2, broker_pb2_grpc
from raft.transport.rare_log import LOG_INTERVAL_S

pytestmark = pytest.mark.real

# A field of 100 bytes of which only one is there.
MALFORMED = b"\x0a\x64x"


class Defective(broker_pb2_grpc.BrokerServicer):
    """A service with the defects that the guard must hide from callers."""

    async def GetStatus(self, request: Any, context: Any) -> broker_pb2.GetStatusResponse:  # noqa: N802
        raise RuntimeError("the secret of the node")

    async def GetRoute(self, request: Any, context: Any) -> broker_pb2.GetRouteResponse:  # noqa: N802
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now")
        return broker_pb2.GetRouteResponse()

    async def Produce(self, request_iterator: Any, context: Any) -> None:  # noqa: N802
        while (request := await context.read()) is not aio.EOF:
            if request.batches:
                raise RuntimeError("the secret of the node")
            await context.write(broker_pb2.ProduceResponse(configuration_index=7))


class Site:
    """A server with the guard, its clock, and a channel to the server."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.server = aio.server(interceptors=[RequestGuard(monotonic_s=lambda: self.now_s)])
        broker_pb2_grpc.add_BrokerServicer_to_server(Defective(), self.server)
        channel = aio.insecure_channel(f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}")
        self.channel = channel
        self._unary: Any = channel.unary_unary
        self._stream: Any = channel.stream_stream

    async def call(self, method: str, request: bytes = b"") -> tuple[grpc.StatusCode, str]:
        """Call a method with these bytes, and return the status with which the call ends."""
        with pytest.raises(aio.AioRpcError) as ended:
            await self._unary(f"/ledger.v1.Broker/{method}")(request, timeout=5)
        return ended.value.code(), ended.value.details() or ""

    async def stream(self, *requests: bytes) -> tuple[grpc.StatusCode, str]:
        call = self._stream("/ledger.v1.Broker/Produce")(timeout=5)
        for request in requests:
            await call.write(request)
        with pytest.raises(aio.AioRpcError) as ended:
            [_ async for _ in call]
        return ended.value.code(), ended.value.details() or ""


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    await site.server.start()
    yield site
    await site.channel.close()
    await site.server.stop(None)


async def test_a_malformed_request_is_the_callers_fault(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        code, text = await site.call("GetStatus", MALFORMED)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert text == "the request cannot be decoded: upgrade the caller"
    (line,) = caplog.messages
    assert line.startswith("a request of /ledger.v1.Broker/GetStatus from ipv4:127.0.0.1:")


async def test_a_malformed_message_ends_its_stream(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    code, text = await site.stream(b"", MALFORMED)
    assert (code, text) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "the request cannot be decoded: upgrade the caller",
    )
    assert len(caplog.records) == 1
    assert caplog.records[0].exc_info is None


async def test_the_text_of_an_unexpected_error_stays_in_the_log(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    batches = broker_pb2.ProduceRequest(batches=[b"x"]).SerializeToString()
    for code, text in (await site.call("GetStatus"), await site.stream(batches), await site.call("GetStatus")):
        assert code is grpc.StatusCode.INTERNAL
        assert text == "the node failed to serve the request: its log has the details of the defect"
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "the secret of the node" in record.getMessage()
    assert record.exc_info is not None, "the only line has the traceback"

    site.now_s += LOG_INTERVAL_S
    await site.call("GetStatus")
    assert caplog.messages[-1].endswith("(2 such lines were left out)")
    caplog.clear()  # `nothing_unheard` fails a test in which a method raises


async def test_a_method_may_end_its_call_itself(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    assert await site.call("GetRoute") == (grpc.StatusCode.FAILED_PRECONDITION, "not now")
    assert not caplog.records


async def test_an_unknown_method_is_unimplemented(site: Site) -> None:
    code, _ = await site.call("NoSuchMethod")
    assert code is grpc.StatusCode.UNIMPLEMENTED
