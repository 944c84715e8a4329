"""The proof of a client on one connection."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from ledger.client.connection.security import Security
from ledger.client.connection.session import Session, _ask
from ledger.errors import AuthenticationError, LedgerError, UnavailableError, to_wire
from ledger.v1 import security_pb2


class Answering:
    """A channel to a node that answers each proof with an error. The stream is its own call."""

    def __init__(self, error: LedgerError) -> None:
        self._answer = security_pb2.AuthenticateResponse(error=to_wire(error))

    def stream_stream(self, *_: Any, **__: Any) -> Any:
        return lambda **_: self

    def unary_unary(self, *_: Any, **__: Any) -> Any:
        return None

    async def write(self, _: Any) -> None: ...
    async def read(self) -> Any:
        return self._answer

    def cancel(self) -> None: ...


def session_with(error: LedgerError) -> Session:
    return Session(cast("grpc.aio.Channel", Answering(error)), Security(token="a delegated token"))


async def test_a_node_that_cannot_judge_a_proof_is_like_one_that_cannot_be_reached() -> None:
    """Then clients ask another node. A node that is cut off answers so."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await session_with(UnavailableError("its rules may be old")).metadata()
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "rules may be old" in (failed.value.details() or "")


async def test_a_wrong_proof_is_told() -> None:
    with pytest.raises(AuthenticationError):
        await session_with(AuthenticationError("unknown token")).metadata()


class EndedStream:
    """A stream whose call ended before the client wrote to it, as if the node had died."""

    async def write(self, request: object) -> None:
        raise asyncio.InvalidStateError("RPC already finished.")

    async def read(self) -> object:
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata())


async def test_a_node_that_dies_during_a_proof_is_one_that_cannot_be_reached() -> None:
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await _ask(EndedStream(), security_pb2.AuthenticateRequest())
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
