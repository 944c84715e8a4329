"""Fault kinds with promises of their own: what the world does, and that each promise sees a planted fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.sim.campaign import swarm
from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes, draw
from chaos.sim.engine.faults import KINDS, classes_of
from chaos.sim.protocol.append_times import AppendTimes
from chaos.sim.protocol.node import EPOCH_MS
from raft.cluster_clock import ClusterClock
from raft.core import HeartbeatResponse, Role
from raft.core.answers import Answers
from raft.core.leader import Leader
from raft.core.progress import FollowerProgress
from raft.core.server import Server
from raft.core.suspicion import Suspicion
from raft.core.transfer import Transfer

PROMISED = [fault.kind for fault in classes_of("protocol", KINDS)]
DIRECTED = [fault.kind for fault in classes_of("stack", KINDS)]


def test_each_kind_is_defined_for_its_world_with_a_random_stream_of_its_own() -> None:
    for kinds, world in ((PROMISED, "protocol"), (DIRECTED, "stack")):
        assert len(set(kinds)) == len(kinds) > 5
        for kind in kinds:
            assert world in KINDS[kind].worlds
            assert KINDS[kind].share is not None
    for kind in KINDS.values():
        assert not kind.files or {file.split(".")[2] for file in kind.files} == set(kind.worlds)


@pytest.mark.parametrize("world", ["protocol", "stack"])
def test_kinds_with_a_share_change_nothing_else_that_a_seed_draws(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [draw(seed, Wishes(world)) for seed in range(1, 101)]
    monkeypatch.setattr(swarm, "_of_own_streams", lambda *_: [])
    for options in drawn:
        before = draw(options.seed, Wishes(world))
        old = tuple(each for each in options.strengths if KINDS[each[0]].share is None)
        assert replace(options, strengths=old) == before


def test_a_kind_with_a_share_is_drawn_by_this_share_of_the_seeds() -> None:
    drawn = [dict(draw(seed, Wishes(nodes=3)).strengths) for seed in range(1, 501)]
    for kind in PROMISED:
        assert 25 < sum(kind in strengths for strengths in drawn) < 80


@pytest.mark.parametrize("kind", PROMISED)
def test_the_cluster_keeps_the_promise(kind: str) -> None:
    report = run(1, Wishes(minutes=1.5, nodes=3, faults=(kind,)))
    assert report.passed, report.reason
    assert report.happened[kind] > 0


# -- each promise sees a planted fault


def reason_with(kind: str, *, seeds: range = range(1, 9)) -> str:
    """Return why the first of these seeds fails."""
    reports = (run(seed, Wishes(minutes=1.5, nodes=3, faults=(kind,))) for seed in seeds)
    return next((report.reason for report in reports if report.failed), "")


def test_a_mute_follower_that_is_never_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answers, "is_mute", property(lambda self: False))
    assert "without acknowledgements, a leader steps down" in reason_with("mute_followers")


def test_a_leader_without_room_that_leads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transfer, "_with_room", lambda self: 0)
    assert "without room, a leader hands over" in reason_with("no_room")


@pytest.mark.long
def test_a_voter_without_room_that_stands_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "stands_late", property(lambda self: False))
    # A voter stands only if the leader is gone.
    reports = (run(seed, Wishes(minutes=1.5, nodes=3, faults=("no_room", "kill"))) for seed in range(1, 9))
    found = next(report.reason for report in reports if report.failed)
    assert "without room, others first" in found


def test_a_leader_that_dates_by_its_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterClock, "now_ms", lambda self, voters: self._wall_ms())
    assert "append times follow a majority" in reason_with("clock_leap")


def test_a_divergence_that_nobody_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "diverge", lambda self, divergence: None)
    assert reason_with("put_back_disk", seeds=range(1, 16)).partition(": ")[2].startswith("a contradiction is noted")


def test_a_leader_that_was_cut_off_after_it_handed_over_and_answers_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_reads(self: Leader) -> object:
        return self._reads.take(self._round) if self._reads.in_round else ()

    monkeypatch.setattr(Leader, "take_reads", take_reads)
    assert "reads are not stale" in reason_with("cut_after_timeout_now")


def test_a_suspect_makes_only_runs_in_which_it_can_be_one() -> None:
    assert not any(draw(seed, Wishes(nodes=3, faults=("answers_before_loss",))).sync for seed in range(1, 20))


def test_a_suspect_that_is_trusted_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Suspicion, "lifted", lambda self, match: self.number if match else 0)
    assert "a node that lost something is a suspect" in reason_with("answers_before_loss")


def test_acknowledgements_of_a_suspect_that_still_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FollowerProgress, "held", property(lambda self: self.match))
    assert "a majority has acknowledged" in reason_with("answers_before_loss")


def test_an_old_answer_that_ends_a_suspicion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Suspicion, "is_over", lambda self, round_number: True)
    assert "a majority has acknowledged" in reason_with("answers_before_loss")


# -- append times, with a leader that the test makes


class _Driven:
    """As much of a leader as `AppendTimes` looks at. Its log has one entry of its own, with this append time."""

    def __init__(self, append_time_ms: int, clock_off_ms: int) -> None:
        self.node, self.life, self.clock_off_ms = 1, 1, clock_off_ms
        self.role, self.term, self.voters = Role.LEADER, 2, (1, 2, 3)
        self.last_index, self.append_time_ms = 1, append_time_ms
        self.driver = self.raft = self.configuration = self.log = self

    def true_ms(self) -> int:
        return EPOCH_MS

    def wall_ms(self) -> int:
        return EPOCH_MS + self.clock_off_ms

    def header(self, index: int) -> _Driven:
        return self

    # The log's `term(index)` and the core's `term` have one name, so this object is a number that can be called.
    class _Term(int):
        def __call__(self, index: int) -> int:
            return int(self)


def judged(append_time_ms: int, *, own_off_ms: int = 0, told_off_ms: tuple[int, ...] = (0, 0)) -> list[str]:
    """Return the invariants that an entry with this append time violates, after the other voters told their clocks."""
    found: list[str] = []

    class Record:
        def fail(self, invariant: str, what: str) -> None:
            found.append(invariant)

    recorded: Any = Record()
    leader: Any = _Driven(EPOCH_MS + append_time_ms, own_off_ms)
    leader.term = _Driven._Term(2)
    times = AppendTimes(recorded)
    for voter, off_ms in enumerate(told_off_ms, 2):
        follower: Any = _Driven(0, off_ms)
        follower.node, follower.role = voter, Role.FOLLOWER
        times.touched(follower)
        times.receives(leader, HeartbeatResponse(voter, 1, 2, 1, wall_ms=follower.wall_ms()))
    times.touched(leader)
    return found


DAY = 86_400_000


def test_append_times_near_the_clocks_of_a_majority_are_right() -> None:
    assert judged(0) == judged(5_000) == judged(-5_000) == []
    assert judged(5_000, own_off_ms=DAY) == []
    assert judged(-5_000, own_off_ms=-DAY) == []


def test_append_times_far_from_the_clocks_of_a_majority_are_noticed() -> None:
    assert judged(DAY, own_off_ms=DAY) == ["append times follow a majority"]
    assert judged(-DAY, own_off_ms=-DAY) == ["append times follow a majority"]
    assert judged(DAY, told_off_ms=(DAY, 0)) == ["append times follow a majority"]


def test_the_clocks_of_a_majority_may_be_wrong() -> None:
    assert judged(DAY, own_off_ms=DAY, told_off_ms=(DAY, 0)) == []
