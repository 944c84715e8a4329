"""Tests the coordinator of consumer groups with up to 1,000 members, and changes during an assignment.

The coordinator works on a state without a log.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from ledger.broker.consumer_groups import coordinator as module
from ledger.broker.consumer_groups.coordinator import Coordinator, moves
from ledger.errors import GroupFullError, InvalidArgumentError, UnknownMemberError
from ledger.state import ConsumerGroup, State, TopicQueueId
from ledger.state.command_encoding import encode_command
from ledger.state.commands import (
    AddShard,
    AssignQueues,
    Command,
    CreateTopic,
    JoinConsumerGroup,
    QueueEpoch,
    QueueTarget,
    ReleaseQueues,
)
from ledger.state.consumer_group_table import MemberDetails

MEMBERS = 1_000
QUEUES = 1_000


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the times of the coordinator: members that join together get one assignment even on a slow machine, and
    silent members are found soon.
    """
    monkeypatch.setattr(module, "CHECK_S", 0.01)
    monkeypatch.setattr(module, "GATHER_S", 0.2)
    monkeypatch.setattr(module, "LONGEST_GATHER_S", 30.0)


class OneReplica:
    """Stands for the replica of a coordinator. Each command is committed in the next turn of the event loop."""

    shard = 0

    def __init__(self) -> None:
        self.state = State()
        self.leading_term = 1
        self.commands: list[str] = []
        self._index = 0

    def check_leads(self, size: int) -> None:
        """Accept every request, like a leader with enough room."""

    def find_first(self) -> Any:
        return self

    def command(self, command: Command) -> asyncio.Future[object]:
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(self._commit, encode_command(command), future)
        self.commands.append(type(command).__name__)
        return future

    def _commit(self, body: bytes, future: asyncio.Future[object]) -> None:
        self._index += 1
        future.set_result(self.state.apply_command(body, 1_000, index=self._index))

    def group(self) -> ConsumerGroup:
        group = self.state.consumption.groups.get("billing")
        assert group is not None
        return group


class Working:
    """Runs a coordinator and its replica inside a `with` block. The body begins when the coordinator knows its term."""

    def __init__(self) -> None:
        self.replica = OneReplica()
        self.now_ms = 0.0
        self.coordinator = Coordinator(self.replica, lambda: self.now_ms, spawned)  # type: ignore[arg-type]

    async def __aenter__(self) -> Working:
        self._task = asyncio.create_task(self.coordinator.run())
        while not self.coordinator._term:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def join(self, *members: str, queues: int = QUEUES) -> None:
        await asyncio.gather(*(self.coordinator.join(joining(member, queues)) for member in members))

    async def attend(self, member: str, version: int = 0, wait_s: float = 30) -> ConsumerGroup:
        return await self.coordinator.attend("billing", member, version, wait_s)

    async def pass_time(self, ms: float) -> None:
        """Move the clock in steps, each of which the coordinator sees in a check."""
        end = self.now_ms + ms
        while self.now_ms < end:
            self.now_ms = min(self.now_ms + 1_000, end)
            await self.checked()

    async def checked(self) -> None:
        """Return when the coordinator has looked for silent members at the present time."""
        async with asyncio.timeout(30):
            while self.coordinator._checked_ms != self.now_ms:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def assigned(self) -> ConsumerGroup:
        async with asyncio.timeout(30):
            while self.coordinator._assigning or not self._is_assigned():  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        return self.replica.group()

    def _is_assigned(self) -> bool:
        return self.replica.group().assigned == self.replica.group().generation


