"""The command `ledgermq message trace` shows the life of one message: who sent it, when each replica wrote it, when it
was committed, and what consumer groups did with it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import asdict

import click
from rich.progress import Progress

from cluster.cli.completed_names import topic_names
from cluster.cli.messages.message_id import parsed_id
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option, format_option, moment_text
from cluster.cli.output import note_console, print_json, print_table, say
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.admin.message_trace import MAX_ENTRIES, MessageTrace, OnTraceProgress
from ledger.errors import InvalidArgumentError
from ledger.message_trace import ReplicaTimes, TraceEvent
from ledger.timed import TimedHandle
from ledger.words import counted

# Messages with one key that are listed.
_LISTED = 20


@click.command()
@click.argument("message_id", metavar="ID", required=False)
@click.option("--topic", help="Topic of the message, for --key and for a message id.", shell_complete=topic_names)
@click.option("--key", help="Key or look-up key of the message, in place of ID.")
@click.option(
    "--entries",
    type=click.IntRange(1),
    default=MAX_ENTRIES,
    show_default=True,
    help="Read at most this many entries of the log behind the message.",
)
@bootstrap_option
@format_option
def trace(message_id: str | None, topic: str | None, key: str | None, entries: int, bootstrap: str, output: str) -> int:
    """Show who sent a message, when each replica wrote it, and what consumer groups did with it.

    ID is TOPIC:QUEUE:OFFSET, the handle of a message with a delivery time, or, with --topic, the id that the producer
    gave the message in the last 5 minutes. With --topic and --key, the message with this key is traced; if several have
    the key, their ids are listed.

    Leases, acknowledgements, retries, dead letters, deliveries and commits are entries of the log, so they are found
    as far back as the log is kept. A group that is not shared leaves no trace of a message before its acknowledgement.
    When each replica wrote the message is known for the last group writes of each replica, since its start.

    The exit status is 1 if the message is not found, or if the log was not read to its end.
    """
    if (message_id is None) == (key is None):
        raise click.UsageError("give an ID, or --topic and --key")
    if key is not None and topic is None:
        raise click.UsageError("--key needs --topic")
    bar = Progress(console=note_console(), transient=True, disable=not sys.stderr.isatty())
    reading = bar.add_task("reading the log", total=None)

    def progress(done: int, of: int) -> None:
        bar.update(reading, completed=done, total=of)

    async def work() -> MessageTrace | list[str]:
        async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            named = message_id
            if key is not None:
                assert topic is not None
                found = await admin.query_messages(topic, key, max_messages=_LISTED)
                if len(found) != 1:
                    return [message.id for message in found]
                named = found[0].id
            assert named is not None
            return await _traced(admin, named, topic, entries, progress)

    with bar:
        found = asyncio.run(work())
    if isinstance(found, list):
        return _several(found, topic, key)
    if output == "json":
        print_json(_as_json(found))
    else:
        _print(found)
    return 0 if found.is_complete else 1


async def _traced(
    admin: AsyncAdmin, named: str, topic: str | None, entries: int, progress: OnTraceProgress
) -> MessageTrace:
    place = parsed_id(named)
    if place is not None:
        return await admin.trace_message(*place, max_entries=entries, on_progress=progress)
    try:
        TimedHandle.parse(named)
    except InvalidArgumentError:
        pass
    else:
        return await admin.trace_waiting_message(named, max_entries=entries, on_progress=progress)
    if topic is None:
        raise click.UsageError(
            f"{named!r} is neither TOPIC:QUEUE:OFFSET nor the handle of a message with a delivery time; for the id "
            "that a producer gave the message, add --topic"
        )
    return await admin.trace_message_id(topic, named, max_entries=entries, on_progress=progress)


def _several(ids: list[str], topic: str | None, key: str | None) -> int:
    if not ids:
        say(f"No message of topic {topic} has the key {key!r}.")
        return 1
    for each in ids:
        click.echo(each)
    say("Several messages have this key, the newest first: trace one of them by its id.")
    return 1


def _print(trace: MessageTrace) -> None:
    rows = sorted(_timeline(trace), key=lambda row: row[0])
    print_table(
        ["TIME", "AFTER (MS)", "WHERE", "WHAT"],
        [[moment_text(at), f"{at - trace.entry.append_time_ms:+,d}", where, what] for at, where, what in rows],
    )
    for replica in trace.replicas:
        if replica.note:
            say(f"Node {replica.node}: {replica.note}.")
    say(_summary(trace))


def _timeline(trace: MessageTrace) -> Iterator[tuple[int, str, str]]:
    """Yield time, place and text of all that is known."""
    entry = trace.entry
    yield entry.timestamp_ms, "producer", f"sent {_sender(trace)}"
    leader = next((each.node for each in trace.replicas if each.leads), None)
    yield (
        entry.append_time_ms,
        f"shard {trace.shard}",
        f"appended as {trace.topic}:{trace.queue}:{trace.offset}, entry {entry.index} of term {entry.term}"
        + ("" if entry.count == 1 else f", with {counted(entry.count - 1, 'other message')}"),
    )
    for replica in trace.replicas:
        yield from _of_replica(replica, leader)
    for event in trace.events:
        yield event.time_ms, f"group {event.group}" if event.group else f"shard {trace.shard}", _text(trace, event)


def _of_replica(replica: ReplicaTimes, leader: int | None) -> Iterator[tuple[int, str, str]]:
    where = f"node {replica.node}" + (" (leader)" if replica.node == leader else "")
    for at, what in (
        (replica.written_ms, "wrote it"),
        (replica.flushed_ms, "held it as the flush mode promises"),
        (replica.committed_ms, "knew that it is committed"),
        (replica.applied_ms, "applied it"),
    ):
        if at is not None:
            yield at, where, what
    for node, at in replica.acknowledged_ms:
        yield at, where, f"received the acknowledgement of node {node}"


def _text(trace: MessageTrace, event: TraceEvent) -> str:
    text = event.kind
    if event.to is not None:
        text += f" as {trace.name_of(event.to)}"
    elif (event.at.queue, event.at.offset) != (trace.queue, trace.offset) or trace.topics.get(
        event.at.topic_id
    ) != trace.topic:
        text += f" at {trace.name_of(event.at)}"
    return f"{text}, {event.text}" if event.text else text


def _sender(trace: MessageTrace) -> str:
    entry = trace.entry
    if entry.producer_id == 0:
        return "by a node (a copy, or a delivery whose first entry is no longer in the log)"
    by = f"by producer {entry.producer_id:x}, epoch {entry.epoch}, message {entry.sequence:,} in this queue"
    client = entry.client
    if client is None:
        return f"{by}; its client is not known any more"
    return f"{by}: " + ", ".join(
        part
        for part in (
            f"user {client.user}" if client.user else "",
            f"client {client.name}" if client.name else "",
            client.peer,
        )
        if part
    )


def _summary(trace: MessageTrace) -> str:
    if trace.is_complete:
        return f"The log of shard {trace.shard} was read up to its end, entry {trace.looked_through:,}."
    return (
        f"The log of shard {trace.shard} was read up to entry {trace.looked_through:,} of {trace.applied:,}: there may "
        "be more events. Give a larger --entries."
    )


def _as_json(trace: MessageTrace) -> dict[str, object]:
    entry = trace.entry
    return {
        "id": f"{trace.topic}:{trace.queue}:{trace.offset}",
        "shard": trace.shard,
        "entry": asdict(entry) | {"client": None if entry.client is None else entry.client._asdict()},
        "replicas": [
            asdict(each) | {"acknowledged_ms": {str(node): at for node, at in each.acknowledged_ms}}
            for each in trace.replicas
        ],
        "events": [_event_as_json(trace, each) for each in trace.events],
        "looked_through": trace.looked_through,
        "applied": trace.applied,
        "complete": trace.is_complete,
    }


def _event_as_json(trace: MessageTrace, event: TraceEvent) -> dict[str, object]:
    return {
        "time_ms": event.time_ms,
        "index": event.index,
        "kind": event.kind,
        "group": event.group,
        "text": event.text,
        "at": trace.name_of(event.at),
        "to": None if event.to is None else trace.name_of(event.to),
    }
