"""Fault kinds of the stack world with a file of their own: each really happens where it is asked for, and the run
passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes, draw
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.stack.stack_world import StackWorld
from raft.core.answers import Answers
from raft.log_start import LogStart
from store import Snapshot
from tests.chaos.sim.conftest import NewStackWorld
from tests.chaos.sim.test_sim_stack import history_of, options

pytestmark = pytest.mark.long


def asked(world: StackWorld, kind: str, at_ms: int = 5_000, for_ms: int = 4_000) -> FaultEvent:
    return FaultEvent(at_ms, kind, (("target", "leader"), ("for_ms", for_ms), ("chance", 1)))


@pytest.mark.parametrize("kind", ["mute_followers", "no_room", "clock_leap", "repair_other_chain"])
def test_a_directed_fault_happens_and_the_cluster_keeps_its_promises(new_world: NewStackWorld, kind: str) -> None:
    world = new_world(options(faults=(kind,)))
    history_of(world, asked(world, kind))
    assert world.happened[kind] == 1


@pytest.mark.parametrize("kind", ["configuration_at_tail", "two_learners"])
def test_a_directed_fault_of_members_happens(new_world: NewStackWorld, kind: str) -> None:
    """An operator may have to wait, so it begins several times."""
    world = new_world(options(minutes=0.5, faults=(kind,)))
    history_of(world, *(replace(asked(world, kind), at_ms=at_ms) for at_ms in range(4_000, 26_000, 3_000)))
    assert world.happened[kind] > 0


def test_a_snapshot_replaces_a_log_that_is_longer(new_world: NewStackWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    install, replaced = LogStart.install, []

    def installing(self: LogStart, snapshot: Snapshot) -> None:
        differs = self._log.chain(snapshot.index) != snapshot.chain if self._log.last_index >= snapshot.index else False
        replaced.append(differs)
        install(self, snapshot)

    monkeypatch.setattr(LogStart, "install", installing)
    world = new_world(options(minutes=0.5, faults=("snapshot_over_longer",)))
    history_of(world, *(replace(asked(world, "snapshot_over_longer"), at_ms=at_ms) for at_ms in (4_000, 14_000)))
    assert world.happened["snapshot_over_longer"] > 0
    assert any(replaced)


def test_a_clock_that_leapt_is_set_right(new_world: NewStackWorld) -> None:
    world = new_world(options(faults=("clock_leap",)))
    world.fire(asked(world, "clock_leap"))
    assert [abs(node.clock_ms) >= 86_400_000 for node in world.nodes()].count(True) == 1
    world.stop_faults()
    assert [node.clock_ms for node in world.nodes()] == [0, 0, 0]


def test_a_node_without_room_takes_no_writes_and_takes_them_again(new_world: NewStackWorld) -> None:
    world = new_world(options(faults=("no_room",)))
    world.start_workload()
    world.loop.run_until(5.0)
    world.fire(asked(world, "no_room", for_ms=3_000))
    world.loop.run_until(7.5)
    refusing = [node.replica.no_room for node in world.nodes() if node.replica is not None]
    assert sum(map(bool, refusing)) == 1
    world.loop.run_until(11.0)
    assert not any(node.replica.no_room for node in world.nodes() if node.replica is not None)


def test_acknowledgements_of_mute_followers_do_not_arrive(
    new_world: NewStackWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answers, "is_mute", property(lambda self: False))
    world = new_world(options(minutes=1.5, faults=("mute_followers",)))
    world.start_workload()
    world.loop.run_until(5.0)
    world.fire(asked(world, "mute_followers", for_ms=80_000))
    while world.loop.time() < 85 and not world.violations():
        world.loop.run_until(world.loop.time() + 1)
    assert [each.invariant for each in world.violations()] == ["without acknowledgements, a leader steps down"]


@pytest.mark.parametrize("kind", ["power_cut", "power_cut_minority"])
def test_power_faults_asked_for_by_name_happen_in_both_flush_modes(kind: str) -> None:
    wishes = Wishes(minutes=0.5, world="protocol", nodes=3, faults=(kind,))
    modes = {draw(seed, wishes).sync: seed for seed in range(1, 9)}
    assert set(modes) == {True, False}
    for seed in modes.values():
        report = run(seed, wishes)
        assert report.passed, report.reason
        assert report.happened[kind] > 0


def test_power_faults_of_all_nodes_are_drawn_under_sync_only() -> None:
    for kind in ("power_cut_all", "power_cut_at_ack", "failed_flush"):
        assert all(draw(seed, Wishes(nodes=3, faults=(kind,))).sync for seed in range(1, 20))
    assert all(draw(seed, Wishes(nodes=2, faults=("power_cut",))).sync for seed in range(1, 20))


def test_four_and_five_voters_are_common() -> None:
    drawn = [draw(seed, Wishes()).nodes for seed in range(1, 201)]
    assert 60 < drawn.count(4) + drawn.count(5) < 110
