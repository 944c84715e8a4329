"""A seed gives one plan. A plan contains every kind equally often, and leaves the cluster time to recover."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from chaos.live.faults.catalogue import KINDS, SURVIVED
from chaos.live.faults.fault import FaultTarget
from chaos.live.faults.plan import QUIET_AT_LAST_S, Planned, aimed, plan

ALL = [*KINDS.values()]


def test_a_seed_gives_one_plan() -> None:
    assert plan(7, ALL, 600) == plan(7, ALL, 600)
    assert plan(7, ALL, 600) != plan(8, ALL, 600)


def test_every_kind_has_its_turn() -> None:
    faults = plan(1, ALL, 600)
    counts = [sum(fault.kind is kind for fault in faults) for kind in ALL]
    assert min(counts) >= 1
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("seed", range(20))
def test_one_fault_after_the_other_and_quiet_at_last(seed: int) -> None:
    faults = plan(seed, ALL, 120)
    for before, after in itertools.pairwise(faults):
        assert before.at_s + before.for_s < after.at_s
    assert faults[-1].at_s + faults[-1].for_s <= 120 - QUIET_AT_LAST_S


def test_only_targets_that_were_asked_for_where_the_kind_has_them() -> None:
    def targets(faults: tuple[Planned, ...]) -> set[FaultTarget]:
        return {fault.target for fault in faults}

    assert targets(plan(1, [KINDS["kill"]], 600, [FaultTarget.LEADER])) == {FaultTarget.LEADER}
    assert targets(plan(1, [KINDS["partition-halves"]], 600, [FaultTarget.LEADER])) == {FaultTarget.ALL}


def test_what_no_cluster_survives_is_not_among_all() -> None:
    assert set(KINDS) - set(SURVIVED) == {"stale-vote"}


def test_a_run_that_is_too_short_has_no_plan() -> None:
    assert plan(1, ALL, 5) == ()


@pytest.mark.parametrize(
    ("target", "count"),
    [
        (FaultTarget.ONE, 1),
        (FaultTarget.LEADER, 1),
        (FaultTarget.MINORITY, 2),
        (FaultTarget.MAJORITY, 3),
        (FaultTarget.ALL, 5),
    ],
)
def test_whom_a_target_means(target: FaultTarget, count: int) -> None:
    nodes = aimed(target, [1, 2, 3, 4, 5], 4, Random(1))
    assert len(set(nodes)) == count
    assert target is not FaultTarget.LEADER or nodes == [4]


def test_a_cluster_of_one_has_a_minority_all_the_same() -> None:
    assert aimed(FaultTarget.MINORITY, [1], 1, Random(1)) == [1]


def test_without_a_leader_somebody_stands_for_it() -> None:
    assert aimed(FaultTarget.LEADER, [1, 2, 3], 0, Random(1))[0] in (1, 2, 3)
