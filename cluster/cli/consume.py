"""`ledgermq consume`: a topic's messages on standard output.

The one idea: without --follow the end is fixed when the command starts, so it ends also under a busy producer.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import click

from cluster.cli.options import Separator, bootstrap_option, format_option
from cluster.cli.output import say
from ledger import AsyncConsumer, Message, TopicQueue

_MESSAGES_AT_ONCE = 5_000
_WAIT_MS = 500


Start = Literal["earliest", "latest"] | int


class StartType(click.ParamType[Start]):
    """earliest, latest, or an offset."""

    name = "earliest|latest|offset"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        if isinstance(value, int) or value in ("earliest", "latest"):
            return value  # type: ignore[no-any-return]
        if value.isascii() and value.isdecimal():
            return int(value)
        return self.fail(f"{value!r} is neither earliest, nor latest, nor an offset", param, ctx)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be read, and when to stop."""

    topic: str
    start: Start
    queues: tuple[int, ...]
    tags: tuple[str, ...]
    count: int | None
    follow: bool


@click.command()
@click.argument("topic")
@click.option(
    "--from", "start", type=StartType(), default="earliest", show_default=True, help="Where to begin, in each queue."
)
@click.option("--count", type=click.IntRange(min=0), help="Stop after so many messages.")
@click.option("--follow", is_flag=True, help="Wait for more at the end (always so with --from latest).")
@click.option("--queue", "queues", type=click.IntRange(min=0), multiple=True, help="Only this queue; may be repeated.")
@click.option("--tag", "tags", multiple=True, help="Only messages with this tag; may be repeated.")
@click.option("--separator", type=Separator(), default="\\n", show_default=True, help="Written after each message.")
@click.option("--key-separator", type=Separator(), help="Write the key and this before each message.")
@bootstrap_option
@format_option
def consume(
    topic: str,
    start: Start,
    count: int | None,
    follow: bool,
    queues: tuple[int, ...],
    tags: tuple[str, ...],
    separator: bytes,
    key_separator: bytes | None,
    bootstrap: str,
    output: str,
) -> None:
    """Write the messages of TOPIC to standard output, one a line, as they were sent; or as JSON, one object a line.

    In JSON, a key or value that is not UTF-8 stands as base64 under key_base64 or value_base64.
    """
    if output == "json":
        write: Callable[[Iterable[Message]], bytes] = _json_lines
    elif key_separator is None:
        write = lambda messages: b"".join([part for one in messages for part in (one.value, separator)])  # noqa: E731
    else:
        write = lambda messages: b"".join(  # noqa: E731
            [part for one in messages for part in (one.key or b"", key_separator, one.value, separator)]
        )
    wanted = Wanted(topic, start, queues, tags, count, follow or start == "latest")
    total = asyncio.run(_consume(bootstrap, wanted, write))
    say(f"{total:,} messages")


async def _consume(bootstrap: str, wanted: Wanted, write: Callable[[Iterable[Message]], bytes]) -> int:
    consumer = AsyncConsumer(
        wanted.topic,
        bootstrap_servers=bootstrap,
        start=wanted.start,
        queues=wanted.queues or None,
        tags=wanted.tags or None,
    )
    total = 0
    async with consumer:
        ends = None if wanted.follow else await consumer.end_offsets()
        if ends is not None and any(consumer.position(*queue) > end for queue, end in ends.items()):
            await consumer.getmany(1, timeout_ms=_WAIT_MS)  # an error, which reading raises
        while wanted.count is None or total < wanted.count:
            if ends is not None and _at_end(consumer, ends):
                break
            most = _MESSAGES_AT_ONCE if wanted.count is None else min(_MESSAGES_AT_ONCE, wanted.count - total)
            messages = await consumer.getmany(most, timeout_ms=_WAIT_MS)
            if ends is not None:
                messages = [one for one in messages if one.offset < ends[TopicQueue(one.topic, one.queue)]]
            _put(write(messages))
            total += len(messages)
    return total


def _at_end(consumer: AsyncConsumer, ends: dict[TopicQueue, int]) -> bool:
    return all(consumer.position(*queue) >= end for queue, end in ends.items())


def _put(data: bytes) -> None:
    if data:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _json_lines(messages: Iterable[Message]) -> bytes:
    return "".join([json.dumps(_as_json(one), ensure_ascii=False) + "\n" for one in messages]).encode()


def _as_json(message: Message) -> dict[str, object]:
    return {
        "topic": message.topic,
        "queue": message.queue,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
        "term": message.term,
        **_text("key", message.key),
        "tag": message.tag,
        "headers": [{"name": name, **_text("value", value)} for name, value in message.headers],
        **_text("value", message.value),
    }


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        assert data is not None
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}
