"""The command `ledgermq dlq` lists and resends dead letters, which are messages that a consumer group has given up.

`resend` reads the dead letters as a member of a separate consumer group (`resending_group`). The progress of the
resending group records which dead letters were resent. Two `resend` commands that run at the same time share the
progress of this group, so they share the dead letters and do not send the same message.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from cluster.cli.completed_names import consumer_group_names
from cluster.cli.failure import CommandError
from cluster.cli.messages.message import shown
from cluster.cli.messages.message_writer import MessageWriter
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option, moment_text
from cluster.cli.output import print_json, print_table, say
from cluster.message_json import json_format
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.consumer.consumer import AsyncConsumer
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.client.producer.producer import AsyncProducer
from ledger.client.records import Message
from ledger.consumer_groups import validate_group_name
from ledger.errors import UnknownGroupError, UnknownQueueError, UnknownTopicError
from ledger.retries import MOVED_HEADERS, dead_letter_topic, resending_group
from ledger.words import counted

_WAIT_MS = 500
# How long `resend` waits without a message: another `resend` may have the queues.
_PATIENCE_S = 20

# Offsets by queue.
Ends = dict[int, int]


@click.group()
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
    sent, stranded = asyncio.run(_resend(bootstrap, name, most))
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
    validate_group_name(name)
    async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        ends = await _ends(admin, name)
        sent = {} if everything else await _sent_before(admin, name)
    if not any(ends.values()):
        return []
    found: list[Message] = []
    topic = dead_letter_topic(name)
    async with AsyncConsumer(
        topic, bootstrap_servers=bootstrap, on_dropped="skip", request_timeout_ms=REQUEST_TIMEOUT_MS
    ) as consumer:
        while len(found) < most and any(
            consumer.position(dead_letter_topic(name), at) < end for at, end in ends.items()
        ):
            messages = await consumer.getmany(timeout_ms=_WAIT_MS)
            found += [one for one in messages if sent.get(one.queue, 0) <= one.offset < ends[one.queue]]
    return found[:most]


async def _resend(bootstrap: str, name: str, most: int | None) -> tuple[Counter[str], Counter[str]]:
    """Send the dead letters of the group again. Return the number of messages sent to each topic, and the number of
    messages that were not sent because their topic was deleted."""
    validate_group_name(name)
    async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        ends, sent_before = await _ends(admin, name), await _sent_before(admin, name)
    if all(sent_before.get(queue, 0) >= end for queue, end in ends.items()):
        return Counter(), Counter()
    sent, stranded = Counter[str](), Counter[str]()
    async with _resending(bootstrap, name) as (consumer, producer):
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _PATIENCE_S
        while not _is_done(consumer, name, ends) and (most is None or sent.total() < most):
            room = 500 if most is None else min(500, most - sent.total())
            messages = [one for one in await consumer.getmany(room, _WAIT_MS) if one.offset < ends[one.queue]]
            taken = await asyncio.gather(*(_send_again(producer, one) for one in messages))
            consumer.finish(*messages)
            for one, is_sent in zip(messages, taken, strict=True):
                (sent if is_sent else stranded)[_origin(one)[0]] += 1
            if messages:
                give_up_at = loop.time() + _PATIENCE_S
            elif loop.time() >= give_up_at:
                raise CommandError(
                    f"no dead letter of {name} arrived within {_PATIENCE_S} s: "
                    "if another `ledgermq dlq resend` runs, wait for its end; then repeat the command"
                )
    return sent, stranded


@asynccontextmanager
async def _resending(bootstrap: str, name: str) -> AsyncIterator[tuple[AsyncGroupConsumer, AsyncProducer]]:
    consumer = AsyncGroupConsumer(
        dead_letter_topic(name),
        group=resending_group(name),
        bootstrap_servers=bootstrap,
        auto_acknowledge=False,
        max_attempts=1,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    async with consumer, AsyncProducer(bootstrap) as producer:
        yield consumer, producer


def _is_done(consumer: AsyncGroupConsumer, name: str, ends: Ends) -> bool:
    topic = dead_letter_topic(name)
    mine = {place.queue for place in consumer.assignment}
    return all(queue in mine and consumer.position(topic, queue) >= end for queue, end in ends.items())


async def _send_again(producer: AsyncProducer, message: Message) -> bool:
    """Send the message to its original topic and queue. Return False if the topic or the queue was deleted."""
    topic, queue = _origin(message)
    try:
        await producer.send(
            topic,
            message.value,
            key=message.key,
            tag=message.tag,
            headers=[(header, value) for header, value in message.headers if header not in MOVED_HEADERS],
            timestamp_ms=message.timestamp_ms,
            look_up_keys=message.look_up_keys,
            queue=queue,
        )
    except (UnknownTopicError, UnknownQueueError):
        return False
    return True


def _origin(message: Message) -> tuple[str, int]:
    topic, queue, _ = message.origin.rsplit(":", 2)
    return topic, int(queue)


async def _ends(admin: AsyncAdmin, name: str) -> Ends:
    """Return the end offset of each queue of the dead letter topic."""
    try:
        described = await admin.describe_topic(dead_letter_topic(name))
    except UnknownTopicError:
        return {}
    return {one.queue: one.end_offset for one in described.offsets}


async def _sent_before(admin: AsyncAdmin, name: str) -> Ends:
    """Return for each queue the offset before which all dead letters were resent."""
    try:
        described = await admin.describe_consumer_group(resending_group(name))
    except UnknownGroupError:
        return {}
    return {one.queue: one.offset or 0 for one in described.queues if one.topic == dead_letter_topic(name)}


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
