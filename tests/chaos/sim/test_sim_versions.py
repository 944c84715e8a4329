"""Nodes with an older program, and the feature level that a shard must have at the end of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.sim.campaign.swarm import Options, Wishes, draw
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.stack.stack_world import StackWorld
from ledger.state.feature_levels import LATEST_LEVEL
from tests.chaos.sim.conftest import NewStackWorld, missing_after

pytestmark = pytest.mark.long

OLD = 1
UPGRADE_MS = 9_000
MINUTES = 0.25
WIPE = FaultEvent(6_000, "wipe", (("target", "leader"), ("chance", 1)))


def options() -> Options:
    drawn = draw(1, Wishes(world="stack", minutes=MINUTES, nodes=3, shards=1, faults=()))
    return replace(
        drawn, sync=True, staged=False, flush_ms=10.0, authentication=False, old_programs=((OLD, (0, UPGRADE_MS)),)
    )


def level_of(world: StackWorld) -> int:
    return max(node.replica.state.feature_level for node in world.nodes() if node.replica is not None)


def test_after_an_upgrade_the_level_must_rise(new_world: NewStackWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world(options())
    assert missing_after(world) == []
    assert level_of(world) == LATEST_LEVEL

    monkeypatch.setattr("ledger.broker.feature_level.FeatureLevel.raise_to_supported", _raises_nothing)
    assert missing_after(new_world(options())) == [f"shard 0 has feature level 0, not {LATEST_LEVEL}"]


async def _raises_nothing(_: object) -> None:
    return None


def test_a_member_that_lost_its_disk_keeps_the_level_down(new_world: NewStackWorld) -> None:
    world = new_world(options())
    assert missing_after(world, WIPE) == []
    assert world.happened["wipe"] == 1
    assert level_of(world) == 0
