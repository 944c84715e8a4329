"""A request to a leader that stands still is given up when another node leads."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.client.connection import answer_watch
from ledger.client.connection.answer_watch import AnswerWatch


class FakeRoutes:
    """Routes whose leader the test sets."""

    def __init__(self) -> None:
        self.leader: str | None = "old:1"
        self.refreshed = 0
        self.table = SimpleNamespace(leader_address=lambda shard: self.leader if shard == 3 else "other:1")

    def refresh_soon(self) -> None:
        self.refreshed += 1


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_watch, "STALL_S", 0.02)
    monkeypatch.setattr(answer_watch, "LOOK_S", 0.01)


async def test_routes_are_asked_for_until_another_node_leads() -> None:
    routes, moved = FakeRoutes(), asyncio.Event()
    AnswerWatch(cast(Any, routes), 3, "old:1", moved.set)
    await asyncio.sleep(0.1)
    assert routes.refreshed > 1
    routes.leader = None
    await asyncio.sleep(0.05)
    assert not moved.is_set(), "no other node is known to lead"
    routes.leader = "new:1"
    async with asyncio.timeout(5):
        await moved.wait()
    refreshed = routes.refreshed
    await asyncio.sleep(0.05)
    assert routes.refreshed == refreshed


async def test_an_answer_ends_the_watch_and_a_leader_may_take_the_expected_time() -> None:
    routes = FakeRoutes()
    answered = AnswerWatch(cast(Any, routes), 3, "old:1", pytest.fail)
    AnswerWatch(cast(Any, routes), 3, "old:1", pytest.fail, expected_s=60.0)
    answered.cancel()
    await asyncio.sleep(0.1)
    assert routes.refreshed == 0
