"""The stack world: production nodes and clients over simulated disks, threads, network and time."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Options, Wishes, draw
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import leader_of
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.stack_world import StackWorld
from chaos.sim.stack.workload_history import SendOutcome
from cluster.node.replica.builder import ReplicaBuilder
from cluster.node.replica.disk_threads import DiskThreads
from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.retention.log_holds import LogHolds
from raft.core.leader import Leader
from tests.chaos.sim.conftest import NewStackWorld, missing_after

pytestmark = pytest.mark.long

SETTLE_MS = 60_000


def options(
    seed: int = 1,
    *,
    nodes: int = 3,
    shards: int = 1,
    sync: bool = True,
    minutes: float = 0.3,
    faults: tuple[str, ...] = (),
) -> Options:
    drawn = draw(seed, Wishes(world="stack", minutes=minutes, nodes=nodes, shards=shards, faults=faults))
    # No send waits long for room in a small buffer, and no leader hands over because its disk is slow.
    # Messages with delivery times have tests of their own (test_sim_timed.py).
    return replace(drawn, sync=sync, staged=False, largest_batch=1, flush_ms=10.0, timed_share=0.0)


def history_of(world: StackWorld, *events: FaultEvent) -> StackWorld:
    """Run the world with these faults to its end. The run must pass."""
    missing = missing_after(world, *events, settle_ms=SETTLE_MS)
    assert not world.loop.errors
    assert missing == []
    return world


@pytest.mark.parametrize(("nodes", "shards"), [(1, 1), (2, 1), (3, 1), (5, 1), (1, 2), (3, 4), (5, 3)])
@pytest.mark.parametrize("sync", [True, False])
def test_without_faults_everything_is_acknowledged_and_delivered(
    new_world: NewStackWorld, nodes: int, shards: int, sync: bool
) -> None:
    world = history_of(new_world(options(nodes=nodes, shards=shards, sync=sync)))
    figures, outcomes = world.figures(), world.history_of_clients.outcomes
    assert figures["sent"] > 10 * world.options.minutes * 60 / 2
    assert outcomes[SendOutcome.OK] == figures["sent"] == figures["committed"]
    assert figures["consumed"] == 3 * figures["committed"]  # by the last consumer too
    assert figures["leaders"] == figures["shards"] == shards


def test_a_killed_leader_is_replaced_and_comes_back(new_world: NewStackWorld) -> None:
    kill = FaultEvent(6_000, "kill", (("target", "leader"), ("for_ms", 2_000), ("chance", 1)))
    world = history_of(new_world(options()), kill)
    assert world.happened["kill"] == 1
    assert world.figures()["leaders"] > 1
    assert all(node.alive for node in world.nodes())


def test_a_power_cut_of_all_nodes_loses_nothing_under_sync(new_world: NewStackWorld) -> None:
    cut = FaultEvent(6_000, "power_cut_all", (("for_ms", 500), ("chance", 2)))
    world = history_of(new_world(options()), cut, replace(cut, at_ms=12_000, arguments=(("chance", 5),)))
    assert world.happened["power_cut_all"] == 2
    assert world.history_of_clients.outcomes[SendOutcome.OK] > 50


def test_a_majority_may_not_lose_what_it_holds_under_async(new_world: NewStackWorld) -> None:
    cut = FaultEvent(6_000, "power_cut_all", (("for_ms", 500), ("chance", 2)))
    world = history_of(new_world(options(sync=False)), cut)
    assert world.happened["power_cut_all"] == 0


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", ["flipped_bit", "old_file"])
def test_damage_is_noticed_and_repaired_from_the_other_nodes(new_world: NewStackWorld, kind: str, shards: int) -> None:
    world = new_world(options(shards=shards, minutes=0.5))
    ends: list[StackNode] = []
    for node in world.nodes():
        node.on_end = ends.append
    history_of(world, FaultEvent(6_000, kind, (("target", "follower"), ("chance", 3))))
    assert world.happened[kind] == 1
    assert ends == []  # the node stays up
    assert not any(node.is_damaged or node.suspect for node in world.nodes())


def test_damage_that_nobody_repairs_is_a_failure(new_world: NewStackWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world(options(minutes=0.5))
    monkeypatch.setattr("chaos.sim.engine.rpc.SimEntrySource.read", _no_answer)
    with pytest.raises(AssertionError, match="the log of shard 0 is damaged"):
        history_of(world, FaultEvent(6_000, "flipped_bit", (("target", "follower"), ("chance", 3))))


async def _no_answer(*_: object) -> None:
    return None


@pytest.mark.parametrize("shards", [1, 3])
def test_members_are_removed_and_added_under_load(new_world: NewStackWorld, shards: int) -> None:
    changes = [FaultEvent(at_ms, "reconfigure", (("chance", at_ms),)) for at_ms in range(6_000, 58_000, 4_000)]
    world = new_world(options(minutes=1.0, shards=shards, faults=("reconfigure",)))
    assert len(world.nodes()) == 5
    history_of(world, *changes)
    assert world.happened["reconfigure"] > 4
    leader = leader_of(world.nodes())
    assert leader is not None
    assert leader.replica is not None
    configuration = leader.replica.newest_configuration()
    assert configuration is not None
    assert any(world.nodes()[voter - 1].settings.join for voter in configuration.voters)  # one that was added


def test_a_log_that_begins_later_is_given_to_a_new_node_from_its_base(new_world: NewStackWorld) -> None:
    starts = [FaultEvent(at_ms, "log_start", (("chance", chance),)) for at_ms, chance in ((30_000, 1), (45_000, 4))]
    changes = [FaultEvent(at_ms, "reconfigure", (("chance", at_ms),)) for at_ms in range(50_000, 80_000, 5_000)]
    spoils = FaultEvent(48_000, "corrupt_in_transit", (("target", "leader"), ("for_ms", 10_000), ("chance", 2)))
    world = history_of(
        new_world(options(4, minutes=1.5, faults=("log_start", "reconfigure"))), *starts, spoils, *changes
    )
    assert world.happened["log_start"] >= 2
    added = [node.replica for node in world.nodes() if node.settings.join and node.replica is not None]
    assert any(replica.log.first_index > 1 for replica in added)
    assert world.history_of_clients.skipped > 0  # by the consumer that began last


def test_shards_and_queues_are_added_under_load(new_world: NewStackWorld) -> None:
    drawn = options(shards=3, minutes=1.0, faults=("add_group", "alter_topic"))
    world = new_world(replace(drawn, first_shards=1, queues=1))
    events = [FaultEvent(at_ms, "add_group", (("chance", at_ms),)) for at_ms in range(5_000, 25_000, 5_000)]
    events += [FaultEvent(at_ms, "alter_topic", (("chance", at_ms),)) for at_ms in range(7_000, 47_000, 5_000)]
    history_of(world, *events)
    assert world.figures()["shards"] == 3
    assert world.happened["alter_topic"] > 4
    replica = world.nodes()[0].replica
    assert replica is not None
    topics = replica.state.topics
    groups = {topic.name: topic.shards for topic in topics}
    written = {groups[name][queue] for name, queue in world.history_of_clients.ends()}
    assert written == {0, 1, 2}  # and each queue was read to its end


def test_a_leader_that_stops_in_order_hands_over(new_world: NewStackWorld) -> None:
    world = new_world(options())
    world.start_workload()
    world.loop.run_until(6)
    leader = leader_of(world.nodes())
    assert leader is not None
    leader.stop()
    drawn = world.options
    world.loop.run_until(6 + drawn.tick_ms * drawn.election_ticks / 2_000)  # nobody had to miss it
    successor = leader_of(world.nodes())
    assert successor is not None
    assert successor is not leader


def test_a_node_that_is_told_to_stop_again_and_again_stops_once(new_world: NewStackWorld) -> None:
    world = new_world(options(shards=3))
    world.start_workload()
    world.loop.run_until(6.0)
    node = world.nodes()[0]
    node.slow_disk = 100.0  # between its shards it waits
    while node.process is not None:
        node.stop()
        world.loop.run_until(world.loop.time() + 0.05)
    assert not world.loop.errors
    assert not world.violations()


def test_a_read_without_a_quorum_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator notices a leader that answers reads although it was cut off with some clients."""

    def take_reads(self: Leader) -> object:
        return self._reads.take(self._round) if self._reads.in_round else ()

    monkeypatch.setattr(Leader, "take_reads", take_reads)
    for seed in range(1, 11):
        with closing(StackWorld(options(seed, minutes=1.0))) as world:
            world.start_workload()
            for at_ms in range(6_000, 60_000, 6_000):
                cut = FaultEvent(at_ms, "isolate_with_client", (("for_ms", 5_000), ("chance", at_ms + seed)))
                world.loop.call_at(at_ms / 1000, world.fire, cut)
            while world.loop.time() < 60 and not world.violations():
                world.loop.run_until(world.loop.time() + 1)
            found = [violation.invariant for violation in world.violations()]
        if found:
            assert found[0] == "reads are not stale"
            return
    pytest.fail("nothing was noticed")


