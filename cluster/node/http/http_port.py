"""The HTTP port of a node: /metrics for Prometheus, /healthz and /readyz for health checks, and the log's segments
(`segment_routes.py`).

`/healthz` answers 200 while the event loop runs. `/healthz` does not depend on the cluster: an orchestrator restarts a
node whose `/healthz` fails, and a restart does not help a node without a majority. `/readyz` answers 200 if this node
is a member, knows a leader and has applied nearly all committed entries. If the node is not ready, `/readyz` answers
503 with the reason.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from cluster.node.http.http_rights import HttpRights
from cluster.node.http.segment_routes import SegmentRoutes

log = logging.getLogger("ledgermq.node.http")


def _is_no_bad_request(record: logging.LogRecord) -> bool:
    """Return False for aiohttp's record of a request that is no HTTP. Its caller gets the status 400, and a caller that
    sends such requests without end must not fill the log."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


log.addFilter(_is_no_bad_request)


class HttpPort:
    """The HTTP server of a node, which runs from `start` to `stop`. `not_ready()` returns the reason for /readyz,
    or an empty string. Without `segments` the server serves no segments. `rights` checks every request; None serves
    every caller."""

    def __init__(
        self,
        registry: CollectorRegistry,
        not_ready: Callable[[], str],
        segments: SegmentRoutes | None,
        rights: HttpRights | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        self._registry = registry
        self._not_ready = not_ready
        self._segments = segments
        app = web.Application(middlewares=[] if rights is None else [rights.middleware])
        self.app = app
        app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
            ]
        )
        if segments is not None:
            app.add_routes(segments.routes())
        self._runner = web.AppRunner(app, access_log=None, logger=log, shutdown_timeout=1)

    async def start(self, address: str) -> None:
        """Serve at `address` (host:port). Raises OSError if the port is in use."""
        host, _, port = address.rpartition(":")
        await self._runner.setup()
        await web.TCPSite(self._runner, host, int(port), reuse_address=True, ssl_context=self._tls).start()

    async def stop(self) -> None:
        await self._runner.cleanup()
        if self._segments is not None:
            self._segments.close()

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, _: web.Request) -> web.Response:
        reason = self._not_ready()
        if reason:
            return web.json_response({"status": "not ready", "reason": reason}, status=503)
        return web.json_response({"status": "ready"})
