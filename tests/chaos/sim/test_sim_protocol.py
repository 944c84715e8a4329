"""The protocol world: it works without faults, each fault kind has an effect, and code broken on purpose is caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest

from chaos.sim.campaign.run import SeedReport, run
from chaos.sim.campaign.swarm import Wishes, draw
from chaos.sim.engine.faults import PROTOCOL, FaultEvent, kinds_of
from chaos.sim.engine.targets import leader_of
from chaos.sim.protocol.disk_threads import SavedVote, SimDiskThreads
from chaos.sim.protocol.log import SimLog
from chaos.sim.protocol.machine import SimMachine
from chaos.sim.protocol.protocol_world import ProtocolWorld
from raft.core import Role
from store import EntryDraft, EntryKind

pytestmark = pytest.mark.long


def quiet(seed: int = 1, nodes: int = 3) -> SeedReport:
    return run(seed, Wishes(minutes=0.5, nodes=nodes, faults=()))


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_without_faults_everything_sent_is_acknowledged_and_nobody_else_is_elected(nodes: int) -> None:
    report = quiet(nodes=nodes)
    assert report.passed, report.reason
    figures = report.figures
    assert figures["sent"] == figures["acknowledged"] == figures["committed"] > 10 * 30 * 0.6
    assert figures["leaders"] == 1
    assert figures["reads"] > 0
    assert figures["consumed"] > 0
    assert report.happened == {}


# What a kind of fault counts beside itself.
OLD_DISK = {"disk put back", "divergence told", "run lost by disks"}
FOLLOWS = {"put_back_disk": OLD_DISK, "lying_flush": OLD_DISK}
ASKED_FOR = [kind.name for kind in kinds_of(PROTOCOL, 5)]


@pytest.mark.parametrize("kind", [*ASKED_FOR, "loss", "duplicate", "reorder", "replay"])
def test_every_fault_really_happens_where_it_is_asked_for(kind: str) -> None:
    reports = [run(seed, Wishes(minutes=1, nodes=5, faults=(kind,))) for seed in (1, 2)]
    assert [report.reason for report in reports if report.failed] == []
    assert sum(report.happened.get(kind, 0) for report in reports) > 0
    assert not any(set(report.happened) - {kind} - FOLLOWS.get(kind, set()) for report in reports)


def test_a_run_in_which_what_was_asked_for_never_happened_does_not_pass() -> None:
    report = run(1, Wishes(minutes=0.5, nodes=1, faults=("clock_jump",)), schedule=())
    assert not report.passed
    assert not report.failed
    assert report.void == ("clock_jump",)


@pytest.fixture
def world_with_leader() -> Iterator[ProtocolWorld]:
    with closing(ProtocolWorld(draw(2, Wishes(minutes=1, nodes=3, faults=())))) as world:
        world.start_workload()
        world.loop.run_until(15)
        assert leader_of(world.nodes()) is not None
        yield world


def test_a_killed_leader_is_replaced_and_comes_back_as_a_follower(world_with_leader: ProtocolWorld) -> None:
    world = world_with_leader
    old = leader_of(world.nodes())
    assert old is not None
    world.fire(FaultEvent(15_000, "kill", (("target", "leader"), ("for_ms", 8_000), ("chance", 1))))
    assert old.raft is None
    world.loop.run_until(22)
    new = leader_of(world.nodes())
    assert new is not None
    assert new is not old
    world.loop.run_until(40)
    assert old.alive
    assert old.driver.raft.role is Role.FOLLOWER
    assert world.happened == {"kill": 1}
    assert world.settle(20_000) == []
    assert world.violations() == []


def test_a_paused_node_takes_everything_up_at_once_when_it_goes_on(world_with_leader: ProtocolWorld) -> None:
    world = world_with_leader
    node = next(node for node in world.nodes() if not node.leads)
    node.pause()
    last = node.log.last_index
    world.loop.run_until(17)
    assert node.log.last_index == last
    node.resume()
    assert node.log.last_index > last


def test_where_a_loss_is_accepted_it_is_counted_and_the_cluster_goes_on() -> None:
    """Power cuts of all nodes under `async` may lose acknowledged messages, but only if the run accepts loss."""
    faults = ("power_cut_all", "kill")
    reports = [run(seed, Wishes(minutes=1, nodes=3, faults=faults, accepted_loss=True)) for seed in range(1, 9)]
    assert [report.reason for report in reports if not report.passed] == []
    assert sum(report.figures["lost"] for report in reports) > 0
    assert all(report.figures["acknowledged"] > 0 for report in reports)


def test_traffic_without_end_is_caught_and_to_catch_up_is_none(world_with_leader: ProtocolWorld) -> None:
    world = world_with_leader
    world.network.counts["sent"] += 12_000
    world.invariants.caught_up += 100
    world.loop.run_until(17)
    assert world.violations() == []
    world.network.counts["sent"] += 12_000
    world.loop.run_until(19)
    assert [violation.invariant for violation in world.violations()] == ["bounded traffic"]


# -- what is broken on purpose


def caught(wishes: Wishes, seeds: range = range(1, 40)) -> set[str]:
    """The invariants that the first failing seed violates."""
    for seed in seeds:
        report = run(seed, wishes)
        if report.failed:
            return {violation.split(": ")[1] for violation in report.violations} or {"settled"}
    return set()


def test_acknowledged_before_it_is_flushed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimDiskThreads, "persist", lambda self, done: done())
    assert quiet().passed
    assert caught(Wishes(minutes=1, nodes=3, faults=("power_cut_at_ack",))) & {
        "Leader Completeness",
        "State Machine Safety",
        "exactly once, in order",
        "held as promised",
    }


def test_a_vote_that_is_not_saved_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: SimDiskThreads, term: int, voted_for: int, done: object) -> None:
        self._votes.on_saved(SavedVote(term, voted_for))  # so that nobody misses it before it matters
        self._process.later(0.001, done)  # type: ignore[arg-type]

    monkeypatch.setattr(SimDiskThreads, "save_vote", forget)
    assert quiet().passed
    assert caught(Wishes(minutes=1, nodes=3, faults=("kill_at_vote", "mute"))) & {
        "durable vote",
        "durable term",
        "voted what it saved",
    }


def test_applying_repeats_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def propose_again(self: SimMachine, record: object, reply: object) -> None:
        batch = EntryDraft(EntryKind.BATCH, b"\0" * 16, 1, 0, self.state.next_offset(1, 0), 1)
        self._propose(batch, None, reply)  # type: ignore[arg-type]

    monkeypatch.setattr(SimMachine, "_repeated", propose_again)
    assert quiet().passed
    found = caught(Wishes(minutes=1, nodes=3, faults=("duplicate",)))
    assert found & {"acknowledged is committed", "exactly once, in order", "offsets without gaps"}


# -- its log


def log_of(*bodies: bytes) -> SimLog:
    log = SimLog()
    log.append([EntryDraft(EntryKind.COMMAND, body) for body in bodies], term=1, commit=0, now_ms=0)
    return log


def test_a_power_cut_keeps_what_was_flushed_and_perhaps_some_of_the_rest() -> None:
    lengths: Counter[int] = Counter()
    for seed in range(60):
        log = log_of(b"a", b"b", b"c", b"d")
        log.flush_began()
        log.append([EntryDraft(EntryKind.COMMAND, b"e")], term=1, commit=0, now_ms=0)
        log.truncate(4)
        log.append(
            [EntryDraft(EntryKind.COMMAND, b"f"), EntryDraft(EntryKind.COMMAND, b"g")], term=2, commit=0, now_ms=0
        )
        log.flush_ended()
        log.power_lost(Random(seed))
        lengths[log.last_index] += 1
        assert [entry.body for entry in log.entries] == [b"a", b"b", b"c", b"d", b"f", b"g"][: log.last_index]
    assert set(lengths) == {4, 5, 6}


def test_a_cut_that_was_not_flushed_may_come_back() -> None:
    found = set()
    for seed in range(30):
        log = log_of(b"a", b"b", b"c")
        log.flush_began()
        log.flush_ended()
        log.truncate(1)
        log.append([EntryDraft(EntryKind.COMMAND, b"n")], term=2, commit=0, now_ms=0)
        outcome = log.power_lost(Random(seed))
        found.add((outcome, b"".join(entry.body for entry in log.entries)))
    assert found == {("came back", b"abc"), ("lost", b"a"), ("nothing", b"an")}


def test_a_flush_does_not_cover_what_was_cut_and_written_anew_since_it_began() -> None:
    log = log_of(b"a", b"b", b"c")
    log.flush_began()
    log.truncate(1)
    log.append([EntryDraft(EntryKind.COMMAND, b"n"), EntryDraft(EntryKind.COMMAND, b"m")], term=2, commit=0, now_ms=0)
    log.flush_ended()
    assert log.flushed == 1


def test_a_kill_keeps_the_page_cache_unless_a_flush_had_failed() -> None:
    log = log_of(b"a", b"b")
    log.killed(Random(1))
    assert log.last_index == log.flushed == 2
