"""Names of topics and consumer groups that a shell offers, from the cluster that the half-typed command means.

A person waits for the shell, so the cluster has little time to answer. Without an answer the shell offers nothing, and
prints nothing. Names come from the cluster: names with characters that a shell would interpret are left out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from cluster.cli.options import meant_cluster
from ledger.errors import LedgerError
from ledger.topics import is_system_topic

if TYPE_CHECKING:
    from ledger.client.admin.admin import AsyncAdmin

ANSWER_S = 1.0
MOST_NAMES = 1_000
_HARMLESS = re.compile(r"[\w.%@-]+", re.ASCII)


def topic_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the topics that begin with `incomplete`; system topics only after a "%"."""

    async def ask(admin: AsyncAdmin) -> list[str]:
        names = [topic.name for topic in await admin.list_topics()]
        return [name for name in names if incomplete.startswith("%") or not is_system_topic(name)]

    return _items(_answer(context, ask), incomplete)


def consumer_group_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the consumer groups that begin with `incomplete`."""

    async def ask(admin: AsyncAdmin) -> list[str]:
        return [group.name for group in await admin.list_consumer_groups()]

    return _items(_answer(context, ask), incomplete)


def _items(names: list[str], incomplete: str) -> list[CompletionItem]:
    fitting = (name for name in sorted(names) if name.startswith(incomplete) and _HARMLESS.fullmatch(name))
    return [CompletionItem(name) for _, name in zip(range(MOST_NAMES), fitting, strict=False)]


def _answer(context: click.Context, ask: Callable[[AsyncAdmin], Awaitable[list[str]]]) -> list[str]:
    """Return the answer of the cluster, or [] if it cannot be asked or does not answer in time."""
    from ledger.client.admin.admin import AsyncAdmin

    logging.disable()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")

    async def answer(bootstrap: str) -> list[str]:
        async with asyncio.timeout(ANSWER_S), AsyncAdmin(bootstrap) as admin:
            return await ask(admin)

    try:
        bootstrap = meant_cluster(context)
        return asyncio.run(answer(bootstrap)) if bootstrap else []
    except (LedgerError, click.ClickException, OSError, TimeoutError, ValueError):
        return []
