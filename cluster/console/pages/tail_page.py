"""The live tail of a topic: its newest messages, as they come."""

from __future__ import annotations

import asyncio

from aiohttp import web

from cluster.console.console import ROOT, Route, Visit
from cluster.console.live import EventStream
from cluster.console.pages.messages_page import LINE_BYTES
from cluster.console.pages.topic_page import TOPIC, check, may, named
from cluster.console.pages.topics_page import topic_path
from cluster.console.tail import LINES_A_TURN, Tail
from ledger.errors import LedgerError

# A turn that follows news, and one that follows none.
TURN_S = 0.5
QUIET_TURN_S = 1.0
# After this many turns without news, the stream sends a comment.
QUIET_TURNS = 10


async def show(visit: Visit) -> web.StreamResponse:
    name = named(visit)
    check(visit, "subscribe", name)
    await (await visit.admin()).reader.topic(name)  # raises if there is none
    return visit.page(
        "tail.html",
        title=f"Live tail of {name}",
        name=name,
        path=topic_path(name),
        lines_a_second=int(LINES_A_TURN / TURN_S),
        may=lambda action: may(visit, action, name),
    )


async def live(visit: Visit) -> web.StreamResponse:
    name = named(visit)
    check(visit, "subscribe", name)
    await visit.admin()
    async with visit.console.streams.opened(visit.request) as stream:
        await _follow(visit, stream, name)
    return stream.response


async def _follow(visit: Visit, stream: EventStream, name: str) -> None:
    tail: Tail | None = None
    status, quiet = "", 0
    while True:
        check(visit, "subscribe", name)
        error, lines = "", ""
        try:
            async with visit.console.reads.one():
                tail = tail or Tail((await visit.admin()).reader, name, LINE_BYTES)
                news = await tail.turn()
            if news.lines or news.left_out:
                lines = visit.text("parts/tail_lines.html", news=news, path=topic_path(name))
        except LedgerError as refused:
            error, tail = str(refused), None  # the client may have been closed: a new one goes on
        shown = visit.text("parts/tail_status.html", error=error)
        if shown != status:
            status = shown
            await stream.send("parts", {"tail-status": status})
        if lines:
            await stream.send("lines", lines)
        quiet = 0 if lines else quiet + 1
        if quiet % QUIET_TURNS == QUIET_TURNS - 1:
            await stream.keep_alive()
        await asyncio.sleep(TURN_S if lines else QUIET_TURN_S)


ROUTES = [
    Route("GET", f"{TOPIC}/tail", show),
    Route("GET", f"{ROOT}/live/topics/{{topic}}/tail", live),
]
