"""The command `ledgermq group` lists, describes, resets and deletes consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from typing import TypeVar

import click

from cluster.cli.completed_names import consumer_group_names, topic_names
from cluster.cli.messages.start import Start, StartType
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option
from cluster.cli.output import data_console, print_json, print_table, say
from cluster.cli.question import ask
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.admin.consumer_group_records import (
    ConsumerGroupDescription,
    ConsumerGroupMember,
    ConsumerGroupSummary,
    OffsetReset,
    QueueConsumption,
)
from ledger.topics import is_system_topic
from ledger.words import counted

T = TypeVar("T")


@click.group()
def group() -> None:
    """List, describe, reset and delete consumer groups."""


@group.command("list")
@bootstrap_option
@format_option
def list_groups(bootstrap: str, output: str) -> None:
    """List the consumer groups and their lag.

    \b
    LAG            messages that are not consumed
    BEHIND         seconds since the oldest of these messages was appended
    RETRIES        messages that will be delivered again
    DEAD LETTERS   messages that were given up and not resent
    """
    groups = _asked(bootstrap, lambda admin: admin.list_consumer_groups())
    if output == "json":
        print_json({"consumer_groups": [asdict(one) for one in groups]})
    elif groups:
        columns = ["GROUP", "MEMBERS", "STRATEGY", "QUEUES", "LAG", "BEHIND", "RETRIES", "DEAD LETTERS"]
        rows = [
            [
                one.name,
                one.members,
                one.strategy or None,
                one.queues,
                one.lag,
                _seconds(one.lag_s, one.lag),
                one.retries,
                one.dead_letters,
            ]
            for one in groups
        ]
        print_table(columns, rows)
    else:
        say("There are no consumer groups yet. `ledgermq consume TOPIC --group NAME` creates one.")


@group.command()
@click.argument("name", shell_complete=consumer_group_names)
@bootstrap_option
@format_option
def describe(name: str, bootstrap: str, output: str) -> None:
    """Show the members of the consumer group NAME, and its offset in each queue.

    \b
    LAG            messages that are not consumed
    BEHIND         seconds since the first of these messages was appended
    SETTLED        messages after OFFSET that were moved to a retry topic

    Retry queues without waiting messages are not shown.
    """
    found = _asked(bootstrap, lambda admin: admin.describe_consumer_group(name))
    if output == "json":
        print_json(_as_json(found))
        return
    if found.members:
        print_table(["MEMBER", "CLIENT", "ROOM", "QUEUES"], [_member_row(one) for one in found.members])
        data_console().print()
    columns = ["TOPIC", "QUEUE", "OFFSET", "END OFFSET", "LAG", "BEHIND", "SETTLED", "OWNER", "EPOCH"]
    print_table(columns, [_queue_row(one) for one in found.queues if one.lag or not is_system_topic(one.topic)])
    if found.rebalancing:
        say("Members have joined or left: the queues are being assigned again.")
    elif found.strategy == "broadcast":
        say("This is one consumer of a broadcast; it receives all messages. Whether it runs is unknown.")
    elif not found.members:
        say("The consumer group has no members at the moment.")
    else:
        say(f"Queues are assigned by {found.strategy}.")


@group.command()
@click.argument("name", shell_complete=consumer_group_names)
@click.option(
    "--to",
    "target",
    type=StartType(),
    required=True,
    help="The new offset. A time means the first message appended then or later.",
)
@click.option(
    "--topic",
    help="Only this topic. Required if --to is an offset.  [default: all topics that it consumes]",
    shell_complete=topic_names,
)
@click.option(
    "--queue",
    "queues",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this queue. Repeat it for more queues.  [default: all]",
)
@click.option("--dry-run", is_flag=True, help="Print the new offsets, and change nothing.")
@bootstrap_option
@format_option
def reset(
    name: str,
    target: Start,
    topic: str | None,
    queues: tuple[int, ...],
    dry_run: bool,
    bootstrap: str,
    output: str,
) -> None:
    """Move the offsets of the consumer group NAME. You need not stop the members of the group: they continue at the
    new offsets."""
    resets: list[OffsetReset] = _asked(
        bootstrap,
        lambda admin: admin.reset_offsets(name, target, topic=topic, queues=queues or None, dry_run=dry_run),
    )
    if output == "json":
        print_json({"name": name, "dry_run": dry_run, "queues": [asdict(one) for one in resets]})
        return
    print_table(
        ["TOPIC", "QUEUE", "OFFSET", "NEW OFFSET"], [[one.topic, one.queue, one.before, one.after] for one in resets]
    )
    place = target.isoformat() if isinstance(target, datetime) else target
    would = "would continue" if dry_run else "continues"
    say(f"Consumer group {name} {would} at {place} in {counted(len(resets), 'queue')}.")


@group.command()
@click.argument("name", shell_complete=consumer_group_names)
@click.option("--yes", is_flag=True, help="Delete without a question.")
@bootstrap_option
@format_option
def delete(name: str, yes: bool, bootstrap: str, output: str) -> None:
    """Delete the offsets, the retries and the dead letters of the consumer group NAME, permanently.

    Stop the consumers of the group first. If the group has retries or dead letters, the command asks before it deletes
    them.
    """

    async def work(admin: AsyncAdmin) -> int:
        if not yes:
            _ask_if_messages_go(next((one for one in await admin.list_consumer_groups() if one.name == name), None))
        return await admin.delete_consumer_group(name)

    queues = _asked(bootstrap, work)
    if output == "json":
        print_json({"deleted": name, "queues": queues})
    else:
        say(f"Deleted consumer group {name}, which had consumed {counted(queues, 'queue')}.")


def _ask_if_messages_go(found: ConsumerGroupSummary | None) -> None:
    """Ask the user for confirmation if retries or dead letters would be deleted. Raises CommandError unless the
    user answers yes."""
    if found is not None and (found.retries or found.dead_letters):
        waiting, dead = counted(found.retries, "message"), counted(found.dead_letters, "dead letter")
        ask(f"Delete consumer group {found.name}, with {waiting} to be delivered again and {dead}?")


def _asked(bootstrap: str, question: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
    async def work() -> T:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await question(admin)

    return asyncio.run(work())


def _member_row(one: ConsumerGroupMember) -> list[object]:
    topics: dict[str, list[str]] = {}
    for place in one.queues:
        topics.setdefault(place.topic, []).append(str(place.queue))
    queues = "; ".join(f"{topic} {','.join(numbers)}" for topic, numbers in topics.items())
    return [one.member, one.client_id, one.room or None, queues or None]


def _queue_row(one: QueueConsumption) -> list[object]:
    owner = (
        one.owner if one.owner == one.next_owner else f"{one.owner or 'nobody'} (next: {one.next_owner or 'nobody'})"
    )
    behind = _seconds(one.lag_s or 0.0, one.lag or 0)
    return [
        one.topic,
        one.queue,
        one.offset,
        one.end_offset,
        one.lag,
        behind,
        one.settled,
        owner or None,
        one.epoch or None,
    ]


def _seconds(seconds: float, messages: int) -> str | None:
    return f"{seconds:,.1f} s" if messages else None


def _as_json(found: ConsumerGroupDescription) -> dict[str, object]:
    described = asdict(found)
    described["members"] = [
        {**asdict(one), "queues": [place._asdict() for place in one.queues]} for one in found.members
    ]
    return described
