"""Tests the retention policy, a pure function. The policy chooses the new beginning of the log from the log's contents,
the disk usage, and the entries that must stay.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.broker.retention.retention import (
    DiskUse,
    RetentionLimits,
    Situation,
    TrimDecision,
    TrimPoint,
    TrimReason,
    choose,
    must_refuse,
    newest_before,
    time_passed_ms,
)

HOUR_MS = 3_600_000
SEGMENT = 100
# By the index of a candidate: the age in hours of the newest entry that this candidate would remove.
AGES_H = {10: 50, 20: 40, 30: 30, 40: 20, 50: 10}
CANDIDATES = [TrimPoint(index, index // 10 * SEGMENT) for index in AGES_H]
FIRST, SECOND, THIRD, FOURTH, FIFTH = CANDIDATES
SEEN = Situation(
    start=0,
    end=560,
    candidates=CANDIDATES,
    age_ms=lambda index: AGES_H[index] * HOUR_MS,
    hour=12,
    disk=DiskUse(0.5, 1000),
)


def chosen(bounds: RetentionLimits, seen: Situation = SEEN) -> tuple[TrimPoint, TrimReason] | None:
    move = choose(bounds, seen)
    return (move.to, move.why) if move else None


def test_nothing_goes_where_nothing_is_bounded() -> None:
    assert choose(RetentionLimits(), replace(SEEN, disk=DiskUse(1.0, 1000))) is None


class TestAge:
    @pytest.mark.parametrize(
        ("hours", "to"), [(60, None), (50, FIRST), (49, FIRST), (40, SECOND), (21, THIRD), (10, FIFTH), (1, FIFTH)]
    )
    def test_goes_what_is_as_old_as_the_bound_or_older(self, hours: int, to: TrimPoint | None) -> None:
        assert chosen(RetentionLimits(age_ms=hours * HOUR_MS)) == (to and (to, TrimReason.AGE))

    def test_counts_only_in_the_cleaning_hour(self) -> None:
        bounds = RetentionLimits(age_ms=HOUR_MS, cleaning_hour=4)
        assert choose(bounds, SEEN) is None
        assert chosen(bounds, replace(SEEN, hour=4)) == (FIFTH, TrimReason.AGE)

    def test_counts_at_any_hour_on_a_full_disk_but_only_what_is_old(self) -> None:
        bounds = RetentionLimits(age_ms=25 * HOUR_MS, cleaning_hour=4, clean_ratio=0.75)
        assert choose(bounds, replace(SEEN, disk=DiskUse(0.74, 1000))) is None
        assert chosen(bounds, replace(SEEN, disk=DiskUse(0.75, 1000))) == (THIRD, TrimReason.AGE)


class TestSize:
    @pytest.mark.parametrize(
        ("size", "to"), [(560, None), (559, None), (460, FIRST), (459, FIRST), (361, FIRST), (360, SECOND), (1, FIFTH)]
    )
    def test_goes_what_leaves_as_much_as_may_be_kept(self, size: int, to: TrimPoint | None) -> None:
        assert chosen(RetentionLimits(size_bytes=size)) == (to and (to, TrimReason.SIZE))

    def test_is_of_what_is_kept_and_not_of_all_that_was_ever_written(self) -> None:
        assert choose(RetentionLimits(size_bytes=300), replace(SEEN, start=270)) is None


class TestDisk:
    BOUNDS = RetentionLimits(force_ratio=0.85)

    @pytest.mark.parametrize(
        ("ratio", "to"), [(0.84, None), (0.85, FIRST), (0.95, FIRST), (0.951, SECOND), (1.0, SECOND)]
    )
    def test_the_oldest_go_however_young_as_far_as_room_is_needed(self, ratio: float, to: TrimPoint | None) -> None:
        assert chosen(self.BOUNDS, replace(SEEN, disk=DiskUse(ratio, 1000))) == (to and (to, TrimReason.DISK))

    def test_all_that_may_goes_where_none_of_it_makes_room_enough(self) -> None:
        assert chosen(self.BOUNDS, replace(SEEN, disk=DiskUse(1.0, 1_000_000))) == (FIFTH, TrimReason.DISK)

    def test_nothing_goes_where_nothing_may(self) -> None:
        assert choose(self.BOUNDS, replace(SEEN, candidates=[], disk=DiskUse(1.0, 1000))) is None

    def test_writes_are_refused_from_the_last_ratio_on(self) -> None:
        assert not must_refuse(RetentionLimits(refuse_ratio=0.9), DiskUse(0.899))
        assert must_refuse(RetentionLimits(refuse_ratio=0.9), DiskUse(0.9))
        assert not must_refuse(RetentionLimits(), DiskUse(1.0))


def test_what_goes_furthest_counts() -> None:
    bounds = RetentionLimits(age_ms=35 * HOUR_MS, size_bytes=350)
    assert choose(bounds, SEEN) == TrimDecision(SECOND, TrimReason.AGE)
    assert choose(replace(bounds, size_bytes=160), SEEN) == TrimDecision(FOURTH, TrimReason.SIZE)


ALL = RetentionLimits(age_ms=HOUR_MS, size_bytes=1, force_ratio=0.5)


def test_a_hold_keeps_everything_on_a_full_disk_too() -> None:
    assert choose(ALL, replace(SEEN, held=True, disk=DiskUse(1.0, 1000))) is None


def test_what_a_learner_is_being_given_stays_unless_the_disk_is_full() -> None:
    calm = replace(ALL, force_ratio=0.0)
    assert choose(calm, replace(SEEN, needed=35)) == TrimDecision(THIRD, TrimReason.AGE)
    assert choose(calm, replace(SEEN, needed=0)) is None
    full = replace(SEEN, needed=0, disk=DiskUse(0.95, 1000))
    assert chosen(replace(calm, force_ratio=0.6), full) == (FOURTH, TrimReason.DISK)


@given(
    st.builds(
        RetentionLimits,
        age_ms=st.integers(0, 60 * HOUR_MS),
        size_bytes=st.integers(0, 700),
        cleaning_hour=st.none() | st.integers(0, 23),
        clean_ratio=st.floats(0, 1),
        force_ratio=st.floats(0, 1),
    ),
    st.floats(0, 1),
    st.integers(0, 5),
    st.none() | st.integers(0, 60),
)
def test_only_a_candidate_is_ever_chosen_and_never_more_than_one_bound_wants(
    bounds: RetentionLimits, ratio: float, gone: int, needed: int | None
) -> None:
    seen = replace(SEEN, candidates=CANDIDATES[gone:], start=gone * SEGMENT, disk=DiskUse(ratio, 1000), needed=needed)
    move = choose(bounds, seen)
    if move is None:
        return
    assert move.to in seen.candidates
    match move.why:
        case TrimReason.AGE:
            assert AGES_H[move.to.index] * HOUR_MS >= bounds.age_ms > 0
        case TrimReason.SIZE:
            assert seen.end - move.to.position >= bounds.size_bytes > 0
        case TrimReason.DISK:
            assert ratio >= bounds.force_ratio > 0
    assert move.why is TrimReason.DISK or needed is None or move.to.index <= needed


def test_the_newest_candidate_before_a_place() -> None:
    assert newest_before(CANDIDATES, 99) is None
    assert newest_before(CANDIDATES, 100) == FIRST
    assert newest_before(CANDIDATES, 299) == SECOND
    assert newest_before(CANDIDATES, 10_000) == FIFTH


class TestTimePassed:
    def test_is_the_difference_where_the_log_was_written_all_along(self) -> None:
        assert time_passed_ms(lambda index: index * 10, 3, 1000, longest_ms=50) == 9970

    def test_leaves_out_a_jump_of_the_clock_or_a_quiet_time_longer_than_the_bound(self) -> None:
        years = 10 * 365 * 24 * HOUR_MS
        for jump_at in range(1, 100):
            times = [index * 10 + (years if index >= jump_at else 0) for index in range(100)]
            assert time_passed_ms(times.__getitem__, 0, 99, longest_ms=500) == 980

    def test_looks_at_few_entries(self) -> None:
        looked: list[int] = []

        def time_of(index: int) -> int:
            looked.append(index)
            return index + (10**9 if index > 777_777 else 0)

        assert time_passed_ms(time_of, 1, 1_000_000, longest_ms=10**8) == 999_998
        assert len(looked) < 100

    @given(st.lists(st.integers(0, 300), min_size=1, max_size=40), st.integers(1, 200))
    def test_is_the_sum_of_the_gaps_that_are_not_too_long(self, gaps: list[int], longest_ms: int) -> None:
        times = [sum(gaps[:count]) for count in range(len(gaps) + 1)]
        expected = sum(gap for gap in gaps if gap <= longest_ms)
        assert time_passed_ms(times.__getitem__, 0, len(gaps), longest_ms) == expected
