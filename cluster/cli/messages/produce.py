"""The command `ledgermq produce` sends the lines of a file or of standard input to a topic, or messages of a template.

A thread reads the input and splits it into lines (line_reader.py). The event loop sends the lines to the cluster. A
line that the user types on a terminal is sent immediately.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import click

from cluster.cli.completed_names import topic_names
from cluster.cli.messages.flow import in_turns, limited, paced
from cluster.cli.messages.json_line import message_of
from cluster.cli.messages.line_reader import LineReader, Source
from cluster.cli.messages.message_template import MessageTemplate, Template
from cluster.cli.messages.produce_report import ProduceReport, progress
from cluster.cli.options import Duration, FiniteRange, MomentType, Separator, bootstrap_option, format_option
from cluster.cli.stopping import run_until_stopped
from cluster.load.line_sender import Headers, Labels, LineMessage, LineOrigin, LineSender
from cluster.load.line_splitter import LONGEST_LINE_BYTES
from ledger.client.producer.producer import AsyncProducer
from ledger.limits import validate_headers, validate_look_up_keys

T = TypeVar("T")

_CLOSE_SECONDS = 3.0
# JSON may write a byte as six characters (\u0000).
_LONGEST_JSON_BYTES = 6 * LONGEST_LINE_BYTES


class HeaderType(click.ParamType[tuple[str, bytes]]):
    """The click type of a header, NAME=VALUE."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, bytes]:
        if isinstance(value, tuple):
            return value
        name, found, content = value.partition("=")
        if not found or not name:
            self.fail(f"{value!r} is not a header: give NAME=VALUE", param, ctx)
        return name, os.fsencode(content)


@dataclass(frozen=True, slots=True)
class Plan:
    """What `ledgermq produce` sends: lines (as they are, with a key before a separator, or as JSON), or the messages of
    a template. `count` and `rate` (messages a second) are None if there is no limit."""

    source: Source | MessageTemplate
    labels: Labels
    key_separator: bytes | None
    is_json: bool
    count: int | None
    rate: float | None


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@click.option("--key", help="Key of all messages. All messages then go to one queue.  [default: no key]")
@click.option(
    "--key-separator", type=Separator(), help="Text between key and value in each line.  [default: lines have no key]"
)
@click.option("--tag", help="Tag of all messages.  [default: no tag]")
@click.option(
    "--look-up-key",
    "look_up_keys",
    multiple=True,
    help="A further key by which `ledgermq message query` finds the messages. Repeat it for more keys.  "
    "[default: none]",
)
@click.option(
    "-H",
    "--header",
    "headers",
    type=HeaderType(),
    multiple=True,
    metavar="NAME=VALUE",
    help="Header of all messages. Repeat it for more headers.  [default: no headers]",
)
@click.option(
    "--queue", type=click.IntRange(min=0), help="Queue of all messages.  [default: chosen by key, or in turn]"
)
@click.option(
    "--separator",
    type=Separator(),
    help="Text at the end of each message.  [default: \\n, also with \\r before it]",
)
@click.option(
    "--input",
    "form",
    type=click.Choice(["lines", "json"]),
    help="Form of the input: lines, or JSON lines as `ledgermq consume --format json` prints them.  "
    "[default: json with --format json, otherwise lines]",
)
@click.option(
    "--template",
    metavar="TEXT",
    help="Send messages that are made from TEXT, and read no input. TEXT and --key may contain {{count}}, {{time}}, "
    "{{unix_ms}}, {{id}} (random), and {{random:N}} (N random letters and digits).",
)
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=0),
    help="Send only so many messages.  [default: 1 with --template, otherwise all]",
)
@click.option("--rate", type=FiniteRange(min=0.001), help="Messages a second.  [default: as fast as possible]")
@click.option(
    "--delay",
    type=Duration(),
    help="Deliver each message after this time, such as 90s, 10m, 2h or 7d.  [default: at once]",
)
@click.option(
    "--deliver-at",
    type=MomentType(),
    help="Deliver all messages at this time: 2026-11-21T08:30:00Z, or ms since 1970.",
)
@click.option(
    "--message-id",
    metavar="TEXT",
    help="Id of each message: what was sent with the same id in the last 5 minutes is not stored again. TEXT may "
    "contain the placeholders of --template; {{count}} is the number of the line.  [default: no id]",
)
@click.option("--compression", type=click.Choice(["lz4", "zstd"]), help="Compress batches.  [default: no]")
@click.option(
    "--timeout",
    type=FiniteRange(min=0.1),
    default=120,
    show_default=True,
    help="Seconds to wait for the acknowledgement of a message before the command fails.",
)
@bootstrap_option
@format_option
def produce(
    topic: str,
    file: str,
    key: str | None,
    key_separator: bytes | None,
    tag: str | None,
    look_up_keys: tuple[str, ...],
    headers: Headers,
    queue: int | None,
    separator: bytes | None,
    form: str | None,
    template: str | None,
    count: int | None,
    rate: float | None,
    delay: int | None,
    deliver_at: datetime | None,
    message_id: str | None,
    compression: str | None,
    timeout: float,
    bootstrap: str,
    output: str,
) -> int:
    """Send each line of FILE to TOPIC as one message, without the line end. The default FILE is standard input.

    With --format json, each line is a JSON object as `ledgermq consume --format json` prints it, so that one command
    can be piped into the other. Key, tag, headers, look-up keys, timestamp, delivery time (deliver_at) and value are
    sent; the queue is chosen again. --key, --tag, --delay, --deliver-at and --message-id apply to lines that have no
    key, tag, delivery time or message_id. The headers and keys of -H and --look-up-key follow those of the line.

    With --delay or --deliver-at, messages wait in the cluster until their time: `ledgermq timer list` shows them.

    A line that is longer than the cluster allows is not sent but reported, and the exit status is 1. At its end, the
    command prints the number of acknowledged messages, also after a failure, Ctrl-C (exit status 130) or SIGTERM (143).
    """
    if key is not None and key_separator is not None:
        raise click.UsageError("give either --key or --key-separator: a message has one key")
    if delay is not None and deliver_at is not None:
        raise click.UsageError("give either --delay or --deliver-at: a message has one delivery time")
    if tag == "":
        raise click.UsageError("the tag must not be empty: leave out --tag")
    validate_headers(len(headers), sum(len(name.encode(errors="replace")) + len(value) for name, value in headers))
    more_keys = tuple(dict.fromkeys(map(os.fsencode, look_up_keys)))
    validate_look_up_keys(len(more_keys))
    is_json = (form or output) == "json" if template is None else False
    if is_json and (key_separator is not None or separator is not None):
        raise click.UsageError("JSON lines need neither --separator nor --key-separator: leave them out")
    labels = Labels(
        None if key is None else os.fsencode(key),
        tag,
        queue,
        headers,
        deliver_at,
        _delay(delay),
        more_keys,
        None if message_id is None else _ids(message_id),
    )
    if template is None:
        source: Source | MessageTemplate = _source(file, separator, is_json=is_json)
    elif file != "-" or key_separator is not None or separator is not None or form is not None:
        raise click.UsageError("--template reads no input: leave out FILE, --input, --separator and --key-separator")
    else:
        source, count = _template(template, key, labels), 1 if count is None else count
    plan = Plan(source, labels, key_separator, is_json, count, rate)
    producer = AsyncProducer(bootstrap, compression=compression, delivery_timeout_ms=round(timeout * 1000))
    report = ProduceReport(time.monotonic())
    try:
        run_until_stopped(_produce(topic, plan, producer, report))
    finally:
        report.show(output)
    return 1 if report.sender is not None and report.sender.left_out_count else 0


