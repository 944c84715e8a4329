"""Browses the messages of a topic: by queue and offset, from a time, by key, and by tag; and shows one message."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from aiohttp import web

from cluster.console.clients import ConsoleAdmin
from cluster.console.console import Route, Visit
from cluster.console.page import HEADERS
from cluster.console.pages.topic_page import TOPIC, check, may, named
from cluster.console.pages.topics_page import topic_path
from cluster.console.reading import MessageLine, bounded, line_of
from cluster.console.shown_value import FORMS, shown_value
from ledger.client.admin.message_trace import MessageTrace
from ledger.client.admin.offsets import in_ms
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.records import Message, QueueOffsets
from ledger.errors import InvalidArgumentError, LedgerError
from ledger.topics import MAX_QUEUES

PAGE_MESSAGES = 50
# How much of a value a list reads.
LINE_BYTES = 512
# How many messages with one key and the same append time a page can skip.
MAX_SKIPPED = 5_000
MAX_KEY_CHARACTERS = 4_096
# How many entries of the log behind a message are read for its trace.
TRACE_ENTRIES = 20_000
TRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages of one queue with what leads to others. `looked` are the offsets that were looked through. The links
    are offsets, or None if there is nothing."""

    lines: list[MessageLine]
    queue: int
    looked: range
    offsets: QueueOffsets
    older: int | None
    newer: int | None


async def browse(visit: Visit) -> web.StreamResponse:
    name = named(visit)
    check(visit, "subscribe", name)
    key = visit.request.query.get("key", "")[:MAX_KEY_CHARACTERS]
    async with visit.console.reads.one():
        admin = await visit.admin()
        topic = await admin.reader.topic(name)
        if key:
            return await _with_key(visit, admin, topic, key)
        return await _in_queue(visit, admin, topic)


async def _with_key(visit: Visit, admin: ConsoleAdmin, topic: RoutedTopic, key: str) -> web.Response:
    before_ms, skip = visit.number("before", most=2**53), visit.number("skip", most=MAX_SKIPPED)
    found = await admin.reader.with_key(topic, key, skip + PAGE_MESSAGES, LINE_BYTES, before_ms)
    lines = found[skip:]
    older = ""
    if len(lines) == PAGE_MESSAGES:
        # Other messages may have the time of the last one. So the next page begins with this time, and skips what
        # has been shown.
        last_ms = lines[-1].append_time_ms
        shown = sum(line.append_time_ms == last_ms for line in found)
        older = urlencode({"key": key, "before": last_ms + 1, "skip": min(shown, MAX_SKIPPED)})
    return _page(visit, topic, key=key, lines=lines, older_of_key=older)


async def _in_queue(visit: Visit, admin: ConsoleAdmin, topic: RoutedTopic) -> web.Response:
    query = visit.request.query
    tag = query.get("tag", "")[:MAX_KEY_CHARACTERS]
    given = query.get("offset", "").strip()
    if query.get("queue", "").strip():
        there = await admin.reader.offsets_of(topic, visit.number("queue", most=MAX_QUEUES - 1))
    else:
        offsets = await admin.reader.offsets(topic)
        there = next((one for one in offsets if one.end_offset > one.first_offset), offsets[0])
    if time_text := query.get("time", "").strip():
        async with bounded("The search for the time"):
            times = {(topic.name, there.queue): time_of(time_text)}
            start = next(iter((await admin.offsets_for_times(times)).values()))
    elif given:
        start = visit.number("offset")
    else:
        start = there.first_offset if tag else max(there.first_offset, there.end_offset - PAGE_MESSAGES)
    read = await admin.reader.read(topic, there.queue, start, PAGE_MESSAGES, tag=tag)
    begin = min(max(start, read.first_offset), read.end_offset)
    found = MessagePage(
        [line_of(message, LINE_BYTES) for message in read.messages],
        there.queue,
        range(begin, read.next_offset),
        QueueOffsets(there.queue, read.first_offset, read.end_offset),
        max(read.first_offset, begin - PAGE_MESSAGES) if begin > read.first_offset and not tag else None,
        read.next_offset if read.next_offset < read.end_offset else None,
    )
    return _page(visit, topic, found=found, lines=found.lines, tag=tag, time=time_text)


