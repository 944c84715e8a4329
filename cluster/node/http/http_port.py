"""The HTTP port of a node: /metrics for Prometheus, /healthz and /readyz for health checks, the log's segments
(`segment_routes.py`), and the console (`cluster/console/`).

`/healthz` answers 200 while the event loop runs. `/healthz` does not depend on the cluster: an orchestrator restarts a
node whose `/healthz` fails, and a restart does not help a node without a majority. `/readyz` answers 200 if this node
is a member, knows a leader, has applied nearly all committed entries, and does not refuse all users because its rules
may be old. If the node is not ready, `/readyz` answers 503 with the reason. The answer of a ready node tells reads and
writes apart:

    {"status": "ready", "reads": true, "writes": false, "reason": "the disk of node 3 is 93% full ..."}

A node whose disk is nearly full is ready: it serves readers, votes and stores what its leader sends, so nobody should
restart it, and clients should not lose it. `/readyz/writes` answers 503 if the node is not ready or takes no writes.

Callers can hold the port up only within limits: the number of connections (listener.py), the time until a request is
complete, the time until a response has been taken, and the size of headers. Only requests of the console have bodies,
and the console bounds their size and their time.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CollectorRegistry

from cluster.address import split_address
from cluster.console.console import Console, is_of_console
from cluster.node.http.deadline import DEADLINE
from cluster.node.http.http_rights import HttpRights
from cluster.node.http.listener import LINGERING_S, HttpConnection, HttpListener
from cluster.node.http.segment_routes import SegmentRoutes
from cluster.node.metrics.exposition import exposition
from ledger.broker.access.places import Places
from raft.transport.rare_log import RareLog

log = logging.getLogger("ledgermq.node.http")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# A response that the client has not taken after this time is dropped, and the connection is closed. Downloads have
# limits of their own (downloads.py).
RESPONSE_S = 30.0
# The length of the first line of a request, and of each header.
MAX_LINE_BYTES = 8_190
MAX_HEADERS = 64


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """A connection on which no complete request arrives for `idle_s` is closed. The time begins with the connection,
    and again with each response."""

    connections: int = 1_000
    connections_of_a_host: int = 250
    idle_s: float = 20.0


# A logger of its own, because the filter of `log` writes to it.
_hints = RareLog(logging.getLogger("ledgermq.node.http.hints"))


def _is_no_bad_request(record: logging.LogRecord) -> bool:
    """Return False for aiohttp's record of a request that is no HTTP. Its caller gets the status 400, and a caller that
    sends such requests without end must not fill the log. A gRPC client gets a hint in the log, once a minute at
    most."""
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, HttpProcessingError):
        return True
    if "PRI" in str(error):  # the first bytes of HTTP/2
        _hints.warning(
            "a gRPC client has connected to the HTTP port of this node: its `bootstrap_servers` must name the port of "
            "the setting `listen`"
        )
    return False


log.addFilter(_is_no_bad_request)


class HttpPort:
    """The HTTP server of a node, which runs from `start` to `stop`. `not_ready()` and `no_writes()` return the reasons
    for /readyz, or empty strings. Without `segments` the server serves no segments. `rights` checks every request; None
    serves every caller."""

    def __init__(
        self,
        registry: CollectorRegistry,
        not_ready: Callable[[], str],
        no_writes: Callable[[], str],
        segments: SegmentRoutes | None,
        rights: HttpRights | None = None,
        tls: ssl.SSLContext | None = None,
        limits: HttpLimits | None = None,
        console: Console | None = None,
    ) -> None:
        limits = limits or HttpLimits()
        self._console = console
        self._registry = registry
        self._not_ready = not_ready
        self._no_writes = no_writes
        self._segments = segments
        checks = [] if rights is None else [rights.middleware]
        app = web.Application(middlewares=[handled, in_time, *checks])
        self.app = app
        app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/readyz/writes", self._readyz_writes),
            ]
        )
        if segments is not None:
            app.add_routes(segments.routes())
        if console is not None:
            app.add_routes(console.routes())
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=log,
            shutdown_timeout=1,
            keepalive_timeout=limits.idle_s,
            lingering_time=LINGERING_S,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
        )
        self._listener = HttpListener(self._new_protocol, Places(limits.connections, limits.connections_of_a_host), tls)

    async def start(self, address: str) -> None:
        """Serve at `address` (host:port). Raises OSError if the port is in use."""
        await self._runner.setup()
        await self._listener.start(*split_address(address))

    async def stop(self) -> None:
        await self._listener.stop()
        if self._console is not None:
            await self._console.close()
        await self._runner.cleanup()
        if self._segments is not None:
            self._segments.close()

    def _new_protocol(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None, "the runner has been set up"
        return cast("asyncio.Protocol", server())

    async def _metrics(self, request: web.Request) -> web.Response:
        body, content_type = exposition(self._registry, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, _: web.Request) -> web.Response:
        return self._readiness(needs_writes=False)

    async def _readyz_writes(self, _: web.Request) -> web.Response:
        return self._readiness(needs_writes=True)

    def _readiness(self, *, needs_writes: bool) -> web.Response:
        not_ready, no_writes = self._not_ready(), self._no_writes()
        reads, writes = not not_ready, not not_ready and not no_writes
        is_ready = writes if needs_writes else reads
        body = {"status": "ready" if is_ready else "not ready", "reads": reads, "writes": writes}
        if reason := not_ready or no_writes:
            body["reason"] = reason
        return web.json_response(body, status=200 if is_ready else 503)


@web.middleware
async def handled(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tell the connection while a request is handled: it limits what belongs to no request (listener.py)."""
    connection = None if request.transport is None else request.transport.get_protocol()
    if not isinstance(connection, HttpConnection):
        return await handler(request)
    connection.request_begins(reads_body=is_of_console(request.path))
    try:
        return await handler(request)
    finally:
        connection.request_ends()


@web.middleware
async def in_time(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a request with a body. Close the connection if the client does not take the response in `RESPONSE_S`."""
    try:
        async with asyncio.timeout(RESPONSE_S) as deadline:
            request[DEADLINE] = deadline
            if is_of_console(request.path):  # which reads forms, in bounds of its own
                return await _written(await handler(request), request)
            if request.body_exists:
                refusal = web.Response(status=413, text="requests have no bodies here")
                refusal.force_close()
                return await _written(refusal, request)
            try:
                return await _written(await handler(request), request)
            except web.HTTPException as refusal:
                await _written(refusal, request)
                raise
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        pass  # the client has disconnected
    return web.Response()  # nobody receives it


async def _written(response: web.StreamResponse, request: web.Request) -> web.StreamResponse:
    """Return when the response is in the buffers of the connection, which have a limit."""
    if request.transport is not None:
        await response.prepare(request)
        await response.write_eof()
        await request.writer.drain()
    return response
