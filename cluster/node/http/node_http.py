"""Makes the HTTP port of a node, with its console, from the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from cluster.node.http.downloads import DownloadLimits
from cluster.node.http.http_port import HttpLimits, HttpPort
from cluster.node.http.segment_routes import SegmentRoutes
from cluster.node.node_shards import NodeShards
from cluster.node.process.file_limit import connections_open_at_once, file_limit
from cluster.node.security.access import NodeAccess
from cluster.node.security.certificates import CertificateWatch
from cluster.node.security.tls import http_context
from cluster.node.settings import NodeSettings
from ledger.client.connection.security import Security

if TYPE_CHECKING:
    from cluster.console.console import Console


def make_http(
    settings: NodeSettings,
    registry: CollectorRegistry,
    shards: NodeShards,
    access: NodeAccess,
    watch: CertificateWatch | None,
    addresses: Callable[[], Mapping[int, str]],
    now_ms: Callable[[], int],
) -> HttpPort:
    """`watch` has the node's certificate; None without TLS. `addresses()` returns those of the nodes of the cluster."""
    served = None
    if settings.serve_segments:
        downloads = DownloadLimits(
            settings.max_downloads, settings.max_downloads_per_caller, settings.min_download_bytes_per_s
        )
        served = SegmentRoutes(settings.node, settings.cluster, shards.local, downloads)
    return HttpPort(
        registry,
        shards.not_ready,
        shards.no_writes,
        served,
        access.http_rights,
        http_context(watch) if watch is not None else None,
        HttpLimits(
            connections_open_at_once(settings.max_http_connections, file_limit()),
            settings.max_http_connections_per_host,
            settings.http_idle_ms / 1000,
        ),
        _make_console(settings, access, addresses, now_ms),
    )


def _make_console(
    settings: NodeSettings,
    access: NodeAccess,
    addresses: Callable[[], Mapping[int, str]],
    now_ms: Callable[[], int],
) -> Console | None:
    if settings.console == "off":
        return None
    from cluster.console.clients import ConsoleClients
    from cluster.console.console import Console
    from cluster.console.pages import ROUTES  # here, because jinja2 and the pages are only for the console

    return Console(
        {
            "cluster": settings.cluster,
            "node": settings.node,
            "retention_hours": settings.retention_hours,
            "retention_bytes": settings.retention_bytes,
        },
        access.console,
        ConsoleClients(
            lambda: list(addresses().values()),
            Security(tls=settings.tls_certificate is not None, ca=settings.tls_ca),
        ),
        now_ms,
        ROUTES,
        is_open=settings.console == "open",
        is_secure=settings.tls_certificate is not None,
    )
