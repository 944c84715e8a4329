"""The command `ledgermq consume` prints the messages of a topic.

Without --follow, the command reads up to the end offsets that the queues had at its start. The command therefore ends
even while a producer sends.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import click

from cluster.cli.messages.group_consumption import consume_in_group
from cluster.cli.messages.message_writer import MessageWriter, json_format, text_format
from cluster.cli.options import REQUEST_TIMEOUT_MS, Moment, Separator, bootstrap_option, format_option
from cluster.cli.output import counted, say
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.records import TopicQueue

_MESSAGES_AT_ONCE = 5_000
_WAIT_MS = 500


Start = Literal["earliest", "latest"] | int | datetime


class StartType(click.ParamType[Start]):
    """The click type of the start of reading: earliest, latest, an offset, or a time."""

    name = "earliest|latest|offset|time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        if isinstance(value, int | datetime) or value in ("earliest", "latest"):
            return value  # type: ignore[no-any-return]
        if value.isascii() and value.isdecimal():
            return int(value)
        try:
            return Moment().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(
                f"{value!r} is not a start: give earliest, latest, an offset, or a time such as 2026-11-21T08:30:00Z",
                param,
                ctx,
            )


@dataclass(frozen=True, slots=True)
class ConsumeSelection:
    """The options of `ledgermq consume` that say which messages it reads and when it stops."""

    topic: str
    start: Start
    queues: tuple[int, ...]
    tags: tuple[str, ...]
    count: int | None
    follow: bool
    on_dropped: Literal["error", "skip"]

    def more(self, written: int) -> int:
        """Return how many messages to read next, if `written` messages have been printed; 0 means that enough
        messages have been printed."""
        return _MESSAGES_AT_ONCE if self.count is None else min(_MESSAGES_AT_ONCE, self.count - written)


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    type=StartType(),
    default="earliest",
    show_default=True,
    help="First message in each queue. A time means the first message appended then or later.",
)
@click.option(
    "--count", type=click.IntRange(min=0), help="Stop after this many messages.  [default: at the end of the topic]"
)
@click.option("--follow", is_flag=True, help="Wait for new messages at the end. Always on with --from latest.")
@click.option(
    "--queue",
    "queues",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this queue. Repeat it for more queues.  [default: all]",
)
@click.option(
    "--tag", "tags", multiple=True, help="Only messages with this tag. Repeat it for more tags.  [default: all]"
)
@click.option(
    "--on-dropped",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="If retention has removed messages: fail, or continue with the first kept message.",
)
@click.option("--separator", type=Separator(), default="\\n", show_default=True, help="Text after each message.")
@click.option(
    "--key-separator", type=Separator(), help="Print the key and this text before each message.  [default: no key]"
)
@click.option("--group", help="Consume as a member of this consumer group, from its offsets on.")
@bootstrap_option
@format_option
def consume(
    topic: str,
    start: Start,
    count: int | None,
    follow: bool,
    queues: tuple[int, ...],
    tags: tuple[str, ...],
    on_dropped: Literal["error", "skip"],
    separator: bytes,
    key_separator: bytes | None,
    group: str | None,
    bootstrap: str,
    output: str,
) -> None:
    """Print the messages of TOPIC to standard output, one message on a line. With --format json, each line is a JSON
    object.

    With --group, the option --from applies only to queues that the consumer group has not consumed yet. With --group
    and without --follow, the command ends when the group has consumed every message that existed at its start.

    In JSON, a key or value that is not UTF-8 is written as base64, in the field key_base64 or value_base64.
    """
    if group is not None and queues:
        raise click.UsageError(
            "give either --group or --queue: a consumer group assigns queues to its members by itself"
        )
    wanted = ConsumeSelection(topic, start, queues, tags, count, follow or start == "latest", on_dropped)
    form = json_format if output == "json" else text_format(separator, key_separator)
    writer = MessageWriter(sys.stdout.buffer, form)
    try:
        asyncio.run(
            _consume(bootstrap, wanted, writer) if group is None else _in_group(bootstrap, group, wanted, writer)
        )
    except KeyboardInterrupt:  # how --follow ends
        say(counted(writer.written, "message"))
        raise
    say(counted(writer.written, "message"))


async def _in_group(bootstrap: str, group: str, wanted: ConsumeSelection, writer: MessageWriter) -> None:
    await consume_in_group(
        bootstrap,
        group,
        wanted.topic,
        start=wanted.start,
        tags=wanted.tags,
        count=wanted.count,
        follow=wanted.follow,
        writer=writer,
    )


async def _consume(bootstrap: str, wanted: ConsumeSelection, writer: MessageWriter) -> None:
    async with AsyncConsumer(
        wanted.topic,
        bootstrap_servers=bootstrap,
        start=wanted.start,
        queues=wanted.queues or None,
        tags=wanted.tags or None,
        on_dropped=wanted.on_dropped,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    ) as consumer:
        ends = None if wanted.follow else await consumer.end_offsets()
        if ends is not None and any(consumer.position(*queue) > end for queue, end in ends.items()):
            await consumer.getmany(1, timeout_ms=_WAIT_MS)  # raises: the start lies beyond the end
        while (most := wanted.more(writer.written)) and not (ends is not None and _at_end(consumer, ends)):
            messages = await consumer.getmany(most, timeout_ms=_WAIT_MS)
            if ends is not None:
                messages = [one for one in messages if one.offset < ends[TopicQueue(one.topic, one.queue)]]
            writer.write(messages)


def _at_end(consumer: AsyncConsumer, ends: dict[TopicQueue, int]) -> bool:
    return all(consumer.position(*queue) >= end for queue, end in ends.items())
