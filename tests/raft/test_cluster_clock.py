"""The time by which a leader dates entries, from its own clock and the clocks of other voters."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.cluster_clock import DOUBT_MS, MAX_WALL_MS, TOLD_LIFE_MS, TOLERANCE_MS, ClusterClock, majority_time
from tests.raft.driver_cluster import DriverCluster, TestProposal

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
THREE = (1, 2, 3)


@dataclass
class Clocks:
    """The clocks of node 1. The steady clock began with the machine."""

    wall: int = NOW_MS
    steady: float = 5_000

    def pass_ms(self, ms: int) -> None:
        self.wall += ms
        self.steady += ms

    def clock(self) -> ClusterClock:
        return ClusterClock(1, lambda: self.wall, lambda: self.steady)


@pytest.mark.parametrize(
    ("clocks", "voters", "expected"),
    [
        ({1: 10}, 1, 10),
        ({1: 10}, 2, None),
        ({1: 10, 2: 7}, 2, 7),
        ({1: 10, 2: 7}, 3, 7),
        ({1: 10, 2: 7, 3: 99}, 3, 10),
        ({1: 10, 2: 7, 3: 9, 4: 8}, 4, 8),
        ({1: 10, 2: 7, 3: 9, 4: 8}, 5, 8),
        ({1: 10, 2: 7}, 5, None),
    ],
)
def test_the_majority_time(clocks: dict[int, float], voters: int, expected: float | None) -> None:
    assert majority_time(clocks, voters) == expected


@given(right=st.lists(st.integers(0, 1_000), min_size=2, max_size=4), wrong=st.integers(-(10**15), 10**15))
def test_one_wrong_clock_does_not_move_it_out_of_the_right_ones(right: list[int], wrong: int) -> None:
    clocks = dict(enumerate([*right, wrong]))
    found = majority_time(clocks, len(clocks))
    assert found is not None
    assert min(right) <= found <= max(right)


def test_while_the_clocks_agree_the_own_one_counts() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clock.heard(2, NOW_MS + 300)
    clock.heard(3, NOW_MS - TOLERANCE_MS)
    assert clock.now_ms(THREE) == NOW_MS
    clocks.pass_ms(1_000)
    assert clock.now_ms(THREE) == NOW_MS + 1_000
    assert clock.offsets_ms(THREE) == {1: 0, 2: 300, 3: -TOLERANCE_MS}


@pytest.mark.parametrize("leap", [DAY_MS, -DAY_MS])
def test_a_leader_whose_clock_leaps_dates_by_the_others(leap: int) -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clock.heard(2, NOW_MS)
    clock.heard(3, NOW_MS + 10)
    clocks.wall += leap
    clocks.pass_ms(1_000)
    bound = TOLERANCE_MS if leap > 0 else -TOLERANCE_MS
    middle = NOW_MS + 1_000 + (10 if leap > 0 else 0)
    assert clock.now_ms(THREE) == middle + bound
    assert abs(clock.offsets_ms(THREE)[1]) > DAY_MS - 100
    clocks.wall -= leap
    assert clock.now_ms(THREE) == NOW_MS + 1_000


def test_one_voter_that_tells_a_wrong_time_changes_nothing() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clock.heard(2, NOW_MS)
    for told in (1, NOW_MS + DAY_MS, MAX_WALL_MS, MAX_WALL_MS + 1, 2**64 - 1, 0, -5):
        clock.heard(3, told)
        assert abs(clock.now_ms(THREE) - NOW_MS) <= TOLERANCE_MS


def test_of_two_voters_the_earlier_clock_bounds_the_time() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clock.heard(2, NOW_MS)
    clocks.wall += DAY_MS
    assert clock.now_ms((1, 2)) == NOW_MS + TOLERANCE_MS


def test_a_told_time_is_carried_forward_and_forgotten_at_last() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clock.heard(2, NOW_MS)
    clocks.pass_ms(TOLD_LIFE_MS)
    assert clock.offsets_ms(THREE) == {1: 0, 2: 0}
    clocks.pass_ms(1)
    assert clock.offsets_ms(THREE) == {}


@pytest.mark.parametrize(("voters", "told"), [((1,), False), (THREE, False), (THREE, True)])
def test_without_other_clocks_a_leap_counts_only_when_it_lasts(voters: tuple[int, ...], told: bool) -> None:
    clocks = Clocks()
    clock = clocks.clock()
    if told:
        clock.heard(2, 0)  # a program that does not tell its clock
    clocks.pass_ms(1_000)
    assert clock.now_ms(voters) == NOW_MS + 1_000
    clocks.wall += DAY_MS
    clocks.pass_ms(1_000)
    assert clock.now_ms(voters) == NOW_MS + 2_000
    clocks.pass_ms(DOUBT_MS - 1)
    assert clock.now_ms(voters) == NOW_MS + 2_000 + DOUBT_MS - 1
    clocks.wall -= DAY_MS
    assert clock.now_ms(voters) == clocks.wall
    clocks.wall += DAY_MS
    clock.now_ms(voters)
    clocks.pass_ms(DOUBT_MS)
    assert clock.now_ms(voters) == clocks.wall


def test_a_clock_that_is_slewed_has_not_leapt() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    for _ in range(2_000):
        clocks.pass_ms(500)
        clocks.wall += 5
        clock.tick((1,))
    assert clock.now_ms((1,)) == clocks.wall


def test_a_clock_before_1970_is_not_told() -> None:
    clocks = Clocks(wall=-1)
    assert clocks.clock().wall_ms() == 0


class TestDrivers:
    """Drivers of three nodes, whose clocks the test sets."""

    def write(self, cluster: DriverCluster) -> int:
        """Let the leader write an entry. Return by how much its append time is ahead of the right time."""
        leader = cluster.elect()
        proposal = TestProposal(b"x")
        leader.driver.check_room(1)
        leader.driver.propose(proposal)
        cluster.run()
        assert proposal.outcome
        assert proposal.header is not None
        return proposal.header.append_time_ms - cluster.steady_ms

    def pass_ms(self, cluster: DriverCluster, ms: int) -> None:
        cluster.steady_ms += ms
        cluster.tick(2)

    @pytest.fixture
    def cluster(self) -> DriverCluster:
        cluster = DriverCluster(3)
        cluster.steady_ms = NOW_MS
        return cluster

    def test_a_leader_whose_clock_leaps_a_day(self, cluster: DriverCluster) -> None:
        leader = cluster.elect()
        assert self.write(cluster) == 0
        leader.wall_error_ms = DAY_MS
        self.pass_ms(cluster, 1_000)
        assert self.write(cluster) == TOLERANCE_MS
        assert leader.driver.clock_offsets_ms[leader.node] == DAY_MS
        leader.wall_error_ms = 0
        self.pass_ms(cluster, TOLERANCE_MS)
        assert self.write(cluster) == 0, "append times are right again at once"

    def test_the_first_entry_of_a_leader_whose_clock_is_wrong(self, cluster: DriverCluster) -> None:
        for member in cluster.members.values():
            member.wall_error_ms = DAY_MS * (member.node == 1)
        leader = cluster.elect()
        assert leader.node == 1
        assert leader.log.tail.append_time_ms <= cluster.steady_ms + TOLERANCE_MS
        assert self.write(cluster) <= TOLERANCE_MS

    def test_a_leader_whose_clock_is_a_day_behind(self, cluster: DriverCluster) -> None:
        leader = cluster.elect()
        assert self.write(cluster) == 0
        leader.wall_error_ms = -DAY_MS
        self.pass_ms(cluster, 60_000)
        assert self.write(cluster) == -TOLERANCE_MS

    def test_times_never_go_back(self, cluster: DriverCluster) -> None:
        leader = cluster.elect()
        for error in (0, 4_000, -4_000, DAY_MS, 0, -DAY_MS, 0):
            leader.wall_error_ms = error
            self.pass_ms(cluster, 100)
            self.write(cluster)
        times = [leader.log.reading.header(index).append_time_ms for index in range(1, leader.log.last_index + 1)]
        assert times == sorted(times)
        assert times[-1] <= cluster.steady_ms + TOLERANCE_MS

    def test_a_voter_with_a_wrong_clock_is_told_by_the_leader_alone(self, cluster: DriverCluster) -> None:
        leader = cluster.elect()
        wrong, right = (member for member in cluster.members.values() if member is not leader)
        wrong.wall_error_ms = -DAY_MS
        self.pass_ms(cluster, 100)
        assert leader.driver.clock_offsets_ms == {leader.node: 0, wrong.node: -DAY_MS, right.node: 0}
        assert wrong.driver.clock_offsets_ms == {}
        assert self.write(cluster) == 0
