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

# The wait between two turns, and how much longer it is for each shard of the topic, because each turn asks all of them.
TURN_S = 0.5
TURN_OF_A_SHARD_S = 0.1
MAX_TURN_S = 2.5
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
        lines_a_turn=LINES_A_TURN,
        least_s=TURN_S + TURN_OF_A_SHARD_S,
        most_s=MAX_TURN_S,
        may=lambda action: may(visit, action, name),
    )


async def live(visit: Visit) -> web.StreamResponse:
    name = named(visit)
    check(visit, "subscribe", name)
    await visit.admin()
    return await visit.console.streams.run(visit.request, lambda stream: _follow(visit, stream, name))


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
        shards = 1 if tail is None else tail.shards
        await asyncio.sleep(min(MAX_TURN_S, TURN_S + TURN_OF_A_SHARD_S * shards))


ROUTES = [
    Route("GET", f"{TOPIC}/tail", show),
    Route("GET", f"{ROOT}/live/topics/{{topic}}/tail", live),
]
