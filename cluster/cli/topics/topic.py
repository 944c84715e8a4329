"""The command `ledgermq topic` creates, alters, deletes, lists and describes topics, and finds the offsets of a
time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.completed_names import topic_names
from cluster.cli.options import REQUEST_TIMEOUT_MS, MomentType, bootstrap_option, format_option, moment_text
from cluster.cli.output import print_json, print_table, say
from cluster.cli.question import ask
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.admin.offsets import in_ms
from ledger.client.records import TopicDescription, TopicQueue
from ledger.errors import TopicExistsError
from ledger.topics import MAX_REPLICAS, TOPIC_TYPES, TopicType, is_system_topic, validate_topic_name
from ledger.words import counted


@click.group(cls=CommandGroup)
def topic() -> None:
    """Create, alter, delete, list and describe topics, and find offsets by time."""


@topic.command()
@click.argument("name")
@click.option(
    "--queues",
    type=click.IntRange(1, 1024),
    default=4,
    show_default=True,
    help="Number of queues. Messages keep their order within a queue.",
)
@click.option(
    "--type",
    "topic_type",
    type=click.Choice(list(TOPIC_TYPES)),
    default="mixed",
    show_default=True,
    help="What producers may send. mixed: everything; normal: no delivery times, no transactions; fifo: the same, and "
    "each message needs a key; delay: only delivery times; transaction: only transactions.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, MAX_REPLICAS),
    help="Place the topic in shards with this number of replicas (`ledgermq cluster set-replicas`).  [default: the "
    "number of the cluster]",
)
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the topic exists, also with other queues or a type.")
@bootstrap_option
@format_option
def create(
    name: str, queues: int, topic_type: str, replicas: int | None, if_not_exists: bool, bootstrap: str, output: str
) -> None:
    """Create the topic NAME. Without --if-not-exists, the command fails if a topic with this name exists."""

    async def work() -> tuple[TopicDescription, bool]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            try:
                return await admin.create_topic(name, queues=queues, type=topic_type, replicas=replicas), True
            except TopicExistsError:
                if not if_not_exists:
                    raise
                return await admin.describe_topic(name), False

    found, is_new = asyncio.run(work())
    if output == "json":
        print_json(_as_json(found))
    elif is_new:
        say(f"Created topic {found.name} with {_size(found)}.")
    else:
        say(f"Topic {found.name} exists already with {_size(found)}, and stays as it is.")


@topic.command()
@click.argument("name", shell_complete=topic_names)
@click.option(
    "--queues",
    type=click.IntRange(1, 1024),
    help="The new number of queues. It cannot be less than now.",
)
@click.option(
    "--type",
    "topic_type",
    type=click.Choice(list(TOPIC_TYPES)),
    help="The new type, which counts for messages that producers send from now on.",
)
@bootstrap_option
@format_option
def alter(name: str, queues: int | None, topic_type: str | None, bootstrap: str, output: str) -> None:
    """Increase the number of queues of the topic NAME, or change its type. New queues are placed in the shards that
    have the fewest queues.

    After the change, messages with a key can go to another queue than earlier messages with the same key. The order
    between messages with one key from before and after the change is not kept.
    """

    async def work() -> TopicDescription:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.alter_topic(name, queues, type=topic_type)

    if queues is None and topic_type is None:
        raise click.UsageError("give --queues or --type")
    altered = asyncio.run(work())
    if output == "json":
        print_json(_as_json(altered))
    else:
        say(f"Topic {altered.name} has {_size(altered)}.")


@topic.command()
@click.argument("name", shell_complete=topic_names)
@click.option("--yes", is_flag=True, help="Delete without a question.")
@bootstrap_option
@format_option
def delete(name: str, yes: bool, bootstrap: str, output: str) -> None:
    """Delete the topic NAME and all its messages, permanently.

    After the deletion, requests of producers and consumers of this topic fail. If a topic with this name is created
    later, it is a new topic without the old messages.
    """

    async def work() -> None:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            if not yes:
                validate_topic_name(name)
                found = await admin.describe_topic(name)
                messages = counted(sum(one.end_offset - one.first_offset for one in found.offsets), "message")
                ask(f"Delete topic {name} with {messages}?")
            await admin.delete_topic(name)

    asyncio.run(work())
    if output == "json":
        print_json({"deleted": name})
    else:
        say(f"Deleted topic {name}.")


@topic.command("list")
@click.option("--all", "with_system_topics", is_flag=True, help="Also list system topics: retries and dead letters.")
@bootstrap_option
@format_option
def list_topics(with_system_topics: bool, bootstrap: str, output: str) -> None:
    """List the topics, with their numbers of queues, their types and their creation times.

    System topics, whose names begin with %, are listed only with --all.
    """

    async def work() -> list[TopicDescription]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return list(await admin.list_topics())

    found = sorted(asyncio.run(work()), key=lambda one: one.name)
    topics = [one for one in found if with_system_topics or not is_system_topic(one.name)]
    if output == "json":
        print_json({"topics": [_as_json(one) for one in topics]})
    elif topics:
        print_table(
            ["TOPIC", "QUEUES", "TYPE", "CREATED"],
            [[one.name, one.queues, one.type, _time(one.created_ms)] for one in topics],
        )
    else:
        say("There are no topics yet: create one with `ledgermq topic create NAME`.")


@topic.command()
@click.argument("name", shell_complete=topic_names)
@bootstrap_option
@format_option
def describe(name: str, bootstrap: str, output: str) -> None:
    """Show the type of the topic NAME, and each of its queues: the shard, first offset, end offset and number of
    messages."""

    async def work() -> TopicDescription:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.describe_topic(name)

    found = asyncio.run(work())
    if output == "json":
        print_json(_as_json(found))
        return
    say(f"Topic {found.name} has {_size(found)}.")
    columns = ["QUEUE", "SHARD", "FIRST OFFSET", "END OFFSET", "MESSAGES"]
    print_table(
        columns,
        [
            [one.queue, found.shards[one.queue], one.first_offset, one.end_offset, one.end_offset - one.first_offset]
            for one in found.offsets
        ],
    )


@topic.command()
@click.argument("name", shell_complete=topic_names)
@click.option(
    "--time",
    "moment",
    type=MomentType(),
    required=True,
    help="A time such as 2026-11-21T08:30:00Z (default UTC), or ms since 1970.",
)
@bootstrap_option
@format_option
def offsets(name: str, moment: datetime, bootstrap: str, output: str) -> None:
    """For each queue of the topic NAME, show the offset of the first message that was appended at --time or later.

    If a queue has no such message, the command shows the end offset, which is the offset of the queue's next message.
    """
    time_ms = in_ms(moment)

    async def work() -> list[tuple[int, int, int]]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            described = await admin.describe_topic(name)
            times = {TopicQueue(name, queue): time_ms for queue in range(described.queues)}
            found = await admin.offsets_for_times(times)
            return [(one.queue, found[TopicQueue(name, one.queue)], one.end_offset) for one in described.offsets]

    rows = asyncio.run(work())
    if output == "json":
        keys = ("queue", "offset", "end_offset")
        found = [dict(zip(keys, row, strict=True)) for row in rows]
        print_json({"name": name, "time_ms": time_ms, "offsets": found})
        return
    print_table(["QUEUE", "OFFSET", "END OFFSET"], rows)
    if all(offset >= end for _, offset, end in rows):
        say(f"No message was appended at {moment_text(time_ms)} or later, so these are the end offsets.")


def _as_json(found: TopicDescription) -> dict[str, object]:
    described: dict[str, object] = {
        "name": found.name,
        "topic_id": found.topic_id,
        "queues": found.queues,
        "shards": list(found.shards),
        "type": found.type,
        "created_ms": found.created_ms,
    }
    if found.offsets:
        described["offsets"] = [
            {"queue": one.queue, "first_offset": one.first_offset, "end_offset": one.end_offset}
            for one in found.offsets
        ]
    return described


def _size(found: TopicDescription) -> str:
    of_type = "" if found.type == TopicType.MIXED.word else f" and the type {found.type}"
    return counted(found.queues, "queue") + of_type


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
