"""The command `ledgermq consume --group` consumes as a member of a consumer group and prints the messages.

A message counts as consumed when it has been printed. Without --follow, the command ends when the consumer group has
reached the end offsets that the queues had at the start of the command. The command does not print messages that lie
before the end offsets and that other members of the group have consumed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from cluster.cli.messages.message_writer import MessageWriter
from cluster.cli.options import REQUEST_TIMEOUT_MS
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.client.records import TopicQueue
from ledger.errors import UnknownGroupError

_MESSAGES_AT_ONCE = 5_000
_WAIT_MS = 500


async def consume_in_group(
    bootstrap: str,
    group: str,
    topics: tuple[str, ...],
    *,
    start: Literal["earliest", "latest"] | datetime,
    tags: tuple[str, ...],
    count: int | None,
    follow: bool,
    writer: MessageWriter,
) -> None:
    """Consume as a member of the group and print the messages. If this task is cancelled, the member acknowledges what
    was printed and leaves the group."""
    async with (
        AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin,
        AsyncGroupConsumer(
            *topics,
            group=group,
            bootstrap_servers=bootstrap,
            start=start,
            tags=tags or None,
            auto_acknowledge=False,
            max_attempts=1,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        ) as consumer,
    ):
        ends = await ends_of(admin, topics)
        while count is None or writer.written < count:
            most = _MESSAGES_AT_ONCE if count is None else min(_MESSAGES_AT_ONCE, count - writer.written)
            messages = await consumer.getmany(most, _WAIT_MS)
            writer.write(messages)
            consumer.finish(*messages)
            if not messages and not follow:
                await consumer.acknowledge()
                if await has_come_to(admin, group, ends):
                    return


async def ends_of(admin: AsyncAdmin, topics: tuple[str, ...]) -> dict[TopicQueue, int]:
    """Return the present end offsets of the queues of these topics."""
    return {
        TopicQueue(topic, one.queue): one.end_offset
        for topic in topics
        for one in (await admin.describe_topic(topic)).offsets
    }


async def has_come_to(admin: AsyncAdmin, group: str, ends: dict[TopicQueue, int]) -> bool:
    """Return whether the group has consumed all messages before these offsets."""
    try:
        described = await admin.describe_consumer_group(group)
    except UnknownGroupError:
        return False
    offsets = {TopicQueue(one.topic, one.queue): one.offset for one in described.queues}
    return all((offset := offsets.get(place)) is not None and offset >= end for place, end in ends.items())
