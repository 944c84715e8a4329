"""The pages of the console. Each module has the routes of one subject in `ROUTES`."""

from __future__ import annotations

from cluster.console.console import Route
from cluster.console.pages import (
    audit_page,
    cluster_page,
    dead_letters_page,
    download_page,
    group_page,
    groups_page,
    messages_page,
    operations_page,
    reset_page,
    send_page,
    shard_page,
    tail_page,
    timers_page,
    topic_page,
    topics_page,
    transactions_page,
)

_MODULES = (
    cluster_page,
    shard_page,
    topics_page,
    topic_page,
    messages_page,
    tail_page,
    send_page,
    download_page,
    groups_page,
    group_page,
    reset_page,
    dead_letters_page,
    timers_page,
    transactions_page,
    operations_page,
    audit_page,
)
ROUTES: list[Route] = [route for module in _MODULES for route in module.ROUTES]
