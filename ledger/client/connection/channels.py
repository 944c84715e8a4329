"""The gRPC channels to nodes, and the conversion of gRPC errors to `LedgerError`.

A client opens one channel to each address when it first uses the address, and keeps the channel. If the connection of
a channel breaks, gRPC connects again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc
import grpc.aio

from ledger import produce_wire
from ledger.cancellation import heed_cancellation
from ledger.client.connection.renewed_channel import RenewedChannel
from ledger.client.connection.security import NONE, Security, read_file
from ledger.client.connection.session import ProvenChannel, ProvenSession
from ledger.errors import (
    AuthenticationError,
    InvalidArgumentError,
    LedgerError,
    PermissionDeniedError,
    RequestTimeoutError,
    UnavailableError,
)
from ledger.local_socket import SocketTarget, is_socket
from ledger.v1 import broker_pb2
from ledger.v1.broker_pb2_grpc import BrokerStub
from ledger.v1.consumer_group_operations_pb2_grpc import ConsumerGroupOperationsStub
from ledger.v1.consumer_group_pb2_grpc import ConsumerGroupsStub
from ledger.v1.inspection_pb2_grpc import InspectionStub
from ledger.v1.operations_pb2_grpc import OperationsStub
from ledger.v1.security_pb2_grpc import SecurityStub
from ledger.v1.transaction_pb2_grpc import TransactionsStub

HTTP_PORT = (
    "this port speaks HTTP/1. It may be the HTTP port of a node, for metrics and health: use the port of the node's "
    "setting `listen`, which is often one lower"
)
MAX_WIRE_MESSAGE_BYTES = 64 * 1024 * 1024

_OPTIONS = (
    ("grpc.max_send_message_length", MAX_WIRE_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_WIRE_MESSAGE_BYTES),
    # The default back-off takes seconds to notice that a node is back.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    # How long an attempt to connect may take, in spite of its name. A busy node needs a second for its side of it.
    ("grpc.min_reconnect_backoff_ms", 2_000),
    # By default, channels with equal options share one TCP connection, also between clients of one process. Bulk data
    # of one client would then delay the requests of the others.
    ("grpc.use_local_subchannel_pool", 1),
    # Clients reach nodes directly by their addresses, so a proxy of the environment must not be used.
    ("grpc.enable_http_proxy", 0),
)

_HTTP_1 = "http1.x server"
# What gRPC says if nothing listens at an address, if a name has no address, and if the port speaks something else.
_WAITING_DOES_NOT_HELP = (
    "Connection refused",
    "No such file or directory",
    "DNS resolution failed",
    "Domain name not found",
    "CERTIFICATE_VERIFY_FAILED",
    "WRONG_VERSION_NUMBER",
    _HTTP_1,
)
# What a sign in the details of gRPC means for a person.
_MEANINGS = {
    _HTTP_1: HTTP_PORT,
    "certificate has expired": (
        "its certificate, or that of its authority, has ended: make a new one with `ledgermq certs issue`. If it has "
        "not, the clock of this machine is wrong"
    ),
    "certificate is not yet valid": "its certificate begins later: compare the clocks of the machines",
    "CERTIFICATE_VERIFY_FAILED": (
        "its certificate was not made by an authority that this client knows: give the file of its authority as `ca`"
    ),
    "WRONG_VERSION_NUMBER": "its port does not use TLS: leave out TLS, the authority and the certificate",
    "Failed to create security handshaker": (
        "this client cannot begin TLS: check that the file that `ca` names has certificates in PEM form"
    ),
    "Domain name not found": "the name of the host is not known here",
    "Socket closed": "the connection was closed at once: if the port uses TLS, turn on TLS",
    "Method not found": (
        "this port serves another protocol. It may be the port for clients of RocketMQ: use the port of the node's "
        "setting `listen`"
    ),
}

# How long `settled` waits at least, and at most. Measured: without a pause 50 of 150 clients logged an error at their
# end; with a pause of 1 ms none did. Proofs that were refused took longer on a machine that was busy.
_SETTLE_S = 0.005
_SETTLE_MOST_S = 0.25
# The coroutine of gRPC that waits for the end of one call.
_END_OF_CALL = "_AioCall._handle_status_once_received"


class NodeStub(
    BrokerStub,
    OperationsStub,
    InspectionStub,
    ConsumerGroupsStub,
    ConsumerGroupOperationsStub,
    SecurityStub,
    TransactionsStub,
):
    """A gRPC stub that has all calls that clients make to a node."""

    def __init__(self, channel: grpc.aio.Channel | ProvenChannel) -> None:
        BrokerStub.__init__(self, channel)
        OperationsStub.__init__(self, channel)
        InspectionStub.__init__(self, channel)
        ConsumerGroupsStub.__init__(self, channel)
        ConsumerGroupOperationsStub.__init__(self, channel)
        SecurityStub.__init__(self, channel)
        TransactionsStub.__init__(self, channel)
        self.Produce = channel.stream_stream(  # the same, with bulk written by hand
            produce_wire.METHOD,
            request_serializer=produce_wire.serialize,
            response_deserializer=broker_pb2.ProduceResponse.FromString,
        )


class Channel(Protocol):
    """An interface: the connection to one node."""

    @property
    def stub(self) -> NodeStub: ...

    async def close(self) -> None:
        """Close the connection and cancel the calls that have no answer yet."""


class GrpcChannel:
    """A gRPC channel to the node at "host:port". The channel connects at the first call.

    The node receives `client_id` as the first part of the user agent.
    """

    def __init__(self, address: str, client_id: str | None = None, security: Security = NONE) -> None:
        """`security` says whether the channel uses TLS, and how the client proves who it is. Raises
        InvalidArgumentError if a file of `security`, or the directory of a socket, cannot be read."""
        options = [*_OPTIONS, *([("grpc.primary_user_agent", client_id)] if client_id else [])]
        self._target: SocketTarget | None = None
        if is_socket(address):
            self._target, security = socket_target(address), NONE  # the permissions of the file decide who may call
            self._channel = grpc.aio.insecure_channel(self._target.name, options=options)
        elif security.tls:
            self._channel = tls_channel(address, security, options)
        else:
            self._channel = grpc.aio.insecure_channel(address, options=options)
        self._session = ProvenSession(self._channel, security) if security.proves else None
        self.stub = NodeStub(self._channel if self._session is None else ProvenChannel(self._channel, self._session))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        await self._channel.close(None)
        await settled()
        if self._target is not None:
            self._target.close()


@dataclass(frozen=True, slots=True)
class SecuredChannels:
    """Opens channels with these security settings. Two values with equal settings are equal."""

    security: Security

    def __call__(self, address: str, client_id: str | None = None) -> GrpcChannel:
        return GrpcChannel(address, client_id, self.security)


async def settled() -> None:
    """Wait until gRPC has reported the end of cancelled calls to this event loop, after a channel was closed.

    A thread of gRPC reports them a moment after the cancellation. If the loop was closed by then (`asyncio.run` closes
    it soon after the client), another loop of the process logs an error. The calls of other channels on this loop
    cannot be told apart, so the wait has a limit.
    """
    ending = [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "") == _END_OF_CALL]
    await asyncio.sleep(_SETTLE_S)
    if ending:
        await asyncio.wait(ending, timeout=_SETTLE_MOST_S)


def local_channel(address: str, client_id: str | None = None) -> GrpcChannel:
    """Return the channel to a local socket, for a client without a user. Raises AuthenticationError for another
    address, because the socket of a node proves its caller only to that node."""
    if not is_socket(address):
        raise AuthenticationError(
            f"The local socket of a node does not prove who this client is to node {address}: use the local socket on "
            "that node's machine, or give a user."
        )
    return GrpcChannel(address, client_id)


class Connections:
    """Opens and keeps the channels of one client to the nodes. The function `channel` opens a channel to an
    address."""

    def __init__(self, channel: Callable[[str], Channel]) -> None:
        self._channel = channel
        self._channels: dict[str, Channel] = {}

    def stub(self, address: str) -> NodeStub:
        """Return the stub of the node at "host:port"."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._channel(address)
        return channel.stub

    async def close(self) -> None:
        channels, self._channels = list(self._channels.values()), {}
        await asyncio.gather(*(channel.close() for channel in channels))


