"""The command `ledgermq message` gets one message by its topic, queue and offset, finds messages by their key, and
traces one message (trace.py).

The id of a message is `topic:queue:offset`. `ledgermq message query` prints ids, and `ledgermq message get` accepts
them.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.completed_names import topic_names
from cluster.cli.messages.message_id import MessageId, MessageIdType
from cluster.cli.messages.message_writer import MessageWriter, shown_on, text_format
from cluster.cli.messages.trace import trace
from cluster.cli.options import REQUEST_TIMEOUT_MS, MomentType, bootstrap_option, format_option, moment_text
from cluster.cli.output import print_table, say
from cluster.message_json import json_format
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.admin.offsets import in_ms
from ledger.client.admin.queries import MAX_MESSAGES
from ledger.client.records import Message
from ledger.words import counted

_SHOWN_CHARACTERS = 60


@click.group(cls=CommandGroup)
def message() -> None:
    """Get one message by its topic, queue and offset, find messages by key, or trace what became of a message."""


message.add_command(trace)


@message.command()
@click.argument("place", metavar="TOPIC:QUEUE:OFFSET", type=MessageIdType())
@bootstrap_option
@format_option
def get(place: MessageId, bootstrap: str, output: str) -> None:
    """Print the value of one message to standard output, and its id, times, key and headers to standard error.

    With --format json, the value and all other fields are printed as one JSON object to standard output.
    """

    async def work() -> Message:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.get_message(*place)

    found = asyncio.run(work())
    if output == "json":
        MessageWriter(sys.stdout.buffer, json_format).write([found])
        return
    MessageWriter(sys.stdout.buffer, text_format(b"\n", None, shown_on(sys.stdout))).write([found])
    say(_described(found))


@message.command()
@click.option("--topic", required=True, help="Topic to search, in all its queues.", shell_complete=topic_names)
@click.option("--key", required=True, help="Key of the messages, or one of their look-up keys.")
@click.option(
    "--from",
    "begin",
    type=MomentType(),
    help="Only messages appended then or later: 2026-11-21T08:30:00Z, or ms since 1970.",
)
@click.option("--to", "end", type=MomentType(), help="Only messages appended before then.")
@click.option(
    "--max",
    "most",
    type=click.IntRange(1, MAX_MESSAGES),
    default=64,
    show_default=True,
    help="Find at most this many, the newest first.",
)
@bootstrap_option
@format_option
def query(
    topic: str, key: str, begin: datetime | None, end: datetime | None, most: int, bootstrap: str, output: str
) -> None:
    """Find messages by their key or a look-up key, and print the newest messages first.

    With --format json, each line is a JSON object.
    """

    async def work() -> list[Message]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.query_messages(
                topic,
                key,
                begin_ms=None if begin is None else in_ms(begin),
                end_ms=None if end is None else in_ms(end),
                max_messages=most,
            )

    found = asyncio.run(work())
    if output == "json":
        MessageWriter(sys.stdout.buffer, json_format).write(found)
    elif found:
        columns = ["ID", "APPENDED", "TAG", "BYTES", "VALUE"]
        print_table(
            columns,
            [[one.id, moment_text(one.append_time_ms), one.tag, len(one.value), shown(one.value)] for one in found],
        )
    say(_summary(found, topic, key, most))


def _summary(found: list[Message], topic: str, key: str, most: int) -> str:
    if not found:
        return f"No message of topic {topic} has the key {key!r} between --from and --to."
    if len(found) == most:
        return f"The newest {counted(most, 'message')}; there may be more: give a larger --max or an earlier --to."
    return counted(len(found), "message")


def _described(found: Message) -> str:
    parts = [found.id, f"appended {moment_text(found.append_time_ms)}", f"term {found.term}"]
    if found.key is not None:
        parts.append(f"key {shown(found.key)}")
    if found.tag is not None:
        parts.append(f"tag {found.tag}")
    parts += [f"look-up key {shown(key)}" for key in found.look_up_keys]
    parts += [f"{name}: {shown(value)}" for name, value in found.headers]
    return ", ".join(parts)


def shown(data: bytes) -> str:
    """Return the data as printable text on one line of at most 60 characters."""
    text = data.decode(errors="backslashreplace")
    text = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text[: _SHOWN_CHARACTERS + 1])
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
