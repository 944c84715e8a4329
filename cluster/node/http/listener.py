"""Accepts the connections of the HTTP port. The number of open connections is limited, in total and for each host.

A connection counts from the moment when it is accepted, so a host cannot exceed its limit with TLS handshakes that it
does not finish. A caller beyond a limit gets the status 503, or with TLS only the end of the connection.

A caller can send without end, also after its request was refused. So a connection takes only `MAX_UNHANDLED_BYTES` that
belong to no request that is being handled. Then it is read no more, and is ended a moment later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import cast

from ledger.broker.access.places import Places, host_of
from raft.transport.rare_log import RareLog

log = logging.getLogger("ledgermq.node.http")

HANDSHAKE_S = 10.0
# The kernel ends a connection whose peer takes no byte for this time, also one that this node has closed already.
UNSENT_MS = 30_000
# Bytes of a connection that belong to no request which is being handled: heads, and the beginning of a body.
MAX_UNHANDLED_BYTES = 512 << 10
# The time in which the client can read the answer to a request that was refused.
LINGERING_S = 1.0
_BACKLOG = 128
# The wait after a failed accept, for example because the process has no free file descriptor.
_RETRY_S = 0.5
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 43\r\n\r\ntoo many connections: try again in a while\n"
)


class HttpListener:
    """Listens on one port from `start` to `stop`. `stop` does not close the accepted connections."""

    def __init__(
        self, make_protocol: Callable[[], asyncio.Protocol], places: Places, tls: ssl.SSLContext | None
    ) -> None:
        self._make_protocol = make_protocol
        self._places = places
        self._tls = tls
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: set[asyncio.Task[None]] = set()
        self._refused_log = RareLog(log)
        self._failed_log = RareLog(log)

    async def start(self, host: str, port: int) -> None:
        """Accept connections. Raises OSError if the port is in use."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        try:
            for family, bound in dict.fromkeys((family, (host, port)) for family, *_, (host, port, *_) in found):
                sockets.append(_listen(family, bound))
        except OSError:
            for each in sockets:
                each.close()
            raise
        self._accepting = [asyncio.create_task(self._accept(each), name="HTTP connections") for each in sockets]

    async def stop(self) -> None:
        tasks = [*self._accepting, *self._handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    connection, address = await loop.sock_accept(listening)
                except OSError as error:
                    self._failed_log.warning("cannot accept an HTTP connection: %s", error.strerror)
                    await asyncio.sleep(_RETRY_S)
                    continue
                self._admit(connection, host_of(address[0]))

    def _admit(self, connection: socket.socket, host: str) -> None:
        if reason := self._places.take(host):
            self._refused_log.warning("refused an HTTP connection of %s: of open connections, %s", host, reason)
            self._refuse(connection)
            return
        place = _Place(lambda: self._places.give_back(host))
        serving = asyncio.create_task(self._serve(connection, place), name=f"HTTP connection of {host}")
        self._handshakes.add(serving)
        serving.add_done_callback(self._handshakes.discard)

    def _refuse(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            if self._tls is None:
                connection.send(_REFUSAL)

    async def _serve(self, connection: socket.socket, place: _Place) -> None:
        """Return when the protocol has the connection, after the TLS handshake."""
        loop = asyncio.get_running_loop()
        handshake_s, shutdown_s = (None, None) if self._tls is None else (HANDSHAKE_S, LINGERING_S)
        protocol = HttpConnection(self._make_protocol(), place)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSENT_MS)
            await loop.connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=handshake_s,
                ssl_shutdown_timeout=shutdown_s,
            )
        except OSError:
            pass  # the caller is gone, or its TLS handshake failed
        finally:
            if not protocol.is_connected:
                connection.close()
                place.give_back()


class _Place:
    """The place of one connection, which is given back once."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back

    def give_back(self) -> None:
        if (give_back := self._give_back) is not None:
            self._give_back = None
            give_back()


class HttpConnection(asyncio.Protocol):
    """Passes all events of a connection on to the protocol `inner`, and gives its place back when it ends."""

    def __init__(self, inner: asyncio.Protocol, place: _Place) -> None:
        self.is_connected = False
        self._place = place
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._unhandled_bytes = 0
        self._reads_body = False

    def request_begins(self, *, reads_body: bool) -> None:
        """A request is handled from now on. If it reads a body, what arrives until `request_ends` is not counted."""
        self._unhandled_bytes, self._reads_body = 0, reads_body

    def request_ends(self) -> None:
        self._unhandled_bytes, self._reads_body = 0, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.is_connected = True
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._place.give_back()
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._unhandled_bytes > MAX_UNHANDLED_BYTES:
            return  # the connection ends soon
        if not self._reads_body:
            self._unhandled_bytes += len(data)
        if self._unhandled_bytes <= MAX_UNHANDLED_BYTES:
            self._inner.data_received(data)
        elif self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(LINGERING_S, self._transport.abort)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


def _listen(family: int, address: tuple[str | int, int | bytes]) -> socket.socket:
    listening = socket.create_server(address, family=family, backlog=_BACKLOG)
    listening.setblocking(False)
    return listening