@pytest.mark.parametrize("shards", [1, 2])
def test_an_acknowledgement_that_did_not_wait_for_the_flush_is_noticed(
    monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    """The simulator notices that power cuts of all nodes lose acknowledged messages, if acknowledgements come early."""
    make_threads = ReplicaBuilder.threads

    def hasty(self: ReplicaBuilder, replica: BrokerReplica) -> DiskThreads:
        threads = make_threads(self, replica)
        if self.number == shards - 1:
            threads.persist = lambda done: done()  # type: ignore[method-assign]
        return threads

    monkeypatch.setattr(ReplicaBuilder, "threads", hasty)
    for seed in range(1, 8):
        with closing(StackWorld(replace(options(seed, shards=shards), flush_ms=30.0))) as world:
            world.start_workload()
            for at_ms in range(5_000, 17_000, 3_000):
                cut = FaultEvent(at_ms, "power_cut_all", (("for_ms", 100), ("chance", at_ms + seed)))
                world.loop.call_at(at_ms / 1000, world.fire, cut)
            while world.loop.time() < 18 and not world.violations():
                world.loop.run_until(world.loop.time() + 1)
            found = world.violations()
        if found:
            assert f"shard {shards - 1}: " in str(found[0])
            return
    pytest.fail("nothing was noticed")


def test_a_log_that_moves_though_it_is_held_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator notices a leader that ignores holds."""
    monkeypatch.setattr(LogHolds, "is_held", property(lambda _: False))
    for seed in range(1, 8):
        with closing(StackWorld(options(seed, minutes=1.0, faults=("log_start",)))) as world:
            world.start_workload()
            for at_ms in range(20_000, 60_000, 4_000):
                world.loop.call_at(
                    at_ms / 1000, world.fire, FaultEvent(at_ms, "log_start", (("chance", at_ms + seed),))
                )
            while world.loop.time() < 60 and not world.violations():
                world.loop.run_until(world.loop.time() + 1)
            found = [violation.invariant for violation in world.violations()]
        if found:
            assert found[0] == "what is held stays"
            return
    pytest.fail("nothing was noticed")


def test_a_kill_takes_what_a_node_staged_and_had_not_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with kills, which lose nothing on nodes that write directly."""
    monkeypatch.setattr("cluster.node.replica.disk_threads.DiskThreads.persist", lambda _, done: done())

    def lost(seed: int, *, staged: bool) -> bool:
        with closing(StackWorld(replace(options(seed), flush_ms=30.0, staged=staged))) as world:
            world.start_workload()
            for at_ms in range(5_000, 17_000, 3_000):
                for node in world.nodes():
                    world.loop.call_at(at_ms / 1000, node.kill)
                    world.loop.call_at(at_ms / 1000 + 0.1, node.start_again)
            while world.loop.time() < 18 and not world.violations():
                world.loop.run_until(world.loop.time() + 1)
            return bool(world.violations())

    assert not any(lost(seed, staged=False) for seed in (1, 2))
    assert any(lost(seed, staged=True) for seed in range(1, 8))


def test_a_run_is_a_function_of_its_seed() -> None:
    wishes = Wishes(world="stack", minutes=0.5, nodes=3)
    first, second = run(5, wishes), run(5, wishes)
    assert first == second
    assert first.history != run(6, wishes).history
