"""Sends a test message to a topic."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import urlencode

from aiohttp import web

from cluster.console.console import Route, Visit
from cluster.console.new_message import ENCODINGS, MAX_DELAY_S, NewMessage, new_message
from cluster.console.pages.topic_page import TOPIC, check, may, named
from cluster.console.pages.topics_page import to, topic_path
from ledger.client.connection.lifetime import within
from ledger.client.producer.producer import AsyncProducer
from ledger.client.records import RecordMetadata
from ledger.errors import LedgerError

# A message that is not committed after this time is reported as failed.
SEND_MS = 10_000
# A longer field of a refused form is left out of the page that says why it was refused.
MAX_ECHO_CHARACTERS = 64 << 10
# What the address of the page says of the message that was sent last: queue:offset, or the handle of a waiting message.
_SENT = re.compile(r"\d{1,4}:\d{1,19}", re.ASCII)
_HANDLE = re.compile(r"[A-Za-z0-9_.:-]{1,200}", re.ASCII)


async def show(visit: Visit) -> web.StreamResponse:
    return await _page(visit, "")


async def _page(visit: Visit, error: str, status: int = 200) -> web.Response:
    name = named(visit)
    check(visit, "publish", name)
    topic = await (await visit.admin()).reader.topic(name)
    sent, handle = visit.request.query.get("sent", ""), visit.request.query.get("waits", "")
    return visit.page(
        "send.html",
        status,
        title=f"Send a message to {name}",
        name=name,
        path=topic_path(name),
        topic=topic,
        error=error,
        form={field: text for field, text in visit.form.items() if len(text) <= MAX_ECHO_CHARACTERS},
        encodings=ENCODINGS,
        max_delay_s=MAX_DELAY_S,
        sent=sent.split(":") if _SENT.fullmatch(sent) and not error else None,
        waits=handle if _HANDLE.fullmatch(handle) and not error else "",
        may=lambda action: may(visit, action, name),
    )


async def send(visit: Visit) -> web.StreamResponse:
    name = named(visit)
    check(visit, "publish", name)
    try:
        message = await asyncio.to_thread(new_message, visit.form)
        async with visit.console.reads.one():
            receipt = await _sent(visit, name, message)
    except LedgerError as error:
        return await _page(visit, str(error), 400)
    told = {"waits": receipt.handle} if receipt.handle else {"sent": f"{receipt.queue}:{receipt.offset}"}
    return to(f"{topic_path(name)}/send?{urlencode(told)}")


async def _sent(visit: Visit, name: str, message: NewMessage) -> RecordMetadata:
    clients = visit.console.clients
    client = within(clients.environment(visit.visitor.token), AsyncProducer)
    producer: AsyncProducer = client(
        clients.servers, client_id="console", delivery_timeout_ms=SEND_MS, request_timeout_ms=SEND_MS, linger_ms=0
    )
    async with producer:
        return await producer.send(
            name,
            message.value,
            key=message.key,
            tag=message.tag,
            headers=message.headers,
            queue=message.queue,
            delay=message.delay,
        )


ROUTES = [Route("GET", f"{TOPIC}/send", show), Route("POST", f"{TOPIC}/send", send)]
