"""The longest time without an acknowledged write."""

from __future__ import annotations

import numpy as np

from chaos.live.checker.availability import WriteGap, longest_gap

TIMES = np.array([10, 20, 60, 70, 100], np.int64)


def test_the_longest_gap_that_touches_the_window() -> None:
    assert longest_gap(TIMES, 15, 30) == WriteGap(20, 60)
    assert longest_gap(TIMES, 61, 65) == WriteGap(60, 70)
    assert longest_gap(TIMES, 0, 1000) == WriteGap(100, 1000)


def test_a_write_that_never_comes_again() -> None:
    assert longest_gap(TIMES, 90, 500) == WriteGap(100, 500)


def test_nothing_was_acknowledged_before() -> None:
    assert longest_gap(TIMES, 0, 9) == WriteGap(0, 10)
    assert longest_gap(np.array([], np.int64), 5, 9) == WriteGap(5, 9)
