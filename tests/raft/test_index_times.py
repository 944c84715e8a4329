"""The times of entries are those of the group writes that contain them, in a ring of a fixed size."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from raft.entry_times import EntryTimes
from raft.index_times import IndexTimes


def test_an_entry_has_the_time_of_the_first_step_that_reaches_it() -> None:
    times = IndexTimes(8, forgotten=10)
    times.reached(12, 1.0)
    times.reached(15, 2.0)
    assert [times.time_of(index) for index in range(10, 17)] == [None, 1.0, 1.0, 2.0, 2.0, 2.0, None]


def test_a_step_that_raises_nothing_changes_nothing() -> None:
    times = IndexTimes(8)
    times.reached(5, 1.0)
    times.reached(5, 2.0)
    times.reached(4, 3.0)
    assert (len(times), times.time_of(5)) == (1, 1.0)


def test_the_oldest_steps_are_forgotten() -> None:
    times = IndexTimes(3)
    for index in range(1, 6):
        times.reached(index * 10, float(index))
    assert (len(times), times.forgotten) == (3, 20)
    assert times.time_of(20) is None
    assert times.time_of(21) == 3.0


def test_a_cut_forgets_the_steps_behind_it() -> None:
    times = IndexTimes(8)
    times.reached(3, 1.0)
    times.reached(9, 2.0)
    times.cut(5)  # in the middle of a step
    assert (times.last, times.time_of(5), times.time_of(6)) == (5, 2.0, None)
    times.reached(7, 3.0)
    assert times.time_of(6) == 3.0
    times.cut(0)
    assert (len(times), times.last) == (0, 0)


@given(
    st.integers(1, 5),
    st.lists(st.one_of(st.integers(1, 3), st.tuples(st.just("cut"), st.integers(0, 6))), max_size=40),
)
def test_the_ring_agrees_with_a_list(capacity: int, steps: list[int | tuple[str, int]]) -> None:
    times, expected, now = IndexTimes(capacity), [(0, 0.0)], 0.0
    for step in steps:
        now += 1
        last = expected[-1][0]
        if isinstance(step, int):
            times.reached(last + step, now)
            expected.append((last + step, now))
            expected = expected[-capacity - 1 :]
        else:
            to = max(expected[0][0], last - step[1])
            times.cut(to)
            while expected[-1][0] > to:
                if expected[-2][0] < to:
                    expected[-1] = (to, expected[-1][1])
                else:
                    expected.pop()
    for (before, _), (index, at) in pairwise(expected):
        assert all(times.time_of(each) == at for each in range(before + 1, index + 1))
    assert times.time_of(expected[0][0]) is None
    assert times.time_of(expected[-1][0] + 1) is None


def test_a_leap_of_the_wall_clock_moves_no_step_against_another() -> None:
    steady, wall = 1000.0, 5_000_000
    times = EntryTimes(lambda: steady, lambda: wall, last_index=0, commit=0, applied=0)
    times.wrote(1, 2, steady)
    steady, wall = 1010.0, 5_000_010
    times.commits(2)
    wall += 3_600_000
    written, committed = times.written.time_of(1), times.committed.time_of(1)
    assert written is not None
    assert committed is not None
    assert committed - written == 10
    assert times.wall_ms(committed) - times.wall_ms(written) == 10


def test_entries_that_replace_others_get_their_own_times() -> None:
    now = 1.0
    times = EntryTimes(lambda: now, lambda: 0, last_index=0, commit=0, applied=0)
    times.wrote(1, 8, now)
    now = 2.0
    times.wrote(5, 6, now)  # a new leader has replaced 5 to 8
    assert (times.written.time_of(4), times.written.time_of(5), times.written.time_of(7)) == (1.0, 2.0, None)


def test_a_new_follower_is_not_said_to_have_acknowledged_old_entries_now() -> None:
    now = 7.0
    times = EntryTimes(lambda: now, lambda: 0, last_index=0, commit=0, applied=0)
    times.has_acknowledged(2, 40)
    now = 8.0
    times.has_acknowledged(2, 41)
    assert (times.acknowledged[2].time_of(40), times.acknowledged[2].time_of(41)) == (None, 8.0)
    times.role_changed()
    assert not times.acknowledged
