"""A consumer of a consumer group without a cluster: how its start and its waiting calls end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.client.group.group_membership import GroupMember
from ledger.errors import ClosedError, RequestTimeoutError
from ledgermq import AsyncGroupConsumer


def a_member(**assigned_queues: Any) -> AsyncGroupConsumer:
    """Return a consumer that counts as started. `assigned_queues` are attributes of its assigned queues."""
    consumer = AsyncGroupConsumer("orders", group="work", bootstrap_servers="n1:1")
    consumer._client.started = True
    consumer._news, consumer._progress = asyncio.Event(), asyncio.Event()
    consumer._assigned_queues = SimpleNamespace(  # type: ignore[assignment]
        places=list, is_settled=False, trouble=lambda: None, **assigned_queues
    )
    return consumer


async def test_waiting_for_an_assignment_raises_the_error_of_a_request_without_an_answer() -> None:
    member = a_member()
    assert await member.wait_assigned(1) == [], "the time of the caller has passed"
    member._assigned_queues.trouble = lambda: RequestTimeoutError("no answer")  # type: ignore[method-assign]
    with pytest.raises(RequestTimeoutError, match="no answer"):
        await member.wait_assigned(1_000)


class Leaving:
    """Stands for everything that a consumer ends when it leaves its group. Each step takes some turns of the loop."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.begun = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        async def step(*_: Any) -> None:
            self.begun.set()
            for _turn in range(3):
                await asyncio.sleep(0)
            self.steps.append(name)

        return step


async def test_a_stop_that_is_given_up_leaves_the_group_all_the_same() -> None:
    """A message is in hand, so the stop waits for it. Then the caller gives up."""
    leaving, link = Leaving(), Leaving()
    member = a_member(
        has_in_hand=True, revoke_all=leaving.revoke_all, close=leaving.close, acknowledge=leaving.acknowledge
    )
    member._member, member._client.link = leaving, link  # type: ignore[assignment]
    reader = asyncio.create_task(asyncio.sleep(60))
    member._auto, member._reader = False, reader
    heartbeats = asyncio.create_task(asyncio.sleep(60))
    member._tasks = [heartbeats]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(member.stop(), 0.01)
    assert leaving.steps == ["revoke_all", "close", "acknowledge", "leave"]
    assert heartbeats.cancelled()
    assert link.steps == ["leave"]
    await member.stop()
    with pytest.raises(ClosedError):
        await member.getmany()
    reader.cancel()


async def test_a_stop_waits_for_the_end_that_a_cancelled_stop_has_begun() -> None:
    leaving, link = Leaving(), Leaving()
    member = a_member(revoke_all=leaving.revoke_all, close=leaving.close, acknowledge=leaving.acknowledge)
    member._member, member._client.link = leaving, link  # type: ignore[assignment]
    first = asyncio.create_task(member.stop())
    await leaving.begun.wait()
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    assert link.steps == []
    await member.stop()
    assert link.steps == ["leave"]


class SilentCoordinator:
    """Stands for a client whose coordinator gets a member's join, and does not answer it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.has_join = asyncio.Event()
        self.routes = SimpleNamespace(on_topic_change=[], snapshot=lambda: SimpleNamespace(nodes=(), shards={}))

    async def topic(self, name: str) -> Any:
        return SimpleNamespace(name=name, topic_id=7, shards=(0, 0))

    async def call(self, _shard: int, make: Callable[[Any, float], Any], **_: Any) -> Any:
        return await make(self, 1)

    async def FindCoordinator(self, *_: Any, **__: Any) -> Any:  # noqa: N802, as gRPC calls it
        return SimpleNamespace(shard=0)

    async def Join(self, *_: Any, **__: Any) -> None:  # noqa: N802, as gRPC calls it
        self.asked.append("join")
        self.has_join.set()
        await asyncio.sleep(60)

    async def Leave(self, *_: Any, **__: Any) -> None:  # noqa: N802, as gRPC calls it
        self.asked.append("leave")


async def test_a_start_that_is_given_up_leaves_no_member_behind() -> None:
    coordinator = SilentCoordinator()
    settings = AsyncGroupConsumer("orders", group="work", bootstrap_servers="n1:1")._settings
    joining = asyncio.create_task(GroupMember(coordinator, settings, ["orders"]).join())  # type: ignore[arg-type]
    await coordinator.has_join.wait()
    joining.cancel()
    await asyncio.wait([joining])
    assert joining.cancelled()
    assert coordinator.asked == ["join", "leave"]
