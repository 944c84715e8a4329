"""The command `ledgermq consume --group` for a shared group leases messages as a member, and prints them.

A message is acknowledged when it has been printed. A message that cannot be printed, for example on a full disk, is
handed out again when its lease ends. Without --follow, the command ends when the shared group has settled
all messages that existed at the start of the command, also those that other members have leased.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import click

from cluster.cli.messages.group_consumption import ends_of, has_come_to
from cluster.cli.messages.message_writer import MessageWriter
from cluster.cli.options import REQUEST_TIMEOUT_MS
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.records import Message
from ledger.client.shared.shared_consumer import AsyncSharedConsumer
from ledger.client.shared.shared_message import SharedMessage
from ledger.errors import UnknownGroupError

_MESSAGES_AT_ONCE = 500
_WAIT_MS = 500


async def is_shared(bootstrap: str, group: str) -> bool:
    """Return whether there is a shared group with this name. Raises LedgerError."""
    async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        try:
            return (await admin.describe_consumer_group(group)).mode == "shared"
        except UnknownGroupError:
            return False


async def consume_in_shared_group(
    bootstrap: str,
    group: str,
    topics: tuple[str, ...],
    *,
    start: Literal["earliest", "latest"] | datetime,
    tags: tuple[str, ...],
    where: str | None,
    count: int | None,
    follow: bool,
    writer: MessageWriter,
) -> None:
    """Consume as a member of the shared group and print the messages. If this task is cancelled, the member
    acknowledges what was printed, and gives back the rest."""
    if isinstance(start, datetime):
        raise click.UsageError("with a shared group, --from must be earliest or latest")
    async with (
        AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin,
        AsyncSharedConsumer(
            *topics,
            group=group,
            bootstrap_servers=bootstrap,
            start=start,
            tags=tags or None,
            where=where,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        ) as consumer,
    ):
        ends = await ends_of(admin, topics)
        printed: list[SharedMessage[bytes]] = []
        try:
            while count is None or writer.written < count:
                most = _MESSAGES_AT_ONCE if count is None else min(_MESSAGES_AT_ONCE, count - writer.written)
                messages = await consumer.receive(most, ack=printed, max_wait_ms=_WAIT_MS)
                printed = []
                writer.write(list[Message](messages))
                printed = messages
                if not messages and not follow and await has_come_to(admin, group, ends):
                    return
        finally:
            await consumer.ack(printed)
