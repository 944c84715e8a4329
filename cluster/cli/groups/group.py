"""The command `ledgermq group` creates, lists, describes, resets and deletes consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from typing import TypeVar

import click

from cluster.cli.command_group import CommandGroup
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
from ledger.state.group_modes import DEFAULT_ATTEMPTS, MAX_ATTEMPTS, MIN_ATTEMPTS
from ledger.topics import is_system_topic
from ledger.words import counted

T = TypeVar("T")


@click.group(cls=CommandGroup)
def group() -> None:
    """Create, list, describe, reset and delete consumer groups."""


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
        columns = ["GROUP", "MEMBERS", "STRATEGY", "QUEUES", "LAG", "BEHIND", "MODE", "RETRIES", "DEAD LETTERS"]
        rows = [
            [
                one.name,
                one.members,
                one.strategy or None,
                one.queues,
                one.lag,
                _seconds(one.lag_s, one.lag),
                one.mode,
                one.retries,
                one.dead_letters,
            ]
            for one in groups
        ]
        print_table(columns, rows)
    else:
        say("There are no consumer groups yet. `ledgermq consume TOPIC --group NAME` creates one.")


@group.command()
@click.argument("name")
@click.option(
    "--mode",
    type=click.Choice(["queue", "shared"]),
    required=True,
    help="queue: each queue belongs to one member at a time. shared: each message is leased by itself.",
)
@click.option(
    "--order",
    type=click.Choice(["key"]),
    help="key: a shared group hands out messages with one key one after another.  [default: no order]",
)
@click.option(
    "--max-attempts",
    type=click.IntRange(min=MIN_ATTEMPTS, max=MAX_ATTEMPTS),
    default=DEFAULT_ATTEMPTS,
    show_default=True,
    help="A message of a shared group that was handed out so often goes to the dead letters.",
)
@bootstrap_option
@format_option
def create(name: str, mode: str, order: str | None, max_attempts: int, bootstrap: str, output: str) -> None:
    """Create the consumer group NAME, and fix how its members share the work.

    A queue group need not be created: its first member creates it. The mode of a group cannot be changed. The command
    does nothing if the group exists with the same mode.
    """

    async def work(admin: AsyncAdmin) -> None:
        await admin.create_consumer_group(name, mode=mode, order=order, max_attempts=max_attempts)

    _asked(bootstrap, work)
    if output == "json":
        print_json({"name": name, "mode": mode, "order": order, "max_attempts": max_attempts})
    else:
        say(f"Consumer group {name} is a {mode} group{', with order by key' if order else ''}.")


@group.command()
@click.argument("name", shell_complete=consumer_group_names)
@bootstrap_option
@format_option
def describe(name: str, bootstrap: str, output: str) -> None:
    """Show the members of the consumer group NAME, and its offset in each queue.

    \b
    LAG            messages that are not consumed
    BEHIND         seconds since the first of these messages was appended
    SETTLED        messages after OFFSET that were moved to a retry topic, or are consumed
    LEASED         of a shared group: messages that members have now
    WAITING        of a shared group: messages that were handed out before or passed over, and that nobody has now
    NEXT END       of a shared group: when the first of the leases ends
    ATTEMPTS       of a shared group: how often the message was handed out that was handed out most often

    Retry queues without waiting messages are not shown.
    """
    found = _asked(bootstrap, lambda admin: admin.describe_consumer_group(name))
    if output == "json":
        print_json(_as_json(found))
        return
    if found.mode == "shared":
        _print_shared(found)
        return
    if found.members:
        print_table(["MEMBER", "CLIENT", "ROOM", "QUEUES"], [_member_row(one) for one in found.members])
        data_console().print()
    columns = ["TOPIC", "QUEUE", "OFFSET", "END OFFSET", "LAG", "BEHIND", "SETTLED", "OWNER", "EPOCH"]
    print_table(columns, [_queue_row(one) for one in found.queues if one.lag or not is_system_topic(one.topic)])
    if found.rebalancing:
        say(f"Members have joined or left: shard {found.coordinator} is assigning the queues again.")
    elif found.strategy == "broadcast":
        say("This is one consumer of a broadcast; it receives all messages. Whether it runs is unknown.")
    elif not found.members:
        say("The consumer group has no members at the moment.")
    else:
        say(f"Queues are assigned by {found.strategy}, in shard {found.coordinator}.")


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


@group.command("move-coordinator")
@click.argument("name", shell_complete=consumer_group_names)
@click.option(
    "--shard", type=click.IntRange(min=0), required=True, help="The shard that coordinates the group from now on."
)
@bootstrap_option
@format_option
def move_coordinator(name: str, shard: int, bootstrap: str, output: str) -> None:
    """Let the leader of another shard coordinate the consumer group NAME.

    The coordinator keeps the members of a group and assigns the queues. A new group is coordinated in the shard with
    the fewest groups. After a move the members join the new coordinator by themselves, within about a second; up to
    then some messages may be delivered twice. A shared group has no coordinator that can be moved.
    """
    _asked(bootstrap, lambda admin: admin.move_coordinator(name, shard))
    if output == "json":
        print_json({"name": name, "coordinator": shard})
    else:
        say(f"Shard {shard} coordinates consumer group {name}. Its members join there by themselves.")


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


def _print_shared(found: ConsumerGroupDescription) -> None:
    columns = ["TOPIC", "QUEUE", "OFFSET", "END OFFSET", "LAG", "BEHIND", "SETTLED", "LEASED", "WAITING", "NEXT END"]
    rows = [
        [
            one.topic,
            one.queue,
            one.offset,
            one.end_offset,
            one.lag,
            _seconds(one.lag_s or 0.0, one.lag or 0),
            one.settled,
            one.leased,
            one.waiting,
            _seconds(one.lease_left_s or 0.0, one.leased or 0),
            one.attempts,
        ]
        for one in found.queues
    ]
    print_table([*columns, "ATTEMPTS"], rows)
    order = ", with order by key" if found.order else ""
    consumers = counted(found.consumers or 0, "consumer")
    say(
        f"This is a shared group{order}; {consumers} connected. A message goes to the dead letters after "
        f"{found.max_attempts} attempts."
    )


def _seconds(seconds: float, messages: int) -> str | None:
    return f"{seconds:,.1f} s" if messages else None


def _as_json(found: ConsumerGroupDescription) -> dict[str, object]:
    described = asdict(found)
    described["members"] = [
        {**asdict(one), "queues": [place._asdict() for place in one.queues]} for one in found.members
    ]
    return described
