"""Tests the rows that `make bench` shows for the validation with Spark."""

from __future__ import annotations

from bench.judging.validate import CommandTimes
from bench.suite.judging import rows_of

ROUNDS = [
    (CommandTimes("plain", 15.0, 14.0), CommandTimes("spark", 14.0, 10.0)),
    (CommandTimes("plain", 15.0, 14.0), CommandTimes("spark", 11.0, 7.0)),
    (CommandTimes("plain", 15.0, 14.0), CommandTimes("spark", 12.0, 8.0)),
]


def test_the_target_is_judged_without_the_start_of_spark_by_the_median_of_the_rounds() -> None:
    target, whole = rows_of(ROUNDS, 8.0)
    assert (target.reached, target.met) == ("1.75", True)
    assert target.note == "one process 14.0 s, Spark 8.0 s"
    assert (whole.reached, whole.met) == ("1.25", None)
    assert "4.0 s" in whole.note


def test_a_ratio_below_the_target_is_not_met_and_a_small_log_is_not_judged() -> None:
    slow = [(CommandTimes("plain", 2.0, 1.0), CommandTimes("spark", 6.0, 2.0))]
    assert rows_of(slow, 8.0)[0].met is False
    assert rows_of(slow, 2.0)[0].met is None