def _page(
    visit: Visit,
    topic: RoutedTopic,
    *,
    lines: Sequence[MessageLine],
    found: MessagePage | None = None,
    key: str = "",
    tag: str = "",
    time: str = "",
    older_of_key: str = "",
) -> web.Response:
    return visit.page(
        "messages.html",
        title=f"Messages of {topic.name}",
        name=topic.name,
        path=topic_path(topic.name),
        topic=topic,
        found=found,
        lines=lines,
        key=key,
        tag=tag,
        tag_query=urlencode({"tag": tag} if tag else {}),
        time=time,
        older_of_key=older_of_key,
        may=lambda action: may(visit, action, topic.name),
    )


def time_of(text: str) -> int:
    """Return a time such as 2026-11-26T11:05 in ms since 1970. A time without a time zone is in UTC. Raises
    InvalidArgumentError."""
    try:
        moment = datetime.fromisoformat(text[:40])
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        time_ms = in_ms(moment)
    except (ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"{text[:40]!r} is no time: give one such as 2026-11-26T11:05.") from error
    if time_ms < 0:
        raise InvalidArgumentError(f"The time {text[:40]!r} lies before 1970.")
    return time_ms


# -- one message


async def show(visit: Visit) -> web.StreamResponse:
    name, queue, offset = place_of(visit)
    form = visit.request.query.get("form", "")
    async with visit.console.reads.one():
        admin = await visit.admin()
        message = await _message(admin, name, queue, offset)
        value = await asyncio.to_thread(shown_value, message.value, form)
        there = await admin.reader.offsets_of(await admin.reader.topic(name), queue)
    trace, reason = None, ""
    if "trace" in visit.request.query:
        trace, reason = await _trace(admin, message)
    return visit.page(
        "message.html",
        title=f"Message {message.id}",
        name=name,
        path=topic_path(name),
        message=message,
        key_text=text_of(message.key),
        deliver_at_ms=None if message.deliver_at is None else in_ms(message.deliver_at),
        value=value,
        forms=FORMS,
        offsets=there,
        trace=trace,
        trace_reason=reason,
        may=lambda action: may(visit, action, name),
    )


def text_of(key: bytes | None) -> str:
    """Return the key as the search for a key takes it, or "" if the search cannot find it, because it is too long or no
    UTF-8."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return ""
    return text if len(text) <= MAX_KEY_CHARACTERS else ""


async def _message(admin: ConsoleAdmin, name: str, queue: int, offset: int) -> Message:
    async with bounded(f"The message at offset {offset} of queue {queue}"):
        return await admin.get_message(name, queue, offset)


async def _trace(admin: ConsoleAdmin, message: Message) -> tuple[MessageTrace | None, str]:
    """Return the trace, or None and why there is none."""
    try:
        async with bounded("The trace", TRACE_S):
            place = (message.topic, message.queue, message.offset)
            return await admin.trace_message(*place, max_entries=TRACE_ENTRIES), ""
    except LedgerError as error:
        return None, str(error)


async def raw(visit: Visit) -> web.StreamResponse:
    """Return the bytes of the value as a file, which no browser shows as a page."""
    name, queue, offset = place_of(visit)
    async with visit.console.reads.one():
        message = await _message(await visit.admin(), name, queue, offset)
    headers = {**HEADERS, "Content-Disposition": attachment(f"{name}-{queue}-{offset}.bin")}
    return web.Response(body=message.value, content_type="application/octet-stream", headers=headers)


def attachment(name: str) -> str:
    """Return the value of the header Content-Disposition for a file to save."""
    return f'attachment; filename="{re.sub(r"[^A-Za-z0-9_.-]", "_", name)}"'


def place_of(visit: Visit) -> tuple[str, int, int]:
    """Return topic, queue and offset of the path. Raises LedgerError."""
    name = named(visit)
    check(visit, "subscribe", name)
    return name, visit.number("queue", most=MAX_QUEUES - 1), visit.number("offset")


ROUTES = [
    Route("GET", f"{TOPIC}/messages", browse),
    Route("GET", f"{TOPIC}/messages/{{queue}}/{{offset}}", show),
    Route("GET", f"{TOPIC}/messages/{{queue}}/{{offset}}/raw", raw),
]
