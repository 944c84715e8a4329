"""The full-stack world: production's nodes and clients over simulated disks, threads, network and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos.sim.faults import FaultEvent
from chaos.sim.run import run
from chaos.sim.stack import StackWorld
from chaos.sim.swarm import Options, Wishes, draw
from chaos.sim.workload_history import Outcome

SETTLE_MS = 60_000


def options(seed: int = 1, *, nodes: int = 3, sync: bool = True, minutes: float = 0.3) -> Options:
    drawn = draw(seed, Wishes(world="stack", minutes=minutes, nodes=nodes, faults=()))
    return replace(drawn, sync=sync, largest_batch=1)  # so that no send waits long for room in a small buffer


def history_of(world: StackWorld, *events: FaultEvent) -> StackWorld:
    """Runs it with these faults, to its end, which must be a good one."""
    world.start_workload()
    for event in events:
        world.loop.call_at(event.at_ms / 1000, world.fire, event)
    world.loop.run_until(world.options.duration_ms / 1000)
    world.stop_faults()
    missing = world.settle(SETTLE_MS)
    assert not world.loop.errors
    assert [str(violation) for violation in world.violations()] == []
    assert missing == []
    return world


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
@pytest.mark.parametrize("sync", [True, False])
def test_without_faults_everything_is_acknowledged_and_delivered(nodes: int, sync: bool) -> None:
    world = history_of(StackWorld(options(nodes=nodes, sync=sync)))
    figures, outcomes = world.figures(), world.history_of_clients.outcomes
    assert figures["sent"] > 10 * world.options.minutes * 60 / 2
    assert outcomes[Outcome.OK] == figures["sent"] == figures["committed"]
    assert figures["consumed"] == 2 * figures["committed"]
    assert figures["leaders"] == 1
    world.close()


def test_a_killed_leader_is_replaced_and_comes_back() -> None:
    kill = FaultEvent(6_000, "kill", (("target", "leader"), ("for_ms", 2_000), ("chance", 1)))
    world = history_of(StackWorld(options()), kill)
    assert world.happened["kill"] == 1
    assert world.figures()["leaders"] > 1
    assert all(node.alive for node in world.nodes())
    world.close()


def test_a_power_cut_of_all_nodes_loses_nothing_under_sync() -> None:
    cut = FaultEvent(6_000, "power_cut_all", (("for_ms", 500), ("chance", 2)))
    world = history_of(StackWorld(options()), cut, replace(cut, at_ms=12_000, arguments=(("chance", 5),)))
    assert world.happened["power_cut_all"] == 2
    assert world.history_of_clients.outcomes[Outcome.OK] > 50
    world.close()


def test_a_majority_may_not_lose_what_it_holds_under_async() -> None:
    cut = FaultEvent(6_000, "power_cut_all", (("for_ms", 500), ("chance", 2)))
    world = history_of(StackWorld(options(sync=False)), cut)
    assert world.happened["power_cut_all"] == 0
    world.close()


@pytest.mark.parametrize("kind", ["flipped_bit", "old_file"])
def test_damage_is_noticed_and_the_node_comes_back_when_it_is_repaired(kind: str) -> None:
    world = StackWorld(options(minutes=0.5))
    ends: list[str] = []
    for node in world.nodes():
        node.on_end = _recording(node.on_end, ends)
    history_of(world, FaultEvent(6_000, kind, (("target", "follower"), ("chance", 3))))
    assert world.happened[kind] == 1
    assert len(ends) == 1
    assert "DamagedError" in ends[0]
    world.close()


def _recording(on_end: Callable[..., None], ends: list[str]) -> Callable[..., None]:
    def record(node: object) -> None:
        ends.append(repr(node.ended))  # type: ignore[attr-defined]
        on_end(node)

    return record


def test_an_acknowledgement_that_did_not_wait_for_the_flush_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The net holds: with the promise broken, power cuts of all nodes lose something that was acknowledged."""
    monkeypatch.setattr("cluster.disk_threads.DiskThreads.persist", lambda _, done: done())
    for seed in range(1, 8):
        world = StackWorld(replace(options(seed), flush_ms=30.0))
        world.start_workload()
        for at_ms in range(5_000, 17_000, 3_000):
            cut = FaultEvent(at_ms, "power_cut_all", (("for_ms", 100), ("chance", at_ms + seed)))
            world.loop.call_at(at_ms / 1000, world.fire, cut)
        while world.loop.time() < 18 and not world.violations():
            world.loop.run_until(world.loop.time() + 1)
        found = bool(world.violations())
        world.close()
        if found:
            return
    pytest.fail("nothing was noticed")


def test_a_run_is_a_function_of_its_seed() -> None:
    wishes = Wishes(world="stack", minutes=0.5, nodes=3)
    first, second = run(5, wishes), run(5, wishes)
    assert first == second
    assert first.history != run(6, wishes).history