def _delay(ms: int | None) -> timedelta | None:
    return None if ms is None else timedelta(milliseconds=ms)


def _ids(text: str) -> Callable[[int], bytes]:
    try:
        template = Template(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return lambda line: template.fill(line, time.time_ns() // 1_000_000)


def _source(file: str, separator: bytes | None, *, is_json: bool) -> Source:
    longest = _LONGEST_JSON_BYTES if is_json else LONGEST_LINE_BYTES
    if file == "-":
        return Source("standard input", 0, separator, longest)
    return Source(file, os.open(file, os.O_RDONLY), separator, longest)


def _template(text: str, key: str | None, labels: Labels) -> MessageTemplate:
    try:
        return MessageTemplate(Template(text), None if key is None else Template(key), labels)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


async def _produce(topic: str, plan: Plan, producer: AsyncProducer, report: ProduceReport) -> None:
    await producer.start()
    try:
        sender = LineSender(producer, topic)
        await sender.open()
        report.began, report.sender = time.monotonic(), sender
        await _send_all(sender, plan, report)
    finally:
        # After a failure or Ctrl-C the user does not want to wait for the whole delivery timeout.
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await producer.stop()


async def _send_all(sender: LineSender, plan: Plan, report: ProduceReport) -> None:
    if isinstance(plan.source, MessageTemplate):
        assert plan.count is not None
        made = plan.source.messages(plan.count, 1 if plan.rate else 1_000)
        async with progress(report, lambda: sender.acknowledged, plan.count):
            await _send_messages(sender, plan, _at_rate(in_turns(made), plan))
            await sender.drain()
        return
    reader = LineReader(plan.source)
    async with progress(report, lambda: reader.read_bytes, plan.source.total_bytes):
        await _send_lines(sender, plan, plan.source, _at_rate(aiter(reader), plan))
        await sender.drain()


def _at_rate(lists: AsyncIterator[list[T]], plan: Plan) -> AsyncIterator[list[T]]:
    lists = lists if plan.count is None else limited(lists, plan.count)
    return lists if plan.rate is None else paced(lists, plan.rate)


async def _send_messages(sender: LineSender, plan: Plan, lists: AsyncIterator[list[LineMessage]]) -> None:
    number = 1
    async for messages in lists:
        await sender.send_each(messages, plan.labels, LineOrigin("the template", number))
        number += len(messages)


async def _send_lines(sender: LineSender, plan: Plan, source: Source, lists: AsyncIterator[list[bytes]]) -> None:
    labels = plan.labels
    number = 1
    async for lines in lists:
        place = LineOrigin(source.name, number)
        number += len(lines)
        if plan.is_json:
            await sender.send_each(list(map(partial(message_of, labels=labels), lines)), labels, place)
        elif plan.key_separator is not None:
            await sender.send_keyed(lines, plan.key_separator, labels, place)
        elif labels.headers or labels.message_id is not None:
            messages = [LineMessage(line, labels.key, labels.tag, labels.headers, None) for line in lines]
            await sender.send_each(messages, labels, place)
        else:
            await sender.send(lines, labels, place)