def tls_channel(address: str, security: Security, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
    """Return a channel with TLS. It follows changes of the file with the authorities. Raises InvalidArgumentError."""
    if (ca := security.ca) is None:
        return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(), options=options)

    def make() -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(read_file(ca, "ca"))
        return grpc.aio.secure_channel(address, credentials, options=options)

    return RenewedChannel(make, lambda: file_version(ca))


def file_version(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes when the file changes, or None if there is no such file at the moment."""
    try:
        found = os.stat(path.expanduser())
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def socket_target(address: str) -> SocketTarget:
    """Return the target of a local socket. Raises InvalidArgumentError."""
    try:
        return SocketTarget(address)
    except OSError as error:
        raise InvalidArgumentError(f"The socket {address} cannot be reached: {error.strerror}.") from error


def parse_addresses(bootstrap_servers: str | Sequence[str]) -> tuple[str, ...]:
    """Return the addresses of a list, or of a text of the form "host:port,host:port". An address can also be the local
    socket of a node, "unix:/path". Raises InvalidArgumentError if there is no address, or if an address has another
    form."""
    given = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else bootstrap_servers
    parts = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(part, str) for part in parts):
        raise InvalidArgumentError(
            f'bootstrap_servers is {bootstrap_servers!r}: give "host:port,host:port", or a list of addresses.'
        )
    addresses = tuple(part.strip() for part in parts if part.strip())
    if not addresses:
        raise InvalidArgumentError('bootstrap_servers is empty: give at least one node\'s address as "host:port".')
    for address in addresses:
        if is_socket(address):
            continue
        host, _, port = address.rpartition(":")
        if "/" in host:
            raise InvalidArgumentError(
                f'The address "{address}" is not valid: write it as "host:port", without "http://" or a path.'
            )
        if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
            raise InvalidArgumentError(f'The address "{address}" is not valid: write it as "host:port".')
    return addresses


def waiting_helps(details: str | None) -> bool:
    """Return True if a call that failed with these details of gRPC may succeed a moment later with the same address and
    the same settings."""
    return not any(sign in (details or "") for sign in _WAITING_DOES_NOT_HELP)


def meaning_of(details: str) -> str:
    """Return what the details of gRPC about an address say, for people."""
    return next((meaning for sign, meaning in _MEANINGS.items() if sign in details), details.rsplit(": ", 1)[-1])


def is_http_port(details: str | None) -> bool:
    """Return True if gRPC reports that a port answered in HTTP/1."""
    return _HTTP_1 in (details or "")


def failure(address: str, error: grpc.aio.AioRpcError, cancelled_before: int = 0) -> LedgerError:
    """Return the `LedgerError` for a call that failed with an error of gRPC. After an error of gRPC, it is unknown
    whether the node carried out the call.

    Raises CancelledError if the running task has been cancelled during the call, because gRPC loses the cancellation of
    a task if the call fails at the same moment. `cancelled_before` is the number of its cancellations before the call:
    a task that was cancelled may make calls while it cleans up.
    """
    heed_cancellation(cancelled_before)
    return failure_of(address, error.code(), error.details())


def failure_of(address: str, code: grpc.StatusCode, details: str | None) -> LedgerError:
    """Return the `LedgerError` for a call that ended with this status of gRPC."""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return RequestTimeoutError(f"Node {address} did not answer in time.")
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return PermissionDeniedError(details or "")
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return AuthenticationError(
            f"Node {address} does not know who this client is ({details}). Give the client `user` and `password`, a "
            "`client_certificate`, or a `profile`."
        )
    if is_http_port(details):
        return UnavailableError(f"Node {address} cannot be reached: {HTTP_PORT}.")
    told = f"{code.name}: {details or 'no details'}"
    if code is grpc.StatusCode.UNAVAILABLE and details:
        told = meaning_of(details)
    return UnavailableError(
        f"Node {address} cannot be reached ({told}). Check that it runs and that the address is right."
    )
