"""A live page shows nothing after the right to see it has ended, and its watches are bounded."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from cluster.console import watch, watched
from cluster.console.clients import ConsoleAdmin
from cluster.console.live import EventStream, send_news
from cluster.console.logins import COOKIE, Logins
from cluster.console.lookout import Lookouts
from cluster.console.watch import MAX_WATCHES, Watches
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