def spawned(work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
    return asyncio.create_task(work, name=name)


def joining(member: str, queues: int, *, strategy: str = "average", room: str = "") -> JoinConsumerGroup:
    return JoinConsumerGroup("billing", strategy, MemberDetails(member, "", room, 10_000, ((1, queues),)))


def names(members: int) -> list[str]:
    return [f"m{number:04}" for number in range(members)]


async def test_a_thousand_members_that_join_at_once_are_assigned_by_one_assignment() -> None:
    async with Working() as working:
        await working.join(*names(MEMBERS))
        group = await working.assigned()
        assert Counter(share.owner for share in group.shares.values()) == Counter(names(MEMBERS))
        assert working.coordinator.rebalances == 1
        assert working.replica.commands.count("AssignQueues") == 1


async def test_all_who_attend_are_told_of_their_queues() -> None:
    async with Working() as working:
        await working.join(*names(MEMBERS))
        versions = {name: member.version for name, member in working.replica.group().members.items()}
        attending = [asyncio.create_task(working.attend(name, version)) for name, version in versions.items()]
        async with asyncio.timeout(30):
            await asyncio.gather(*attending)
        assert all(len(working.replica.group().view(name)) == 1 for name in names(MEMBERS))


async def test_changes_that_are_committed_together_are_told_to_the_waiting_members_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Working() as working:
        told: list[str] = []
        monkeypatch.setattr(working.coordinator._assignment_waiters, "announce", lambda name, group: told.append(name))
        await working.join(*names(200))
        await asyncio.sleep(0)
        assert 1 <= told.count("billing") < 100, "once for the changes, and for regular checks"


async def test_one_of_a_thousand_that_leaves_moves_its_queues_only() -> None:
    async with Working() as working:
        await working.join(*names(MEMBERS))
        before = {queue: share.owner for queue, share in (await working.assigned()).shares.items()}
        await working.coordinator.leave("billing", ["m0007"])
        group = await working.assigned()
        moved = [queue for queue, share in group.shares.items() if share.owner != before[queue]]
        assert [before[queue] for queue in moved] == ["m0007"]


async def test_a_thousand_members_that_are_heard_of_stay_and_the_silent_one_goes() -> None:
    async with Working() as working:
        await working.join(*names(MEMBERS))
        await working.assigned()
        await working.pass_time(9_000)
        for name in names(MEMBERS)[1:]:
            working.coordinator.heard("billing", name)
        await working.pass_time(2_000)
        async with asyncio.timeout(30):
            while "m0000" in working.replica.group().members:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        group = await working.assigned()
        assert list(group.members) == names(MEMBERS)[1:]
        assert {share.owner for share in group.shares.values()} == set(names(MEMBERS)[1:])


async def test_a_log_line_names_few_silent_members(caplog: pytest.LogCaptureFixture) -> None:
    async with Working() as working:
        await working.join(*names(500))
        await working.pass_time(12_000)
        async with asyncio.timeout(30):
            while working.replica.state.consumption.groups.get("billing") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    (line,) = [message for message in caplog.messages if "silent members" in message]
    assert "'m0009'] and 490 others are removed" in line
    assert len(line) < 300


async def test_members_are_not_silent_while_the_coordinator_itself_is_held_up() -> None:
    """The coordinator's process was stopped for longer than a session timeout. It has not read the heartbeats that
    came meanwhile, so no member loses queues for it. A member that stays silent is removed later."""
    async with Working() as working:
        await working.join("m0", "m1")
        await working.assigned()
        working.now_ms += 60_000
        await working.checked()
        assert list((await working.assigned()).members) == ["m0", "m1"]
        working.coordinator.heard("billing", "m0")
        await working.pass_time(9_500)
        async with asyncio.timeout(30):
            while "m1" in working.replica.group().members:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert list((await working.assigned()).members) == ["m0"]


async def test_a_large_assignment_goes_in_pieces_and_members_are_told_once_it_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 30)
    async with Working() as working:
        await working.join("a", "b", queues=100)
        version = working.replica.group().members["a"].version
        async with asyncio.timeout(30):
            group = await working.attend("a", version)
        assert working.replica.commands.count("AssignQueues") == 4
        assert len(group.view("a")) == 50
        assert group.assigned == group.generation


async def test_what_a_member_changes_in_mid_assignment_makes_it_void(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 30)
    async with Working() as working:
        await working.join("a", queues=100)
        while working.replica.commands.count("AssignQueues") < 2:  # noqa: ASYNC110 (between two pieces)
            await asyncio.sleep(0)
        await working.join("b", queues=100)
        group = await working.assigned()
        for queue in [queue for queue, share in group.shares.items() if share.target != share.owner]:
            released = ReleaseQueues("billing", "a", (QueueEpoch(queue, group.shares[queue].epoch),))
            await working.coordinator.release(released)
        assert Counter(share.owner for share in group.shares.values()) == {"a": 50, "b": 50}


