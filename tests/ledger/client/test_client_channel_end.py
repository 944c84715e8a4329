"""What a channel leaves on the event loop when it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc.aio
import pytest

from ledger.client.connection import channels
from ledger.client.connection.channels import GrpcChannel
from ledger.client.connection.security import Security
from ledger.errors import AuthenticationError, to_wire
from ledger.v1 import broker_pb2, security_pb2, security_pb2_grpc

pytestmark = pytest.mark.real

_CLOSED_CHANNELS = 20


class Refusing(security_pb2_grpc.SecurityServicer):
    """Refuses each proof and does not end the call, as a node does."""

    async def Authenticate(  # noqa: N802
        self, requests: AsyncIterator[security_pb2.AuthenticateRequest], _: object
    ) -> AsyncIterator[security_pb2.AuthenticateResponse]:
        async for _request in requests:
            yield security_pb2.AuthenticateResponse(error=to_wire(AuthenticationError("unknown token")))


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = grpc.aio.server()
    security_pb2_grpc.add_SecurityServicer_to_server(Refusing(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def test_a_closed_channel_leaves_no_call_on_the_loop(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event for a call of a loop that is closed is logged with a traceback by another loop of the process."""
    monkeypatch.setattr(channels, "_SETTLE_S", 0)  # the shortest pause that a machine can give
    # The server has calls on this loop, so the client gets its own, as in a program with `asyncio.run`.
    left = await asyncio.to_thread(
        lambda: [asyncio.run(_left_by_a_refused_proof(address)) for _ in range(_CLOSED_CHANNELS)]
    )
    assert left == [[]] * _CLOSED_CHANNELS


async def _left_by_a_refused_proof(address: str) -> list[str]:
    channel = GrpcChannel(address, security=Security(token="a delegated token"))
    with pytest.raises(AuthenticationError):
        await channel.stub.GetStatus(broker_pb2.GetStatusRequest(), timeout=10)
    await channel.close()
    return [str(task) for task in asyncio.all_tasks() - {asyncio.current_task()}]
