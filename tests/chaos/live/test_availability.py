"""The pauses: how long no write was acknowledged, and to which fault each pause belongs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from chaos.live.checker.availability import WritePause, longest_pause, pauses_of_faults
from chaos.live.checker.cells import Numbers

SECOND = 1_000_000_000


def acknowledged(*spans: tuple[float, float]) -> Numbers:
    """Acknowledgements every 10 ms, in spans of seconds."""
    times = chain.from_iterable(np.arange(begin, end, 0.01).tolist() for begin, end in spans)
    return np.array([round(at * SECOND) for at in times], np.int64)


def seconds_of(times: Numbers, *faults: tuple[float, float], ended: float = 60) -> Sequence[float | None]:
    windows = [(round(start * SECOND), round(end * SECOND)) for start, end in faults]
    pauses = pauses_of_faults(times, windows, 0, round(ended * SECOND))
    return [None if pause is None else round(pause.seconds, 1) for pause in pauses]


def test_a_fault_has_its_own_pause_and_not_that_of_the_next_fault() -> None:
    # The second fault strikes within the aftermath of the first, 5 ms after the last acknowledgement.
    times = acknowledged((0, 10.2), (11.0, 60))
    assert seconds_of(times, (5, 8), (10.196, 12)) == [0.0, 0.8]


def test_one_pause_stands_in_one_row() -> None:
    times = acknowledged((0, 10.01), (25, 60))
    assert seconds_of(times, (10, 12), (14, 16), (18, 20), (22, 24)) == [15.0, None, None, 0.0]


def test_a_fault_that_outlasts_the_pause_of_the_fault_before_has_its_own() -> None:
    times = acknowledged((0, 10.01), (25, 26), (28, 60))
    assert seconds_of(times, (10, 12), (14, 16), (24, 27)) == [15.0, None, 2.0]


def test_a_pause_after_the_end_of_a_fault_belongs_to_it_for_a_while() -> None:
    times = acknowledged((0, 10), (12, 30), (33, 60))
    assert seconds_of(times, (7, 8)) == [2.0]
    assert longest_pause(times, 0, 60 * SECOND).seconds > 2.9


def test_a_fault_that_strikes_in_a_pause_of_no_other_fault_has_it() -> None:
    times = acknowledged((0, 30), (33, 60))
    assert seconds_of(times, (2, 3), (32, 34)) == [0.0, 3.0]


def test_a_write_that_never_comes_again() -> None:
    times = acknowledged((0, 20))
    assert seconds_of(times, (20, 25), ended=50) == [30.0]
    assert longest_pause(times, 0, 50 * SECOND) == WritePause(int(times[-1]), 50 * SECOND)


def test_an_acknowledgement_after_the_load_ends_the_last_pause() -> None:
    times = np.array([SECOND, 70 * SECOND], np.int64)
    assert longest_pause(times, 0, 60 * SECOND) == WritePause(SECOND, 70 * SECOND)


def test_nothing_was_ever_acknowledged() -> None:
    none = np.array([], np.int64)
    assert longest_pause(none, 5, 9) == WritePause(5, 9)
    assert pauses_of_faults(none, [(6, 7)], 5, 9) == [WritePause(5, 9)]
    assert pauses_of_faults(none, [], 5, 9) == []
