"""Sends the parts of a page that have changed to the browser, as server-sent events.

    data-live="/console/live/cluster"     static/console.js opens this stream, and replaces the content of the elements
                                          that an event names by their ids

An event has the ids and the HTML of changed parts. Parts are rendered by the templates that also render the whole page.
The stream begins with all parts, so a browser that was disconnected is up to date at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from aiohttp import web

from cluster.console.page import HEADERS
from cluster.node.http.deadline import DEADLINE
from ledger.errors import LedgerError, UnavailableError

# A stream without news sends a comment after this time, so that both sides notice a dead connection.
QUIET_S = 10.0
# A browser that does not take an event within this time loses its stream.
WRITE_S = 15.0
# Streams that are open at the same time.
MAX_STREAMS = 64

# Renders the parts of a page: element id -> HTML.
Render = Callable[[], Mapping[str, str]]


class Turns(Protocol):
    """An interface: tells when there may be news."""

    async def next(self, turn: int) -> int:
        """Return the number of the newest turn, when it is newer than `turn`."""


class EventStream:
    """One open stream. Its methods raise ConnectionError or TimeoutError if the browser has left."""

    def __init__(self, response: web.StreamResponse) -> None:
        self.response = response

    async def send(self, event: str, data: object) -> None:
        """Send an event, whose data are written as JSON."""
        await written(self.response.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()))

    async def keep_alive(self) -> None:
        await written(self.response.write(b": still here\n\n"))


class LiveStreams:
    """The open streams of one node."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    async def serve(
        self, request: web.Request, turns: Turns, render: Render, check: Callable[[], object]
    ) -> web.StreamResponse:
        """Send changed parts until the browser leaves, or until `check()` raises LedgerError because the login has
        ended. Raises UnavailableError if too many streams are open."""
        return await self.run(request, lambda stream: send_news(stream, turns, render, check))

    async def run(self, request: web.Request, send: Callable[[EventStream], Awaitable[object]]) -> web.StreamResponse:
        """Open a stream, which ends when `send(stream)` ends or when the browser leaves. Raises UnavailableError if too
        many streams are open. A LedgerError of `send` ends the stream, because its answer has begun."""
        if len(self._tasks) >= MAX_STREAMS:
            raise UnavailableError(f"{MAX_STREAMS} pages of this node update themselves already: close some of them.")
        request[DEADLINE].reschedule(None)
        response = web.StreamResponse(
            headers={**HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )
        task = asyncio.current_task()
        assert task is not None, "a request is served by a task"
        self._tasks.add(task)  # before the first `await`, so that the streams that open together are counted
        try:
            await response.prepare(request)
            await send(EventStream(response))
        except (ConnectionError, TimeoutError, LedgerError):
            pass  # the browser has left, or its login has ended: it asks again, and is told
        finally:
            self._tasks.discard(task)
        return response

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def send_news(stream: EventStream, turns: Turns, render: Render, check: Callable[[], object]) -> None:
    """Send changed parts until `check()` raises LedgerError, also right before each event."""
    sent: dict[str, str] = {}
    turn = -1
    while True:
        check()
        try:
            async with asyncio.timeout(QUIET_S):
                turn = await turns.next(turn)
        except TimeoutError:
            await stream.keep_alive()
            continue
        check()  # the right may have ended during the wait
        parts = dict(render())
        news = {name: html for name, html in parts.items() if sent.get(name) != html}
        if news:
            sent |= news
            await stream.send("parts", news)


async def written(writing: Awaitable[None]) -> None:
    """Raises TimeoutError if the browser takes nothing."""
    async with asyncio.timeout(WRITE_S):
        await writing
