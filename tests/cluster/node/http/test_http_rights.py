"""Passwords over HTTP: their check tells nobody which users exist, and the work that it causes is bounded."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from aiohttp import ClientSession, TCPConnector, web

from cluster.node.http import http_rights
from cluster.node.http.http_rights import MAX_COMPUTED, MAX_WAITING, HttpRights
from ledger.access.password import ITERATIONS, make_verifier
from ledger.access.rules import Action, Resource
from ledger.broker.access.callers import Caller
from ledger.state.access_table import AccessTable, User
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real

PASSWORD = "correct horse"


class Allowing:
    """An authorizer that knows one user, and allows it everything."""

    def __init__(self) -> None:
        self.access = AccessTable()
        self.access.begin(User("alice", make_verifier(PASSWORD), 1), b"k" * 32)

    def fresh_access(self) -> AccessTable:
        return self.access

    def check(self, caller: Caller, action: Action, resource: Resource) -> None:
        pass


@dataclass
class Computer:
    """Counts computed passwords, and holds them back until `go` is set."""

    rounds: list[int] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def to_thread(self, work: Any, password: str, iterations: int, salt: bytes) -> Any:
        self.rounds.append(iterations)
        await self.go.wait()
        return work(password, iterations, salt)


def basic(user: str, password: str = PASSWORD) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture
def computer(monkeypatch: pytest.MonkeyPatch) -> Computer:
    computer = Computer()
    monkeypatch.setattr(asyncio, "to_thread", computer.to_thread)
    monkeypatch.setattr(http_rights, "WRONG_S", 0)
    return computer


async def test_an_unknown_user_costs_as_much_as_a_wrong_password(computer: Computer) -> None:
    computer.go.set()
    async with Site() as site:
        assert await site.status(basic("alice", "wrong password")) == 401
        assert await site.status(basic("mallory")) == 401
        assert computer.rounds == [ITERATIONS, ITERATIONS]
        assert await site.status(basic("alice")) == 200
        assert await site.status(basic("alice")) == 200
        assert len(computer.rounds) == 3, "a password that was right is not computed again"


async def test_callers_that_wait_for_the_check_of_a_password_are_bounded(computer: Computer) -> None:
    async with Site() as site:
        asked = [asyncio.create_task(site.status(basic("mallory"))) for _ in range(MAX_WAITING + 6)]

        async def refused() -> bool:
            return sum(task.done() for task in asked) == 6

        await eventually(refused, "the callers over the bound are refused")
        assert {task.result() for task in asked if task.done()} == {503}
        assert len(computer.rounds) == MAX_COMPUTED
        computer.go.set()
        assert sorted(await asyncio.gather(*asked)) == [401] * MAX_WAITING + [503] * 6


@pytest.mark.parametrize(
    "proof",
    [
        b"Basic \xff\xff",
        b"Bearer \xff",
        b"Basic " + base64.b64encode(b"alice:\x07\xc8\xa1"),  # characters that no password has
        b"Basic " + base64.b64encode("alice:\u0627a".encode()),  # written in two directions
    ],
)
async def test_a_proof_of_hostile_characters_is_refused(proof: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_rights, "WRONG_S", 0)
    async with Site() as site:
        assert (await site.first_line(proof)).split()[1] == b"401"


class Site:
    """A server with one path, behind HttpRights."""

    async def __aenter__(self) -> Site:
        rights = HttpRights(cast(Any, Allowing()), lambda: 0)
        app = web.Application(middlewares=[rights.middleware])
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        _, port = self._runner.addresses[0]
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._session = ClientSession(connector=TCPConnector(limit=0))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        await self._runner.cleanup()

    async def status(self, headers: dict[str, str]) -> int:
        async with self._session.get(self._url, headers=headers) as response:
            return response.status

    async def first_line(self, proof: bytes) -> bytes:
        """Send a proof as it is, and return the first line of the answer."""
        _, port = self._runner.addresses[0]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: node\r\nAuthorization: " + proof + b"\r\n\r\n")
        line = await reader.readline()
        writer.close()
        return line

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response()
