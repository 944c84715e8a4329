"""Proves a user over a raw gRPC channel, for tests that speak to one node without our clients."""

from __future__ import annotations

from typing import Any

from grpc import aio
from scramp import ScramClient

from ledger.errors import from_wire
from ledger.v1 import security_pb2, security_pb2_grpc

Metadata = tuple[tuple[str, str], ...]


async def prove(channel: aio.Channel, user: str, password: str) -> Metadata:
    """Return the metadata that the calls on this channel need from now on. Raises AuthenticationError."""
    client = ScramClient(["SCRAM-SHA-256"], user, password)
    stream = security_pb2_grpc.SecurityStub(channel).Authenticate(timeout=10)
    await stream.write(security_pb2.AuthenticateRequest(scram=client.get_client_first()))
    client.set_server_first((await _answer(stream)).scram)
    await stream.write(security_pb2.AuthenticateRequest(scram=client.get_client_final()))
    last = await _answer(stream)
    client.set_server_final(last.scram)
    await stream.done_writing()
    return (("authorization", f"Bearer {last.token}"),)


async def prove_by_token(channel: aio.Channel, token: str) -> Metadata:
    """The same with a delegated token."""
    stream = security_pb2_grpc.SecurityStub(channel).Authenticate(timeout=10)
    await stream.write(security_pb2.AuthenticateRequest(delegated_token=token))
    last = await _answer(stream)
    await stream.done_writing()
    return (("authorization", f"Bearer {last.token}"),)


async def _answer(stream: Any) -> security_pb2.AuthenticateResponse:
    answer = await stream.read()
    assert answer is not aio.EOF, await stream.details()
    if answer.HasField("error"):
        raise from_wire(answer.error)
    response: security_pb2.AuthenticateResponse = answer
    return response