async def test_queues_are_in_the_room_of_the_raft_shard_in_which_they_are() -> None:
    async with Working() as working:
        await working.replica.command(AddShard(1, (1,), (bytes(16),)))
        await working.replica.command(CreateTopic("orders", 4, (0, 1, 0, 1)))
        for member, room in (("a", "north"), ("b", "south")):
            wanted = joining(member, 4, strategy="machine_room", room=room)
            await working.coordinator.join(replace(wanted, rooms=((0, "south"), (1, "north"))))
        shares = (await working.assigned()).shares
        assert "".join(shares[queue].owner for queue in sorted(shares)) == "baba"


async def test_members_that_go_on_coming_do_not_put_off_the_assignment_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LONGEST_GATHER_S", 0.5)
    async with Working() as working, asyncio.timeout(30):
        for number in count():
            await working.join(f"m{number}", queues=8)
            if "AssignQueues" in working.replica.commands:
                break
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "wanted",
    [
        joining("a member", 1),
        joining("m" * 1_000_000, 1),
        joining("m", 1, strategy="best"),
        joining("m", 1, room="r" * 128),
        replace(joining("m", 1), rooms=((64, "north"),)),
        replace(joining("m", 1), rooms=((1, "r" * 128),)),
    ],
    ids=["name", "long name", "strategy", "room", "shard of a room", "room of a shard"],
)
async def test_a_join_with_impossible_values_is_neither_proposed_nor_remembered(wanted: JoinConsumerGroup) -> None:
    async with Working() as working:
        with pytest.raises(InvalidArgumentError):
            await working.coordinator.join(wanted)
        assert working.replica.commands == []
        assert working.coordinator._heard_ms == {}


async def test_nothing_is_proposed_for_members_that_cannot_exist_or_are_unknown() -> None:
    async with Working() as working:
        with pytest.raises(InvalidArgumentError):
            await working.coordinator.leave("billing", ["m" * 1_000_000])
        with pytest.raises(UnknownMemberError):
            await working.coordinator.release(ReleaseQueues("billing", "m" * 1_000_000, ()))
        assert working.replica.commands == []
        assert working.coordinator._heard_ms == {}


async def test_the_members_of_a_group_can_be_configured_with_few_queues_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_CONFIGURED_OF_GROUP", 5)

    def configured(name: str, queues: int) -> JoinConsumerGroup:
        wanted = joining(name, QUEUES, strategy="by_configuration")
        return replace(
            wanted, member=replace(wanted.member, configured=tuple(TopicQueueId(1, queue) for queue in range(queues)))
        )

    async with Working() as working:
        await working.coordinator.join(configured("a", 3))
        with pytest.raises(
            GroupFullError, match="configured with 3 queues, and this member with 3: at most 5 together"
        ):
            await working.coordinator.join(configured("b", 3))
        await working.coordinator.join(configured("b", 2))
        await working.coordinator.join(configured("a", 2))


def test_only_moves_are_said() -> None:
    state = State()
    for index, member in enumerate("ab", 1):
        state.consumption.join(joining(member, 4), index)
    group = state.consumption.groups.get("billing")
    assert group is not None
    assert said(group) == {0: "a", 1: "a", 2: "b", 3: "b"}
    apply(group, 3)
    assert said(group) == {}
    group.leave(["b"], 4)
    assert said(group) == {2: "a", 3: "a"}
    apply(group, 5)
    state.consumption.join(joining("a", 2), 6)  # the subscribed topic now has fewer queues
    assert said(group) == {2: "", 3: ""}
    apply(group, 7)


def test_a_queue_is_said_again_for_a_member_that_left_and_came_back() -> None:
    state = State()
    for index, member in enumerate("ab", 1):
        state.consumption.join(joining(member, 2), index)
    group = state.consumption.groups.get("billing")
    assert group is not None
    apply(group, 3)
    group.leave(["b"], 4)
    state.consumption.join(joining("b", 2), 5)
    assert said(group) == {1: "b"}
    apply(group, 6)
    assert [share.owner for share in group.shares.values()] == ["a", "b"]


def steps(group: ConsumerGroup) -> list[QueueTarget]:
    going = moves(group)
    while True:
        try:
            next(going)
        except StopIteration as end:
            found: list[QueueTarget] = end.value
            return found


def said(group: ConsumerGroup) -> dict[int, str]:
    return {each.queue.queue: each.member for each in steps(group)}


def apply(group: ConsumerGroup, index: int) -> None:
    wanted = AssignQueues(group.name, group.generation, tuple(steps(group)))
    state = State()
    state.consumption.groups._groups[group.name] = group
    assert state.consumption.assign(wanted, index)
