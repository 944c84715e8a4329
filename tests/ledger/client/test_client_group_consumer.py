"""A consumer of a consumer group without a cluster: how its start and its waiting calls end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.client.group.assigned_queues import AssignedQueues
from ledger.client.group.group_membership import GroupMember
from ledger.client.records import Message, TopicQueue
from ledger.errors import (
    ClosedError,
    GroupConflictError,
    InternalError,
    LedgerError,
    NoLeaderError,
    RequestTimeoutError,
)
from ledgermq import AsyncGroupConsumer


def a_member(**assigned_queues: Any) -> AsyncGroupConsumer:
    """Return a consumer that counts as started. `assigned_queues` are attributes of its assigned queues."""
    consumer = AsyncGroupConsumer("orders", group="work", bootstrap_servers="n1:1")
    consumer._client.started = True
    consumer._news, consumer._progress = asyncio.Event(), asyncio.Event()
    consumer._assigned_queues = SimpleNamespace(  # type: ignore[assignment]
        places=list, is_settled=False, trouble=lambda: None, defect=None, **assigned_queues
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
    """Stands for a client whose coordinator gets a member's join, and does not answer it. If `error` is not None, the
    call of the client ends with this error, and a later leave with `leave_error`."""

    def __init__(self, error: LedgerError | None = None, leave_error: LedgerError | None = None) -> None:
        self.error, self.leave_error = error, leave_error
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
        if self.error is not None:
            raise self.error
        await asyncio.sleep(60)

    async def Leave(self, *_: Any, **__: Any) -> None:  # noqa: N802, as gRPC calls it
        self.asked.append("leave")
        if self.leave_error is not None:
            raise self.leave_error


async def test_a_start_that_is_given_up_leaves_no_member_behind() -> None:
    coordinator = SilentCoordinator()
    settings = AsyncGroupConsumer("orders", group="work", bootstrap_servers="n1:1")._settings
    joining = asyncio.create_task(GroupMember(coordinator, settings, ["orders"]).join())  # type: ignore[arg-type]
    await coordinator.has_join.wait()
    joining.cancel()
    await asyncio.wait([joining])
    assert joining.cancelled()
    assert coordinator.asked == ["join", "leave"]


@pytest.mark.parametrize("leave_error", [None, NoLeaderError("no leader")])
async def test_a_start_whose_join_has_no_answer_leaves_no_member_behind(leave_error: LedgerError | None) -> None:
    """The coordinator may have added the member, although its answer was lost."""
    coordinator = SilentCoordinator(RequestTimeoutError("no answer"), leave_error)
    settings = AsyncGroupConsumer("orders", group="work", bootstrap_servers="n1:1")._settings
    with pytest.raises(RequestTimeoutError, match="no answer"):
        await GroupMember(coordinator, settings, ["orders"]).join()  # type: ignore[arg-type]
    assert coordinator.asked == ["join", "leave"]


async def test_a_member_that_the_coordinator_refuses_does_not_leave() -> None:
    coordinator = SilentCoordinator(GroupConflictError("another mode"))
    settings = AsyncGroupConsumer("orders", group="work", bootstrap_servers="n1:1")._settings
    with pytest.raises(GroupConflictError):
        await GroupMember(coordinator, settings, ["orders"]).join()  # type: ignore[arg-type]
    assert coordinator.asked == ["join"]


async def test_a_start_that_finds_no_coordinator_does_not_leave() -> None:
    coordinator = SilentCoordinator()

    async def no_coordinator(*_: Any, **__: Any) -> Any:
        raise NoLeaderError("no leader")

    coordinator.FindCoordinator = no_coordinator  # type: ignore[method-assign]
    settings = AsyncGroupConsumer("orders", group="work", bootstrap_servers="n1:1")._settings
    with pytest.raises(NoLeaderError):
        await GroupMember(coordinator, settings, ["orders"]).join()  # type: ignore[arg-type]
    assert coordinator.asked == []


async def fails(*_: Any) -> None:
    raise KeyError("a defect")


async def goes_on(*_: Any) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("task", ["attendance", "queues", "acknowledgements"])
@pytest.mark.parametrize("call", ["getmany", "getbatches", "wait_assigned"])
async def test_a_defect_in_the_background_is_told_to_readers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, task: str, call: str
) -> None:
    """The reader waits when the task fails, or calls later. It must not go on without this task."""
    works = {"attendance": (GroupMember, "run"), "queues": (AssignedQueues, "run")}
    works["acknowledgements"] = (AssignedQueues, "keep_acknowledging")
    for name, (owner, method) in works.items():
        monkeypatch.setattr(owner, method, fails if name == task else goes_on)
    monkeypatch.setattr(GroupMember, "join", async_nothing)
    monkeypatch.setattr(GroupMember, "trouble", None)
    consumer = AsyncGroupConsumer("orders", group="work", bootstrap_servers="n1:1", max_attempts=1)
    monkeypatch.setattr(consumer._client, "start", async_nothing)
    await consumer.start()
    consumer._client.started = True
    try:
        for _ in range(2):
            with pytest.raises(InternalError, match=f"{task} of consumer group work.*KeyError"):
                await asyncio.wait_for(getattr(consumer, call)(), 5)
        assert "Traceback" in caplog.text
    finally:
        for each in consumer._tasks:
            each.cancel()
        await asyncio.wait(consumer._tasks)


async def async_nothing(*_: Any) -> None: ...


async def test_after_a_defect_no_more_messages_are_handed_out() -> None:
    """Nobody acknowledges the messages any more, or nobody hears that a queue has moved to another member."""
    member = a_member(get=lambda _: None)
    member._tasks = [asyncio.create_task(async_nothing())]
    message = Message("orders", 0, 5, 0, 0, None, b"", None, (), 1)
    member._take = lambda count: [message]  # type: ignore[method-assign]
    member._assigned_queues.places = lambda: [TopicQueue("orders", 0)]  # type: ignore[method-assign]
    member._assigned_queues.is_settled = True  # type: ignore[misc]
    assert await member.getmany() == [message]
    assert await member.wait_assigned() == [("orders", 0)]
    member._handed_out = []
    member._assigned_queues.defect = InternalError("a defect")
    for call in (member.getmany, member.wait_assigned):
        with pytest.raises(InternalError, match="a defect"):
            await call()
