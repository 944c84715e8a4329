"""The stack world's own account: what was acknowledged, what a disk lost, and where logs and queues begin.

Each test plants a fault in the product, and the check of one promise sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.sim.engine.disk import SimDisk
from chaos.sim.engine.disk_content import PAGE, Crash
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.stack.log_starts import LogStarts
from chaos.sim.stack.stack_world import StackWorld
from cluster.node.replica.disk_threads import DiskThreads
from cluster.node.replica.shard_log import ShardLog
from ledger.broker.applied_state import AppliedState
from ledger.state import State
from raft.core.suspicion import Suspicion
from store import EntryKind, Snapshot
from store.log.recovery import Recovery
from store.log.segments import Segments
from tests.chaos.sim.test_sim_stack import options

pytestmark = pytest.mark.long


def found(
    *events: FaultEvent,
    seeds: range = range(1, 6),
    seconds: float = 30.0,
    sync: bool = True,
    kinds: Sequence[str] = ("kill",),
) -> str:
    """Run these faults with several seeds. Return the first violated invariant, or ""."""
    for seed in seeds:
        drawn = replace(options(seed, minutes=seconds / 60, sync=sync, faults=tuple(kinds)), flush_ms=30.0)
        with closing(StackWorld(drawn)) as world:
            world.start_workload()
            for event in events:
                world.loop.call_at(event.at_ms / 1000, world.fire, event)
            while world.loop.time() < seconds and not world.violations() and not world.loop.errors:
                world.loop.run_until(world.loop.time() + 1)
            if world.violations():
                return world.violations()[0].invariant
            assert not world.loop.errors
    return ""


def several(kind: str, *, every_ms: int = 4_000, until_ms: int = 28_000, for_ms: int = 500) -> list[FaultEvent]:
    return [
        FaultEvent(at_ms, kind, (("target", "follower"), ("for_ms", for_ms), ("chance", at_ms)))
        for at_ms in range(6_000, until_ms, every_ms)
    ]


POWER = several("power_cut")
CUT_OFF = several("isolate_with_client", for_ms=5_000, every_ms=7_000)
STARTS = several("log_start", every_ms=3_000)


def test_without_a_planted_fault_no_promise_is_broken() -> None:
    assert found(*POWER, *CUT_OFF, *STARTS, kinds=["log_start"], seeds=range(2, 3)) == ""
    assert found(*POWER, *CUT_OFF, sync=False, seeds=range(1, 2)) == ""


def test_what_is_acknowledged_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiskThreads, "persist", lambda self, done: done())
    assert found() == "what is acknowledged is on the disk"


def test_a_configuration_is_flushed_in_async_mode_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiskThreads, "flush", lambda self, done: done())
    changes = [FaultEvent(at_ms, "reconfigure", (("chance", at_ms),)) for at_ms in range(5_000, 28_000, 3_000)]
    assert found(*changes, sync=False, kinds=["reconfigure"]) == "what is acknowledged is on the disk"


def test_a_node_that_lost_something_is_a_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShardLog, "_remember_loss", lambda self, end: None)
    assert found(*POWER, sync=False) == "a node that lost something is a suspect"


def test_a_suspect_is_one_until_it_holds_all_it_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Suspicion, "lifted", lambda self, match: self.number)
    corrupt = [
        FaultEvent(5_000, "corrupt_in_transit", (("target", str(node)), ("for_ms", 25_000), ("chance", node)))
        for node in (1, 2, 3)
    ]  # so that the lost entries come late
    # Few seeds have a node that loses acknowledged entries and is trusted before they come again.
    assert found(*corrupt, *POWER, sync=False, seeds=range(23, 27)) == "a node that lost something is a suspect"


def test_a_suspect_has_its_mark_until_the_entries_are_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusted(self: DiskThreads, done: Callable[[], None] = lambda: None) -> None:
        self._forget_suspicion()
        done()

    monkeypatch.setattr(DiskThreads, "trusted", trusted)
    assert found(*POWER, sync=False) == "a suspect is marked"


def test_damage_that_nobody_planted_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recovery, "after_crash", lambda self, before_cut: self.after_kill())
    assert found(*several("torn_write"), *POWER) == "damage was planted"


@pytest.mark.parametrize("kind", ["power_cut", "kill"])
def test_what_is_behind_the_tail_after_a_start_is_blank(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(Recovery, "_erase_behind_tail", lambda self: None)
    assert found(*several(kind), *several("torn_write"), seeds=range(1, 12)) == "behind the tail it is blank"


def test_what_is_behind_the_tail_after_a_cut_is_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Segments, "erase", lambda self, first, end: None)
    assert found(*CUT_OFF) == "behind the tail it is blank"


class _Replica:
    """A replica whose log begins after an entry."""

    def __init__(self, applied: int, begins_behind: int) -> None:
        self.driver: Any = SimpleNamespace(applied=applied)
        self.log: Any = SimpleNamespace(first_index=begins_behind + 1)
        self.state = State()


def log_start_violations(*, named: int, begins_behind: int) -> list[str]:
    """Return what is wrong with a log after entry 9, which names a log start."""
    found: list[str] = []
    starts = LogStarts(lambda invariant, what: found.append(invariant))
    for index in range(1, 10):
        kind = EntryKind.LOG_START if index == 9 else EntryKind.NO_OP
        header: Any = SimpleNamespace(index=index, kind=kind)
        starts.applied(header, named.to_bytes(8, "little"))
    replica: Any = _Replica(9, begins_behind)
    starts.moved(1, replica, Snapshot(begins_behind, 1, 0, 0, 0, b"", State().encode()))
    return found


def test_the_log_begins_where_its_entry_says() -> None:
    assert log_start_violations(named=5, begins_behind=5) == []
    assert "the log begins where its entry says" in log_start_violations(named=5, begins_behind=4)
    assert "the log begins where its entry says" in log_start_violations(named=5, begins_behind=7)


def test_queues_begin_where_the_log_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop_before(self: AppliedState, position: int, state: State) -> None:
        self.keys.drop_before(position)
        for topic_id, queue, offset in self.state.ends():  # of the state now, and not of the state at the log start
            self.queues.get(topic_id, queue).begin_at(offset)

    monkeypatch.setattr(AppliedState, "_drop_before", drop_before)
    starts = several("log_start", every_ms=3_000, until_ms=58_000)
    assert found(*starts, seconds=60, kinds=["log_start"]) == "queues begin where the log does"


def test_a_majority_has_acknowledged_what_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raft.core.leader.reached_by_majority", lambda held: max(held))
    assert found(*several("pause", for_ms=2_000)) == "a majority has acknowledged"


# -- the disk


def test_a_disk_tells_what_a_power_cut_certainly_keeps() -> None:
    disk, path = SimDisk(Random(1)), Path("/data/file")
    disk.make_directory(path.parent)
    file = disk.create(path, PAGE)
    file.write(0, b"one")
    file.sync()
    assert disk.flushed(path, 0, 3) == b""  # its name is not flushed
    disk.sync_directory(path.parent)
    disk.sync_directory(Path("/"))
    assert disk.flushed(path, 0, 3) == b"one"
    file.write(0, b"two")
    assert (disk.flushed(path, 0, 3), disk.written(path, 0, 3)) == (b"one", b"two")
    disk.unlink(path)
    assert disk.flushed(path, 0, 3) == b""
    after = disk.power_cut(Crash(Random(1), PAGE, keeps=0.0, ordered_names=True))
    assert after.written(path, 0, 3) == b"one"
