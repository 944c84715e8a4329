"""The command `ledgermq timer` lists, shows and cancels messages that wait for their delivery times."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.completed_names import topic_names
from cluster.cli.messages.message import shown
from cluster.cli.messages.message_writer import MessageWriter, shown_on, text_format
from cluster.cli.options import REQUEST_TIMEOUT_MS, MomentType, bootstrap_option, format_option
from cluster.cli.output import print_json, print_table, say
from cluster.message_json import bytes_as_json, look_up_keys_as_json
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.admin.waiting_messages import MAX_WAITING
from ledger.client.producer.producer import AsyncProducer
from ledger.client.records import Message, WaitingMessage
from ledger.words import counted


@click.group(cls=CommandGroup)
def timer() -> None:
    """List, show and cancel messages that wait for their delivery times."""


@timer.command("list")
@click.argument("topic", required=False, shell_complete=topic_names)
@click.option(
    "--from",
    "begin",
    type=MomentType(),
    help="Only messages with delivery times then or later: 2026-11-21T08:30:00Z, or ms since 1970.",
)
@click.option("--to", "end", type=MomentType(), help="Only messages with delivery times before then.")
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_WAITING),
    default=100,
    show_default=True,
    help="List at most this many, those that are delivered first.",
)
@bootstrap_option
@format_option
def list_waiting(
    topic: str | None, begin: datetime | None, end: datetime | None, limit: int, bootstrap: str, output: str
) -> None:
    """List the messages that wait for their delivery times, of TOPIC or of all topics, in the order of these times.

    With --format json, each line is a JSON object. The handle of a message is what `ledgermq timer cancel` takes.
    """

    async def work() -> list[WaitingMessage]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.waiting_messages(topic, begin=begin, end=end, limit=limit)

    found = asyncio.run(work())
    if output == "json":
        for message in found:
            sys.stdout.write(json.dumps(_as_json(message), ensure_ascii=True) + "\n")
    elif found:
        columns = ["DELIVER AT", "TOPIC", "QUEUE", "KEY", "TAG", "BYTES", "HANDLE"]
        print_table(columns, map(_row, found))
    if len(found) == limit:
        say(f"The first {counted(limit, 'message')}; there may be more: give a larger --limit or a later --from.")
    else:
        say(f"{counted(len(found), 'message')} waiting." if found else "No messages wait.")


@timer.command()
@click.argument("handle")
@bootstrap_option
@format_option
def show(handle: str, bootstrap: str, output: str) -> int:
    """Print the value of one waiting message to standard output, and its other fields to standard error.

    The exit status is 1 if no message with this HANDLE waits.
    """

    async def work() -> WaitingMessage | None:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.waiting_message(handle)

    found = asyncio.run(work())
    if found is None:
        say("No message with this handle waits: it was delivered or cancelled, or never existed.")
        return 1
    if output == "json":
        print_json(_as_json(found) | _content(found))
        return 0
    writer = MessageWriter(sys.stdout.buffer, text_format(b"\n", None, shown_on(sys.stdout)))
    writer.write([_as_message(found)])
    say(_described(found))
    return 0


@timer.command()
@click.argument("handles", nargs=-1, metavar="HANDLE...")
@bootstrap_option
@format_option
def cancel(handles: Sequence[str], bootstrap: str, output: str) -> int:
    """Cancel messages that wait for their delivery times. A single - reads the handles from standard input, one a line.

    The exit status is 1 if a message was not cancelled: it was delivered or cancelled before, or never existed.
    """
    if not handles:
        raise click.UsageError("no handle is given: `ledgermq timer list` shows the handles, and - reads them")

    async def work(given: Iterable[str]) -> list[bool]:
        async with AsyncProducer(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as producer:
            return await producer.cancel_many(given)

    given = list(_lines() if tuple(handles) == ("-",) else handles)
    results = asyncio.run(work(given))
    if output == "json":
        for handle, cancelled in zip(given, results, strict=True):
            sys.stdout.write(json.dumps({"handle": handle, "cancelled": cancelled}) + "\n")
    missed = len(results) - sum(results)
    say(f"{counted(sum(results), 'message')} cancelled" + (f", {missed:,} did not wait." if missed else "."))
    return 1 if missed else 0


def _lines() -> Iterator[str]:
    return (line.strip() for line in sys.stdin if line.strip())


def _row(message: WaitingMessage) -> list[object]:
    return [
        _moment(message),
        message.topic or "(deleted)",
        message.queue,
        None if message.key is None else shown(message.key),
        message.tag,
        message.size,
        message.handle,
    ]


def _moment(message: WaitingMessage) -> str:
    return message.deliver_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _as_json(message: WaitingMessage) -> dict[str, object]:
    fields: dict[str, object] = {
        "handle": message.handle,
        "topic": message.topic,
        "queue": message.queue,
        "deliver_at": _moment(message),
        "timestamp_ms": message.timestamp_ms,
        **bytes_as_json("key", message.key),
        "tag": message.tag,
        "bytes": message.size,
    }
    return fields | ({"unreadable": message.unreadable} if message.unreadable else {})


def _content(message: WaitingMessage) -> dict[str, object]:
    headers = [{"name": name, **bytes_as_json("value", value)} for name, value in message.headers]
    return {"headers": headers, **look_up_keys_as_json(message.look_up_keys), **bytes_as_json("value", message.value)}


def _as_message(found: WaitingMessage) -> Message:
    return Message(
        found.topic,
        found.queue,
        -1,
        found.timestamp_ms,
        0,
        found.key,
        found.value,
        found.tag,
        found.headers,
        0,
        found.look_up_keys,
    )


def _described(found: WaitingMessage) -> str:
    parts = [f"{found.topic or '(deleted)'} queue {found.queue}", f"will be delivered at {_moment(found)}"]
    if found.key is not None:
        parts.append(f"key {shown(found.key)}")
    if found.tag is not None:
        parts.append(f"tag {found.tag}")
    parts += [f"look-up key {shown(key)}" for key in found.look_up_keys]
    parts += [f"{name}: {shown(value)}" for name, value in found.headers]
    if found.unreadable:
        parts.append(f"unreadable: {found.unreadable}")
    return ", ".join(parts)
