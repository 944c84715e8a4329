"""The pages of the console. Each module has the routes of one subject in `ROUTES`."""

from __future__ import annotations

from cluster.console.console import Route
from cluster.console.pages import audit_page, cluster_page, operations_page, shard_page, topic_page, topics_page

ROUTES: list[Route] = [
    *cluster_page.ROUTES,
    *shard_page.ROUTES,
    *topics_page.ROUTES,
    *topic_page.ROUTES,
    *operations_page.ROUTES,
    *audit_page.ROUTES,
]
