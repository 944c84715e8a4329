"""A live page shows nothing after the right to see it has ended, and its watches are bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientConnectionResetError, web
from aiohttp.test_utils import make_mocked_request

from cluster.console import live, watch, watched
from cluster.console.clients import ConsoleAdmin
from cluster.console.live import EventStream, LiveStreams, send_news
from cluster.console.logins import COOKIE, Logins
from cluster.console.lookout import Lookouts
from cluster.console.pages.download_page import _streamed
from cluster.console.watch import MAX_WATCHES, Watches
from cluster.node.http.deadline import DEADLINE
from ledger.broker.access.callers import ANYBODY
from ledger.errors import AuthenticationError, PermissionDeniedError, UnavailableError


class Waiting:
    """Has news when the test says so."""

    def __init__(self) -> None:
        self.news = asyncio.Event()

    async def next(self, turn: int) -> int:
        await self.news.wait()
        return turn + 1


async def test_a_right_that_ends_during_the_wait_ends_the_stream() -> None:
    rights, waiting, rendered = ["describe"], Waiting(), 0

    def check() -> None:
        if not rights:
            raise PermissionDeniedError("the right has ended")

    def render() -> dict[str, str]:
        nonlocal rendered
        rendered += 1
        return {}

    stream: EventStream = object.__new__(EventStream)
    sending = asyncio.create_task(send_news(stream, waiting, render, check))
    await asyncio.sleep(0)
    rights.clear()
    waiting.news.set()
    with pytest.raises(PermissionDeniedError):
        await sending
    assert rendered == 0


async def test_a_login_that_ends_in_another_tab_ends_the_stream() -> None:
    access: Any = SimpleNamespace(prove=lambda token: ANYBODY, may=lambda caller, action, resource: True)
    logins, request = Logins(access), make_mocked_request("GET", "/", headers={"Cookie": f"{COOKIE}=a-token"})
    visitor = logins.visitor(request)
    assert visitor.may("describe")
    logins.end(visitor)
    with pytest.raises(AuthenticationError):
        visitor.may("describe")


async def no_admin(token: str) -> ConsoleAdmin:
    raise UnavailableError(f"no node answers {token}")


async def test_watches_are_bounded() -> None:
    watches = Watches(no_admin, lambda: 0)
    for number in range(MAX_WATCHES):
        await watches.of(str(number))
    with pytest.raises(UnavailableError, match="logins"):
        await watches.of("one more")
    assert await watches.of("0") is await watches.of("0")
    await watches.close()


async def test_requests_at_the_same_time_remove_idle_watches_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LINGER_S", -1.0)
    watches = Watches(no_admin, lambda: 0)
    for number in range(4):
        watches._found[str(number)] = running = watch.ClusterWatch(lambda: no_admin(""), lambda: 0)
        with running.watched():
            await asyncio.sleep(0)
    await asyncio.gather(*(watches.of(f"new {number}") for number in range(4)))
    await watches.close()


async def test_requests_at_the_same_time_remove_idle_lookouts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> int:
        await asyncio.sleep(60)
        return 0

    lookouts = Lookouts()
    for number in range(4):
        with (await lookouts.of(number, ask)).watched():
            await asyncio.sleep(0)
    monkeypatch.setattr(watched, "LINGER_S", -1.0)
    await asyncio.gather(*(lookouts.of(f"new {number}", ask) for number in range(4)))
    await lookouts.close()


class Browser:
    """Takes the begin of an answer when `takes` is set. With `has_left`, it has left before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.takes = asyncio.Event()
        self.has_left = False

        async def prepare(response: web.StreamResponse, request: web.BaseRequest) -> None:
            await self.takes.wait()
            if self.has_left:
                raise ClientConnectionResetError("Cannot write to closing transport")

        monkeypatch.setattr(web.StreamResponse, "prepare", prepare)


async def run(streams: LiveStreams, sent: list[EventStream]) -> web.StreamResponse:
    async def send(stream: EventStream) -> None:
        sent.append(stream)

    async with asyncio.timeout(None) as deadline:
        request = make_mocked_request("GET", "/console/live/cluster")
        request[DEADLINE] = deadline
        return await streams.run(request, send)


async def test_streams_that_open_at_the_same_time_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_STREAMS", 2)
    streams, browser, sent = LiveStreams(), Browser(monkeypatch), list[EventStream]()
    opening = [asyncio.create_task(run(streams, sent)) for _ in range(3)]
    await asyncio.sleep(0)
    browser.takes.set()
    first, second, third = await asyncio.gather(*opening, return_exceptions=True)
    assert isinstance(third, UnavailableError)
    assert [each.response for each in sent] == [first, second]
    await run(streams, sent)  # the streams that have ended do not count


async def test_a_browser_that_leaves_before_its_stream_begins_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the log of the node called this a defect of ledgermq."""
    streams, browser, sent = LiveStreams(), Browser(monkeypatch), list[EventStream]()
    browser.has_left = True
    browser.takes.set()
    await run(streams, sent)
    assert not sent
    assert not streams._tasks


async def test_a_browser_that_leaves_before_its_download_begins_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser(monkeypatch)
    browser.has_left = True
    browser.takes.set()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"more"

    async with asyncio.timeout(None) as deadline:
        request = make_mocked_request("GET", "/console/topics/orders/download/file")
        request[DEADLINE] = deadline
        visit: Any = SimpleNamespace(request=request)
        await _streamed(visit, "orders-0.jsonl", b"first", pieces(), "application/jsonl")
