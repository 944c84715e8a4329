"""Downloads a range of a queue as JSON lines or as a Parquet file, while it is read."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from aiohttp import web

from cluster.console.console import Route, Visit
from cluster.console.live import written
from cluster.console.message_files import MessageFile, has_parquet, message_file
from cluster.console.page import HEADERS
from cluster.console.pages.messages_page import attachment
from cluster.console.pages.topic_page import TOPIC, check, may, named
from cluster.console.pages.topics_page import topic_path
from cluster.node.http.deadline import DEADLINE
from ledger.client.records import Message
from ledger.errors import LedgerError
from ledger.topics import MAX_QUEUES

log = logging.getLogger("ledgermq.node.console")

MAX_MESSAGES = 100_000
MAX_BYTES = 256 << 20
# A download rests as long as it has worked, at most this long, so that it takes no more than half of a core.
MAX_REST_S = 0.2


async def show(visit: Visit) -> web.StreamResponse:
    name = named(visit)
    check(visit, "subscribe", name)
    admin = await visit.admin()
    topic = await admin.reader.topic(name)
    queue = visit.number("queue", most=MAX_QUEUES - 1)
    return visit.page(
        "download.html",
        title=f"Download messages of {name}",
        name=name,
        path=topic_path(name),
        topic=topic,
        offsets=await admin.reader.offsets_of(topic, queue),
        max_messages=MAX_MESSAGES,
        max_bytes=MAX_BYTES,
        has_parquet=has_parquet(),
        may=lambda action: may(visit, action, name),
    )


async def download(visit: Visit) -> web.StreamResponse:
    name = named(visit)
    check(visit, "subscribe", name)
    queue = visit.number("queue", most=MAX_QUEUES - 1)
    begin, end = visit.number("from"), visit.number("to", 2**63 - 1)
    count = visit.number("count", MAX_MESSAGES, least=1, most=MAX_MESSAGES)
    file = message_file(visit.request.query.get("form", "jsonl"))
    async with visit.console.downloads.one():
        reader = (await visit.admin()).reader
        topic = await reader.topic(name)
        stretch = reader.stretch(topic, queue, begin, end, count, MAX_BYTES)
        async with aclosing(_pieces(visit, name, stretch, file)) as pieces:
            first = await anext(pieces)  # an error before the first byte is shown as a page
            return await _streamed(visit, f"{name}-{queue}.{file.ending}", first, pieces, file.content_type)


async def _streamed(
    visit: Visit, file_name: str, first: bytes, pieces: AsyncIterator[bytes], content_type: str
) -> web.StreamResponse:
    headers = {**HEADERS, "Content-Disposition": attachment(file_name), "Content-Type": content_type}
    response = web.StreamResponse(headers=headers)
    visit.request[DEADLINE].reschedule(None)
    try:
        await response.prepare(visit.request)
        if first:
            await written(response.write(first))
        async for piece in pieces:
            if piece:
                await written(response.write(piece))
        await written(response.write_eof())
    except (ConnectionError, TimeoutError):
        pass  # the browser has left
    except LedgerError as error:
        # The browser must not take a part for the whole file: a connection that breaks is a failed download.
        log.warning("a download of %s broke: %s", file_name, error)
        if visit.request.transport is not None:
            visit.request.transport.abort()
    return response


async def _pieces(
    visit: Visit, name: str, stretch: AsyncGenerator[list[Message]], file: MessageFile
) -> AsyncGenerator[bytes]:
    """Yield the bytes of the file. The first piece comes when the first messages are there. A piece may be empty."""
    began_s = time.monotonic()
    async with aclosing(stretch):
        async for messages in stretch:
            check(visit, "subscribe", name)
            yield await asyncio.to_thread(file.add, messages)
            await asyncio.sleep(min(time.monotonic() - began_s, MAX_REST_S))
            began_s = time.monotonic()
    yield await asyncio.to_thread(file.end)


ROUTES = [
    Route("GET", f"{TOPIC}/download", show),
    Route("GET", f"{TOPIC}/download/file", download),
]
