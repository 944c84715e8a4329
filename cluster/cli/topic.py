"""`ledgermq topic`: create, list and describe topics."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import click

from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option
from cluster.cli.output import counted, print_json, print_table, say
from ledger import AsyncAdmin
from ledger.client.records import TopicDescription


@click.group()
def topic() -> None:
    """Topics: create, list, describe."""


@topic.command()
@click.argument("name")
@click.option("--queues", type=click.IntRange(1, 1024), default=4, show_default=True, help="How many ordered shards.")
@bootstrap_option
@format_option
def create(name: str, queues: int, bootstrap: str, output: str) -> None:
    """Create the topic NAME."""

    async def work() -> TopicDescription:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.create_topic(name, queues=queues)

    made = asyncio.run(work())
    if output == "json":
        print_json(_as_json(made))
    else:
        say(f"Created topic {made.name} with {counted(made.queues, 'queue')}.")


@topic.command("list")
@bootstrap_option
@format_option
def list_topics(bootstrap: str, output: str) -> None:
    """List all topics."""

    async def work() -> list[TopicDescription]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return list(await admin.list_topics())

    topics = sorted(asyncio.run(work()), key=lambda one: one.name)
    if output == "json":
        print_json({"topics": [_as_json(one) for one in topics]})
    elif topics:
        print_table(["TOPIC", "QUEUES", "CREATED"], [[one.name, one.queues, _time(one.created_ms)] for one in topics])
    else:
        say("There are no topics yet: create one with `ledgermq topic create NAME`.")


@topic.command()
@click.argument("name")
@bootstrap_option
@format_option
def describe(name: str, bootstrap: str, output: str) -> None:
    """Show the queues of the topic NAME and their offsets."""

    async def work() -> TopicDescription:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            return await admin.describe_topic(name)

    found = asyncio.run(work())
    if output == "json":
        print_json(_as_json(found))
        return
    columns = ["QUEUE", "GROUP", "FIRST OFFSET", "END OFFSET", "MESSAGES"]
    print_table(
        columns,
        [
            [one.queue, found.groups[one.queue], one.first_offset, one.end_offset, one.end_offset - one.first_offset]
            for one in found.offsets
        ],
    )


def _as_json(found: TopicDescription) -> dict[str, object]:
    described: dict[str, object] = {
        "name": found.name,
        "topic_id": found.topic_id,
        "queues": found.queues,
        "created_ms": found.created_ms,
    }
    if found.offsets:
        described["offsets"] = [
            {"queue": one.queue, "first_offset": one.first_offset, "end_offset": one.end_offset}
            for one in found.offsets
        ]
    return described


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
