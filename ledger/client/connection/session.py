"""Proves on one connection who the client is, and sends the node's token with every call.

A token belongs to one TCP connection. If gRPC connects again, or the token ends, the node answers UNAUTHENTICATED
before it runs the call. The client then proves itself again and repeats the call once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc
import grpc.aio

from ledger.access.certificate import certificate_content, sign
from ledger.access.password import NEEDS_SCRAMP
from ledger.cancellation import heed_cancellation
from ledger.client.connection.security import read_file
from ledger.errors import AuthenticationError, from_wire
from ledger.v1 import security_pb2, security_pb2_grpc

Metadata = tuple[tuple[str, str], ...]

_NONCE_BYTES = 32
# How long one proof may take.
_PROOF_SECONDS = 10.0
# A new proof begins when this part of the token's time has passed.
_RENEW_AFTER = 0.8


class ProofEndedError(AuthenticationError):
    """The node no longer accepts the proof of a stream. The next stream proves anew who the client is, so a batch is
    sent again. If that proof fails, the batch fails with AuthenticationError."""

    retriable = True


@dataclass(frozen=True, slots=True)
class ProofTools:
    """What a proof takes from its process. The simulator gives other values."""

    random_bytes: Callable[[int], bytes] = os.urandom
    # Calls a function that takes some 10 ms outside of the event loop, and returns its result.
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]] = asyncio.to_thread


class Proving(Protocol):
    """An interface: what a client proves itself with. `ledger.client.connection.security.Security` implements it."""

    @property
    def user(self) -> str: ...
    @property
    def token(self) -> str: ...
    @property
    def client_certificate(self) -> Path | None: ...
    @property
    def client_key(self) -> Path | None: ...
    def current_password(self) -> str: ...


class ProvenSession:
    """The proof of one client on one channel."""

    def __init__(self, channel: grpc.aio.Channel, security: Proving, tools: ProofTools | None = None) -> None:
        self._stub = security_pb2_grpc.SecurityStub(channel)
        self._security = security
        self._tools = tools or ProofTools()
        self._metadata: Metadata | None = None
        self._renew_at = 0.0
        # The proof that is in progress. All calls that need it wait for the same one.
        self._proof: asyncio.Task[Metadata] | None = None

    async def metadata(self) -> Metadata:
        """Return what a call sends to name its caller. Raises AuthenticationError, InvalidArgumentError if a file
        cannot be read, and AioRpcError if the node cannot be reached."""
        loop = asyncio.get_running_loop()
        if self._metadata is not None and loop.time() < self._renew_at:
            return self._metadata
        if self._proof is None:
            self._proof = loop.create_task(self._prove(), name="proof of a client")
            self._proof.add_done_callback(self._proved)
        return await asyncio.shield(self._proof)

    def ended(self, metadata: Metadata) -> None:
        """Forget a token that the node no longer accepts."""
        if self._metadata == metadata:
            self._metadata = None

    async def close(self) -> None:
        if self._proof is not None:
            self._proof.cancel()
            await asyncio.gather(self._proof, return_exceptions=True)

    def _proved(self, proof: asyncio.Task[Metadata]) -> None:
        self._proof = None
        if not proof.cancelled():
            proof.exception()  # the calls that waited for the proof raise it

    async def _prove(self) -> Metadata:
        stream: Any = self._stub.Authenticate(timeout=_PROOF_SECONDS)
        try:
            last = await self._exchange(stream)
        finally:
            stream.cancel()
        self._renew_at = asyncio.get_running_loop().time() + last.expires_in_ms / 1000 * _RENEW_AFTER
        self._metadata = (("authorization", f"Bearer {last.token}"),)
        return self._metadata

    async def _exchange(self, stream: Any) -> security_pb2.AuthenticateResponse:
        security = self._security
        if security.user:
            return await _prove_password(stream, security.user, security.current_password(), self._tools)
        if security.token:
            return await _ask(stream, security_pb2.AuthenticateRequest(delegated_token=security.token))
        return await _prove_certificate(stream, security, self._tools)


async def _prove_certificate(stream: Any, security: Proving, tools: ProofTools) -> security_pb2.AuthenticateResponse:
    assert security.client_certificate is not None, "a client that proves has a user, a token or a certificate"
    assert security.client_key is not None, "the settings were checked"
    certificates = read_file(security.client_certificate, "client_certificate")
    key = read_file(security.client_key, "client_key")
    nonce = tools.random_bytes(_NONCE_BYTES)
    first = await _ask(stream, security_pb2.AuthenticateRequest(certificate_nonce=nonce))
    signature = sign(key, certificate_content(first.cluster, nonce, first.nonce))
    proof = security_pb2.CertificateProof(certificates=certificates, signature=signature)
    return await _ask(stream, security_pb2.AuthenticateRequest(certificate=proof))


async def _prove_password(
    stream: Any, user: str, password: str, tools: ProofTools
) -> security_pb2.AuthenticateResponse:
    try:
        from scramp import ScramClient, ScramException  # only clients with a password need it
    except ModuleNotFoundError as error:
        raise AuthenticationError(f"The password of user {user} {NEEDS_SCRAMP}") from error

    try:
        client = ScramClient(["SCRAM-SHA-256"], user, password, c_nonce=tools.random_bytes(_NONCE_BYTES).hex())
        first = await _ask(stream, security_pb2.AuthenticateRequest(scram=client.get_client_first()))
        client.set_server_first(first.scram)
        final = await tools.in_thread(client.get_client_final)  # thousands of rounds
        last = await _ask(stream, security_pb2.AuthenticateRequest(scram=final))
        client.set_server_final(last.scram)  # the node proves too that it knows the verifier
    except ScramException as error:
        raise AuthenticationError(f"The proof of user {user} failed: {error}.") from None
    return last


async def _ask(stream: Any, request: security_pb2.AuthenticateRequest) -> security_pb2.AuthenticateResponse:
    with contextlib.suppress(asyncio.InvalidStateError):  # the call has ended: the read tells why
        await stream.write(request)
    answer = await stream.read()
    if answer is grpc.aio.EOF:
        heed_cancellation()
        code, details = await stream.code(), await stream.details()
        if code is grpc.StatusCode.OK:
            raise AuthenticationError("The node ended the proof without an answer.")
        raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)
    if answer.HasField("error"):
        error = from_wire(answer.error)
        if not error.retriable:
            raise error
        # The node cannot judge the proof now. To its callers, such a node is one that cannot be reached.
        raise grpc.aio.AioRpcError(
            grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details=str(error)
        )
    response: security_pb2.AuthenticateResponse = answer
    return response


class CallSession(Protocol):
    """An interface: proves the caller of a channel."""

    async def metadata(self) -> Metadata: ...
    def ended(self, metadata: Metadata) -> None: ...


async def _proof_within(seconds: float | None, session: CallSession) -> Metadata:
    """Return what a call sends to name its caller, as `ProvenSession.metadata` does. A call with a time limit waits no
    longer than this for its proof, and then fails with DEADLINE_EXCEEDED. The proof goes on, for later calls."""
    try:
        async with asyncio.timeout(seconds):
            return await session.metadata()
    except TimeoutError:
        raise grpc.aio.AioRpcError(
            grpc.StatusCode.DEADLINE_EXCEEDED,
            grpc.aio.Metadata(),
            grpc.aio.Metadata(),
            details="the node did not answer the proof of who this client is",
        ) from None


class ProvenChannel:
    """What generated stubs need of a channel. Every call carries the session's token. Its time limit counts for the
    proof and for the call, each by itself."""

    def __init__(self, channel: grpc.aio.Channel, session: CallSession) -> None:
        self._channel = channel
        self._session = session

    def unary_unary(self, method: str, *args: Any, **codec: Any) -> Callable[..., Any]:
        call: Any = self._channel.unary_unary(method, *args, **codec)
        session = self._session

        async def proven(request: Any, *, timeout: float | None = None) -> Any:
            metadata = await _proof_within(timeout, session)
            try:
                return await call(request, timeout=timeout, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAUTHENTICATED:
                    raise
            session.ended(metadata)
            return await call(request, timeout=timeout, metadata=await _proof_within(timeout, session))

        return proven

    def stream_stream(self, method: str, *args: Any, **codec: Any) -> Callable[[], ProvenStream]:
        call: Any = self._channel.stream_stream(method, *args, **codec)
        return lambda: ProvenStream(call, self._session)


class ProvenStream:
    """A stream that opens when the proof is complete. It has the methods of a gRPC stream that our clients use."""

    def __init__(self, open_call: Callable[..., Any], session: CallSession) -> None:
        self._open_call = open_call
        self._session = session
        self._metadata: Metadata = ()
        self._opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._opening: asyncio.Task[None] | None = asyncio.create_task(self._open(), name="opening of a stream")

    async def wait_for_connection(self) -> None:
        await (await self._call()).wait_for_connection()

    async def write(self, request: Any) -> None:
        await (await self._call()).write(request)

    async def read(self) -> Any:
        return await (await self._call()).read()

    async def code(self) -> grpc.StatusCode:
        code: grpc.StatusCode = await (await self._call()).code()
        if code is grpc.StatusCode.UNAUTHENTICATED:
            self.end_session()
        return code

    async def details(self) -> str:
        return str(await (await self._call()).details())

    def end_session(self) -> None:
        """Prove again before the next stream."""
        self._session.ended(self._metadata)

    def cancel(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if self._opened.done() and not self._opened.cancelled() and self._opened.exception() is None:
            self._opened.result().cancel()
        else:
            self._opened.cancel()

    async def _call(self) -> Any:
        return await asyncio.shield(self._opened)

    async def _open(self) -> None:
        try:
            self._metadata = await self._session.metadata()
        except Exception as error:
            if not self._opened.done():
                self._opened.set_exception(error)
                self._opened.exception()  # the tasks that wait for the stream raise it
            return
        if not self._opened.done():
            self._opened.set_result(self._open_call(metadata=self._metadata))
