"""The command `ledgermq produce` sends the lines of a file or of standard input to a topic.

A thread reads the input and splits it into lines. The event loop sends the lines to the cluster. Between the thread
and the event loop there is a short queue, which limits the memory. A line that the user types on a terminal is sent
immediately.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

import click

from cluster.cli.failure import CommandError
from cluster.cli.options import Separator, bootstrap_option, format_option
from cluster.cli.output import counted, print_json, say
from cluster.load.line_sender import Labels, LineOrigin, LineSender
from cluster.load.line_splitter import LineSplitter
from ledger.client.producer.producer import AsyncProducer

_READ_BYTES = 1 << 20
_QUEUED_READS = 4
_CLOSE_SECONDS = 3.0
_SHOWN_LEFT_OUT = 10


@dataclass(frozen=True, slots=True)
class Source:
    """Describes the input of `ledgermq produce`, and how each line becomes a message."""

    name: str
    descriptor: int
    separator: bytes
    key_separator: bytes | None
    labels: Labels


@click.command()
@click.argument("topic")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@click.option("--key", help="Key of all messages. All messages then go to one queue.  [default: no key]")
@click.option(
    "--key-separator", type=Separator(), help="Text between key and value in each line.  [default: lines have no key]"
)
@click.option("--tag", help="Tag of all messages.  [default: no tag]")
@click.option(
    "--queue", type=click.IntRange(min=0), help="Queue of all messages.  [default: chosen by key, or in turn]"
)
@click.option(
    "--separator", type=Separator(), default="\\n", show_default=True, help="Text at the end of each message."
)
@click.option("--compression", type=click.Choice(["lz4", "zstd"]), help="Compress batches.  [default: no]")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
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
    queue: int | None,
    separator: bytes,
    compression: str | None,
    timeout: float,
    bootstrap: str,
    output: str,
) -> int:
    """Send each line of FILE to TOPIC as one message, without the line end. The default FILE is standard input.

    A line that is longer than the cluster allows is not sent but reported, and the exit status is 1. At its end, the
    command prints the number of acknowledged messages, also after a failure or Ctrl-C.
    """
    if key is not None and key_separator is not None:
        raise click.UsageError("give either --key or --key-separator: a message has one key")
    labels = Labels(key.encode() if key is not None else None, tag, queue)
    descriptor = 0 if file == "-" else os.open(file, os.O_RDONLY)
    source = Source("standard input" if file == "-" else file, descriptor, separator, key_separator, labels)
    producer = AsyncProducer(bootstrap, compression=compression, delivery_timeout_ms=round(timeout * 1000))
    report = ProduceReport(time.monotonic())
    try:
        asyncio.run(_produce(topic, source, producer, report))
    finally:
        report.show(output)
    return 1 if report.sender is not None and report.sender.left_out else 0


@dataclass(slots=True)
class ProduceReport:
    """The summary that `ledgermq produce` prints at its end. If the topic was not found, there is no summary."""

    began: float
    sender: LineSender | None = None

    def show(self, output: str) -> None:
        if self.sender is None:
            return
        seconds = time.monotonic() - self.began
        sender = self.sender
        if output == "json":
            print_json(
                {
                    "acknowledged": sender.acknowledged,
                    "bytes": sender.acknowledged_bytes,
                    "left_out": len(sender.left_out),
                    "in_doubt": sender.in_doubt,
                    "seconds": round(seconds, 3),
                }
            )
        for sentence in sender.left_out[:_SHOWN_LEFT_OUT]:
            say(f"left out: {sentence}")
        say(_summary(sender, seconds))


async def _produce(topic: str, source: Source, producer: AsyncProducer, report: ProduceReport) -> None:
    await producer.start()
    try:
        sender = LineSender(producer, topic)
        await sender.open()
        report.began, report.sender = time.monotonic(), sender
        await _send_lines(sender, source)
        await sender.drain()
    finally:
        # After a failure or Ctrl-C the user does not want to wait for the whole delivery timeout.
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await producer.stop()


async def _send_lines(sender: LineSender, source: Source) -> None:
    number = 1
    async for lines in _Reader(source):
        place = LineOrigin(source.name, number)
        number += len(lines)
        if source.key_separator is None:
            await sender.send(lines, source.labels, place)
        else:
            await sender.send_keyed(lines, source.key_separator, source.labels, place)


class _Reader:
    """Iterates over the lines of the input.

    A separate thread reads the input, because reading from a terminal or a pipe can block. The thread is a daemon and
    reads the file descriptor directly, so that it cannot prevent the process from ending.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._room = threading.BoundedSemaphore(_QUEUED_READS)
        self._items: asyncio.Queue[list[bytes] | OSError | None] = asyncio.Queue()
        threading.Thread(target=self._read, name="reader", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        while (item := await self._items.get()) is not None:
            if isinstance(item, OSError):
                raise CommandError(f"{self._source.name} cannot be read: {item.strerror}") from item
            self._room.release()
            yield item

    def _read(self) -> None:
        splitter = LineSplitter(self._source.separator)
        with suppress(RuntimeError):  # the loop has ended
            try:
                while data := os.read(self._source.descriptor, _READ_BYTES):
                    self._pass(splitter.feed(data))
                self._pass(splitter.finish())
            except OSError as error:
                self._loop.call_soon_threadsafe(self._items.put_nowait, error)
            self._loop.call_soon_threadsafe(self._items.put_nowait, None)

    def _pass(self, lines: list[bytes]) -> None:
        if lines:
            self._room.acquire()
            self._loop.call_soon_threadsafe(self._items.put_nowait, lines)


def _summary(sender: LineSender, seconds: float) -> str:
    rate = f"{sender.acknowledged / seconds:,.0f}/s, {sender.acknowledged_bytes / seconds / 1e6:,.1f} MB/s"
    parts = [f"{counted(sender.acknowledged, 'message')} acknowledged in {seconds:.2f} s ({rate})"]
    if sender.left_out:
        parts.append(f"{len(sender.left_out):,} left out")
    if sender.in_doubt:
        parts.append(f"{sender.in_doubt:,} in doubt: the topic may contain them or not")
    return "; ".join(parts)
