"""The command `ledgermq consume` prints the messages of topics.

Without --follow, the command reads up to the end offsets that the queues had at its start. The command therefore ends
even while a producer sends.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

import click

from cluster.cli.completed_names import consumer_group_names, topic_names
from cluster.cli.messages.group_consumption import consume_in_group
from cluster.cli.messages.line_template import LETTERS, template_format
from cluster.cli.messages.message_writer import Format, MessageWriter, shown_on, text_format
from cluster.cli.messages.shared_consumption import consume_in_shared_group, is_shared
from cluster.cli.messages.start import Last, Start, StartOrLastType
from cluster.cli.options import REQUEST_TIMEOUT_MS, Separator, bootstrap_option, format_option
from cluster.cli.output import say
from cluster.cli.stopping import TerminatedError, run_until_stopped
from cluster.message_json import json_format
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.records import TopicQueue
from ledger.words import counted

_MESSAGES_AT_ONCE = 5_000
_WAIT_MS = 500


@dataclass(frozen=True, slots=True)
class ConsumeSelection:
    """The options of `ledgermq consume` that say which messages it reads and when it stops."""

    topics: tuple[str, ...]
    start: Start | Last
    queues: tuple[int, ...]
    tags: tuple[str, ...]
    where: str | None
    count: int | None
    follow: bool
    on_dropped: Literal["error", "skip"]

    def more(self, written: int) -> int:
        """Return how many messages to read next, if `written` messages have been printed; 0 means that enough
        messages have been printed."""
        return _MESSAGES_AT_ONCE if self.count is None else min(_MESSAGES_AT_ONCE, self.count - written)


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=topic_names)
@click.option(
    "--from",
    "start",
    type=StartOrLastType(),
    default="earliest",
    show_default=True,
    metavar="START",
    help="First message in each queue: earliest, latest, an offset, -10 (the last 10 messages of each queue), a time "
    "such as 2026-11-21T08:30:00Z, or an age such as 10m (s, m, h, d). A time means the first message appended then "
    "or later.",
)
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=0),
    help="Stop after this many messages.  [default: at the end of the topics]",
)
@click.option("--follow", is_flag=True, help="Wait for new messages at the end. Always on with --from latest.")
@click.option(
    "--queue",
    "queues",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this queue of each topic. Repeat it for more queues.  [default: all]",
)
@click.option(
    "--tag", "tags", multiple=True, help="Only messages with this tag. Repeat it for more tags.  [default: all]"
)
@click.option(
    "--where",
    metavar="FILTER",
    help="Only messages for which this is true, such as \"price > 10 AND region = 'EU'\". Only with a shared group.",
)
@click.option(
    "--on-dropped",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="If retention has removed messages: fail, or continue with the first kept message.",
)
@click.option("--separator", type=Separator(), help="Text after each message.  [default: \\n]")
@click.option(
    "--key-separator",
    type=Separator(),
    help="Print the key and this text before each message that has a key.  [default: no key]",
)
@click.option(
    "-f",
    "--template",
    help="Print each message by this template, without a line end. Its letters are "
    + ", ".join(f"%{letter} {meaning}" for letter, meaning in LETTERS.items())
    + "; its escapes are \\n, \\t, \\0, \\x1f.",
)
@click.option(
    "--group",
    help="Consume as a member of this consumer group, from its offsets on.",
    shell_complete=consumer_group_names,
)
@bootstrap_option
@format_option
def consume(
    topics: tuple[str, ...],
    start: Start | Last,
    count: int | None,
    follow: bool,
    queues: tuple[int, ...],
    tags: tuple[str, ...],
    where: str | None,
    on_dropped: Literal["error", "skip"],
    separator: bytes | None,
    key_separator: bytes | None,
    template: str | None,
    group: str | None,
    bootstrap: str,
    output: str,
) -> None:
    """Print the messages of each TOPIC to standard output, one message on a line. With --format json, each line is a
    JSON object, which `ledgermq produce --format json` accepts.

    With --group and the name of a shared group, the command leases messages one by one, and acknowledges each when it
    is printed. --where filters them by their headers, tag and keys.

    With --group, the option --from applies only to queues that the consumer group has not consumed yet. With --group
    and without --follow, the command ends when the group has consumed every message that existed at its start.

    Ctrl-C and SIGTERM stop the command in the same way: it acknowledges what it has printed, leaves the group, and
    ends with the exit status 130 (Ctrl-C) or 143 (SIGTERM).

    In JSON, a key or value that is not UTF-8 is written as base64, in the field key_base64 or value_base64. On a
    terminal, control characters in messages are shown as escapes; in a pipe or a file, bytes are unchanged.
    """
    if group is not None and queues:
        raise click.UsageError(
            "give either --group or --queue: a consumer group assigns queues to its members by itself"
        )
    if where is not None and group is None:
        raise click.UsageError("--where needs --group with a shared group: `ledgermq group create NAME --mode shared`")
    tags = tuple(tag.strip() for expression in tags for tag in expression.split("||"))
    wanted = ConsumeSelection(
        tuple(dict.fromkeys(topics)), start, queues, tags, where, count, follow or start == "latest", on_dropped
    )
    writer = MessageWriter(sys.stdout.buffer, _format(output, separator, key_separator, template))
    try:
        run_until_stopped(
            _consume(bootstrap, wanted, writer) if group is None else _in_group(bootstrap, group, wanted, writer)
        )
    except (KeyboardInterrupt, TerminatedError):  # how --follow ends
        say(counted(writer.written, "message"))
        raise
    say(counted(writer.written, "message"))


def _format(output: str, separator: bytes | None, key_separator: bytes | None, template: str | None) -> Format:
    if (output == "json" or template is not None) and (separator is not None or key_separator is not None):
        raise click.UsageError("--separator and --key-separator apply to plain text: leave them out")
    if output == "json":
        if template is not None:
            raise click.UsageError("give either --template or --format json")
        return json_format
    shown = shown_on(sys.stdout)
    if template is None:
        return text_format(b"\n" if separator is None else separator, key_separator, shown)
    try:
        return template_format(template, shown)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


async def _in_group(bootstrap: str, group: str, wanted: ConsumeSelection, writer: MessageWriter) -> None:
    if isinstance(wanted.start, int | Last):
        raise click.UsageError("with --group, --from must be earliest, latest or a time")
    if await is_shared(bootstrap, group):
        await consume_in_shared_group(
            bootstrap,
            group,
            wanted.topics,
            start=wanted.start,
            tags=wanted.tags,
            where=wanted.where,
            count=wanted.count,
            follow=wanted.follow,
            writer=writer,
        )
        return
    if wanted.where is not None:
        raise click.UsageError(
            f"{group} is no shared group, and --where needs one: `ledgermq group create NAME --mode shared`"
        )
    await consume_in_group(
        bootstrap,
        group,
        wanted.topics,
        start=wanted.start,
        tags=wanted.tags,
        count=wanted.count,
        follow=wanted.follow,
        writer=writer,
    )


async def _consume(bootstrap: str, wanted: ConsumeSelection, writer: MessageWriter) -> None:
    async with AsyncConsumer(
        *wanted.topics,
        bootstrap_servers=bootstrap,
        start="latest" if isinstance(wanted.start, Last) else wanted.start,
        queues=wanted.queues or None,
        tags=wanted.tags or None,
        on_dropped=wanted.on_dropped,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    ) as consumer:
        ends = None if wanted.follow else await consumer.end_offsets()
        if isinstance(wanted.start, Last):
            await _go_back(consumer, wanted.start.count, ends)
        if ends is not None and any(consumer.position(*queue) > end for queue, end in ends.items()):
            await consumer.getmany(1, timeout_ms=_WAIT_MS)  # raises: the start lies beyond the end
        while (most := wanted.more(writer.written)) and not (ends is not None and _at_end(consumer, ends)):
            messages = await consumer.getmany(most, timeout_ms=_WAIT_MS)
            if ends is not None:
                # A queue that the topic got meanwhile has no end, and its messages are left out.
                messages = [one for one in messages if one.offset < ends.get(TopicQueue(one.topic, one.queue), 0)]
            writer.write(messages)


async def _go_back(consumer: AsyncConsumer, count: int, ends: dict[TopicQueue, int] | None) -> None:
    """Continue each queue at its last `count` messages."""
    first = await consumer.beginning_offsets()
    for place, end in (ends or await consumer.end_offsets()).items():
        await consumer.seek(*place, max(first.get(place, 0), end - count))


def _at_end(consumer: AsyncConsumer, ends: dict[TopicQueue, int]) -> bool:
    return all(consumer.position(*queue) >= end for queue, end in ends.items())
