"""The command `ledgermq dlq` lists and resends dead letters, which are messages that a consumer group has given up."""

from __future__ import annotations

import asyncio
import sys

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.completed_names import consumer_group_names
from cluster.cli.messages.message import shown
from cluster.cli.messages.message_writer import MessageWriter
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option, moment_text
from cluster.cli.output import print_json, print_table, say
from cluster.dead_letters import DeadLetterQueue, Resent
from cluster.message_json import json_format
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.records import Message
from ledger.words import counted


@click.group(cls=CommandGroup)
def dlq() -> None:
    """List or resend dead letters: messages that a consumer group has given up."""


@dlq.command("list")
@click.argument("name", metavar="GROUP", shell_complete=consumer_group_names)
@click.option(
    "--max",
    "most",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="List at most this many, the oldest first.",
)
@click.option("--all", "everything", is_flag=True, help="Also list dead letters that were resent.")
@bootstrap_option
@format_option
def list_letters(name: str, most: int, everything: bool, bootstrap: str, output: str) -> None:
    """List the dead letters of the consumer group GROUP. With --format json, each line is a JSON object."""
    found = asyncio.run(_dead_letters(bootstrap, name, most, everything))
    if output == "json":
        MessageWriter(sys.stdout.buffer, json_format).write(found)
    elif found:
        columns = ["ID", "GIVEN UP", "ORIGIN", "ATTEMPTS", "KEY", "TAG", "BYTES", "VALUE"]
        print_table(columns, [_row(one) for one in found])
    more = "; there may be more: give a larger --max" if len(found) == most else ""
    say(f"{counted(len(found), 'dead letter')}{more}.")


@dlq.command()
@click.argument("name", metavar="GROUP", shell_complete=consumer_group_names)
@click.option(
    "--max", "most", type=click.IntRange(min=1), help="Resend at most this many, the oldest first.  [default: all]"
)
@bootstrap_option
@format_option
def resend(name: str, most: int | None, bootstrap: str, output: str) -> None:
    """Send the dead letters of the consumer group GROUP again, to the topics and queues they came from.

    All consumer groups of the original topics receive the messages again, and count the delivery attempts from 1. The
    next `resend` does not send the same dead letters again. Dead letters stay in the log until retention removes them.
    A dead letter is not sent if its original topic was deleted.
    """
    resent = asyncio.run(_resend(bootstrap, name, most))
    sent, stranded = resent.sent, resent.left_out
    if output == "json":
        told = {"group": name, "resent": sent.total(), "topics": dict(sent), "stranded": dict(stranded)}
        print_json(told)
        return
    if sent:
        say(f"Sent {counted(sent.total(), 'message')} again to {', '.join(sorted(sent))}.")
    if stranded:
        topics = ", ".join(sorted(stranded))
        say(
            f"Left out {counted(stranded.total(), 'message')}: the queues of {topics} that they came from were deleted."
        )
    if not sent and not stranded:
        say(f"Consumer group {name} has no dead letters to resend.")


async def _dead_letters(bootstrap: str, name: str, most: int, everything: bool) -> list[Message]:
    async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        letters = _letters(bootstrap, name, admin)
        begin = {} if everything else await letters.resent_before()
        found = (await letters.read(begin, most, lambda message: message))[0]
        if not found:
            await admin.describe_consumer_group(name)  # a group that does not exist is an error
        return found


async def _resend(bootstrap: str, name: str, most: int | None) -> Resent:
    async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        resent = Resent()
        await _letters(bootstrap, name, admin).resend(most, resent)
        if not resent.sent and not resent.left_out:
            await admin.describe_consumer_group(name)  # a group that does not exist is an error
        return resent


def _letters(bootstrap: str, name: str, admin: AsyncAdmin) -> DeadLetterQueue:
    return DeadLetterQueue(name, admin, bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS)


def _row(one: Message) -> list[object]:
    key = None if one.key is None else shown(one.key)
    return [
        one.id,
        moment_text(one.append_time_ms),
        one.origin,
        one.attempt - 1,
        key,
        one.tag,
        len(one.value),
        shown(one.value),
    ]
