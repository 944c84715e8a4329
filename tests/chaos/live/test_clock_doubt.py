"""Which deliveries cannot be judged, because the clocks of a majority may have been wrong."""

from __future__ import annotations

from itertools import chain
from typing import Any

from chaos.live.checker.clock_doubt import RIGHT_MS, ClockDoubt, ClockFaultSpan, clock_doubt
from chaos.live.checker.columns import columns_of
from chaos.live.checker.timed import timed_figures
from chaos.live.checker.verdict import judge
from tests.chaos.live.tell import cancel, delivered, delivered_at_end, schedule

S = 1_000_000_000
MS = 1_000_000


def early(tale: list[Any], clocks: ClockDoubt) -> int:
    columns = columns_of(chain.from_iterable(one if isinstance(one, list) else [one] for one in tale))
    (found,) = (one for one in judge(columns, clocks=clocks).findings if one.kind == "early delivery")
    return found.count


def test_right_clocks_leave_no_doubt() -> None:
    assert clock_doubt([], 3) == ClockDoubt(RIGHT_MS, ())


def test_wrong_clocks_of_a_minority_only_make_dates_wrong() -> None:
    assert clock_doubt([ClockFaultSpan((1,), 0, 5 * S)], 3) == ClockDoubt(RIGHT_MS + 5_000, ())


def test_a_majority_is_in_doubt_until_its_nodes_have_read_their_right_clocks() -> None:
    doubt = clock_doubt([ClockFaultSpan((1, 2), 10 * S, 15 * S)], 3)
    assert doubt.windows == ((10 * S, int(17.5 * S)),)


def test_two_faults_after_each_other_may_make_a_majority() -> None:
    doubt = clock_doubt([ClockFaultSpan((1,), 10 * S, 15 * S), ClockFaultSpan((2,), 16 * S, 20 * S)], 3)
    assert doubt.windows == ((16 * S, int(17.5 * S)),)
    assert clock_doubt([ClockFaultSpan((1,), 10 * S, 15 * S), ClockFaultSpan((1,), 16 * S, 20 * S)], 3).windows == ()


def test_two_faults_are_a_majority_of_three_and_not_of_five() -> None:
    both = [ClockFaultSpan((1, 2), 0, S)]
    assert clock_doubt(both, 3).windows
    assert not clock_doubt(both, 5).windows


def test_a_delivery_may_be_early_while_a_majority_is_wrong_and_not_before_or_after() -> None:
    tale: list[Any] = [schedule(5, 30_000, at=(1_000, 1_010)), delivered((0, 5, 30_000), dated=2_000, at=2_000)]
    assert early(tale, ClockDoubt()) == 1
    assert early(tale, ClockDoubt(windows=((1_500 * MS, 1_600 * MS),))) == 0
    assert early(tale, ClockDoubt(windows=((0, 900 * MS),))) == 1
    assert early(tale, ClockDoubt(windows=((2_100 * MS, 2_200 * MS),))) == 1


def test_a_wrong_date_of_a_leader_is_allowed_and_an_early_receipt_is_not() -> None:
    clocks = clock_doubt([ClockFaultSpan((1,), 0, S)], 3)
    dated: list[Any] = [schedule(5, 30_000), delivered((0, 5, 30_000), dated=25_001, at=30_001)]
    assert early(dated, ClockDoubt()) == 1
    assert early(dated, clocks) == 0
    assert early([schedule(5, 30_000), delivered((0, 5, 30_000), dated=24_900, at=30_001)], clocks) == 1
    assert early([schedule(5, 30_000), delivered((0, 5, 30_000), dated=30_000, at=29_900)], clocks) == 1


def test_the_figures_count_each_message_once_and_know_how_late_it_was() -> None:
    tale: list[Any] = [
        schedule(5, 3_000),
        schedule(6, 3_000),
        schedule(7, -500),
        schedule(8, 3_000),
        cancel(8, 3_000),
        delivered((0, 7, -500), dated=9_000),
        delivered((1, 5, 3_000), dated=3_010),
        delivered((2, 6, 3_000), dated=3_040),
        delivered_at_end((0, 7, -500)),
    ]
    columns = columns_of(chain.from_iterable(one if isinstance(one, list) else [one] for one in tale))
    figures = timed_figures(columns)
    assert (figures.scheduled, figures.cancelled, figures.delivered) == (4, 1, 3)
    assert (figures.late_p50_ms, figures.late_p99_ms, figures.latest_ms) == (10, 40, 40)


def test_a_run_in_which_nothing_was_delivered_proves_nothing() -> None:
    verdict = judge(columns_of([schedule(5, 30_000)]), least_delivered=1)
    assert verdict.valid is None
    assert "delivered waiting messages: 0; a verdict needs at least 1" in verdict.void
