"""When a leader raises the feature level of its shard."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.broker import feature_level
from ledger.broker.feature_level import FeatureLevel
from ledger.errors import NodeRefusedError
from ledger.state import State
from ledger.state.command_encoding import encode_command
from ledger.state.commands import Command, RaiseFeatureLevel
from ledger.state.feature_levels import LATEST_LEVEL


class Leader:
    """Stands for a leading replica, with only the members that `FeatureLevel` uses. A proposal waits for `commit`."""

    def __init__(self) -> None:
        self.shard = 0
        raft = SimpleNamespace(supported_feature_level=1, configuration_index=1, commit=5, progress={})
        self.driver: Any = SimpleNamespace(raft=raft)
        self.state = State()
        self.knows_the_end = True
        self.proposed: list[tuple[Command, asyncio.Future[Any]]] = []

    def propose_checked(self, command: Command) -> asyncio.Future[Any]:
        self.proposed.append((command, asyncio.get_running_loop().create_future()))
        return self.proposed[-1][1]

    def commit(self) -> None:
        command, future = self.proposed[-1]
        self.state.apply_command(encode_command(command), 0, index=6)
        future.set_result(None)


async def test_a_level_that_all_members_support_is_proposed_once() -> None:
    leader = Leader()
    level = FeatureLevel(leader)
    raising = asyncio.create_task(level.raise_to_supported())
    await asyncio.sleep(0)
    assert [command for command, _ in leader.proposed] == [RaiseFeatureLevel(1)]
    with pytest.raises(NodeRefusedError, match="node 4 runs an older version of ledgermq"):
        level.check_new_member(4, 0)  # the level is proposed, and not applied yet
    leader.commit()
    await raising
    await level.raise_to_supported()
    assert len(leader.proposed) == 1
    assert level.demanded == 1


@pytest.mark.parametrize(
    "hindrance",
    [
        {"supported_feature_level": 0},
        {"configuration_index": 6},
    ],
    ids=["a member with an older program", "a change of members that is not committed"],
)
async def test_a_level_waits_for_the_members(hindrance: dict[str, int]) -> None:
    leader = Leader()
    vars(leader.driver.raft).update(hindrance)
    await FeatureLevel(leader).raise_to_supported()
    assert not leader.proposed


async def test_a_request_waits_for_a_level_that_is_on_its_way() -> None:
    leader = Leader()
    level = FeatureLevel(leader)
    waiting = asyncio.create_task(level.reach(1))
    raising = asyncio.create_task(level.raise_to_supported())
    await asyncio.sleep(0)
    assert not waiting.done()
    leader.commit()
    await asyncio.gather(waiting, raising)


async def test_a_request_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_level, "REACH_S", 0.02)
    await FeatureLevel(Leader()).reach(1)


async def test_only_a_leader_that_knows_the_end_raises_the_level() -> None:
    leader = Leader()
    leader.knows_the_end = False
    await FeatureLevel(leader).raise_to_supported()
    assert not leader.proposed


async def test_members_with_a_newer_program_get_the_latest_level_of_this_program() -> None:
    leader = Leader()
    leader.driver.raft.supported_feature_level = LATEST_LEVEL + 5
    raising = asyncio.create_task(FeatureLevel(leader).raise_to_supported())
    await asyncio.sleep(0)
    assert leader.proposed[0][0] == RaiseFeatureLevel(LATEST_LEVEL)
    leader.commit()
    await raising


@pytest.mark.parametrize(
    ("levels", "may_reach"), [((2, 2), True), ((2, 1), False), ((2, 0), True), ((0, 0), True)],
    ids=["all support it", "one does not", "one has not answered yet", "none has answered yet"],
)  # fmt: skip
def test_a_level_cannot_be_reached_if_a_member_has_said_so(levels: tuple[int, int], *, may_reach: bool) -> None:
    leader = Leader()
    leader.driver.raft.progress = {node: SimpleNamespace(feature_level=level) for node, level in enumerate(levels, 2)}
    assert FeatureLevel(leader).may_reach(2) == may_reach
    leader.state.feature_level = 2
    assert FeatureLevel(leader).may_reach(2)
