"""The proof of a client on one connection."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from ledger.access.password import make_verifier
from ledger.broker.access.proofs import PasswordProof
from ledger.client.connection.security import Security
from ledger.client.connection.session import ProofTools, ProvenChannel, ProvenSession, _ask
from ledger.errors import AuthenticationError, LedgerError, UnavailableError, to_wire
from ledger.state.access_table import AccessTable, User
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


def session_with(error: LedgerError) -> ProvenSession:
    return ProvenSession(cast("grpc.aio.Channel", Answering(error)), Security(token="a delegated token"))


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


class SilentStream(EndedStream):
    """A stream to a node that never answers, as if the node were suspended."""

    async def write(self, request: object) -> None: ...

    async def read(self) -> object:
        return await asyncio.get_running_loop().create_future()

    def cancel(self) -> None: ...


class SilentNode(Answering):
    def stream_stream(self, *_: Any, **__: Any) -> Any:
        return lambda **_: SilentStream()


async def test_a_call_waits_for_its_proof_no_longer_than_its_time_limit() -> None:
    """A client asks all nodes for routes. A suspended node must not hold up what the others say."""
    silent = cast("grpc.aio.Channel", SilentNode(UnavailableError("")))
    session = ProvenSession(silent, Security(token="a delegated token"))
    call = ProvenChannel(silent, session).unary_unary("/ledger.v1.Broker/GetRoute")
    async with asyncio.timeout(5.0):
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await call(None, timeout=0.01)
    assert failed.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await session.close()


class ProvingNode:
    """A channel to a node that knows one user. The stream is its own call."""

    def __init__(self, access: AccessTable) -> None:
        self._proof = PasswordProof(access)
        self._answers: list[security_pb2.AuthenticateResponse] = []

    def stream_stream(self, *_: Any, **__: Any) -> Any:
        return lambda **_: self

    def unary_unary(self, *_: Any, **__: Any) -> Any:
        return None

    async def write(self, request: security_pb2.AuthenticateRequest) -> None:
        if not self._answers:
            text, token = self._proof.first(request.scram), ""
        else:
            text, token = self._proof.final(request.scram)[1], "a token"
        self._answers.append(security_pb2.AuthenticateResponse(scram=text, token=token))

    async def read(self) -> security_pb2.AuthenticateResponse:
        return self._answers[-1]

    def cancel(self) -> None: ...


async def test_the_rounds_of_a_password_do_not_hold_up_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take about 10 ms, so they belong into a thread."""
    access = AccessTable()
    access.users["anna"] = User("anna", verifier=make_verifier("the first password"), since=1)
    places: list[str] = []
    where = ["event loop"]
    rounds = hashlib.pbkdf2_hmac

    def watched(*arguments: Any) -> bytes:
        places.append(where[-1])
        return rounds(*arguments)

    async def in_thread(work: Callable[[], Any]) -> Any:
        where.append("thread")
        try:
            return work()
        finally:
            where.pop()

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", watched)
    channel = cast("grpc.aio.Channel", ProvingNode(access))
    security = Security(user="anna", password="the first password")
    session = ProvenSession(channel, security, ProofTools(secrets.token_bytes, in_thread))
    assert await session.metadata() == (("authorization", "Bearer a token"),)
    assert places == ["thread"]
