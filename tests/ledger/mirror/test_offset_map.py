"""The map of offsets, against a list of all messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ledger.mirror.offset_map import MOST_PIECES, OffsetMap

# Messages that were copied together: the gap before them at the source, messages of others before them at the target,
# and their number.
COPIES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), max_size=20)


@given(copies=COPIES, asked=st.integers(0, 200))
def test_a_reader_misses_nothing_and_repeats_nothing(copies: list[tuple[int, int, int]], asked: int) -> None:
    known, source, target = OffsetMap(), 10, 100
    places: list[tuple[int, int]] = []
    for gap, others, count in copies:
        source, target = source + gap, target + others
        known.add(source, count, target)
        places += [(source + n, target + n) for n in range(count)]
        source, target = source + count, target + count
    found = known.target_of(asked)
    if not places or not places[0][0] <= asked <= places[-1][0] + 1:
        assert found is None
        return
    before = [place for place in places if place[0] < asked]
    after = [place for place in places if place[0] >= asked]
    assert found is not None
    assert all(place[1] < found for place in before)
    assert all(place[1] >= found for place in after)


def test_what_was_added_before_is_ignored() -> None:
    known = OffsetMap()
    known.add(10, 5, 0)
    known.add(12, 3, 2)
    known.add(15, 1, 5)
    assert known.last == (10, 16, 0)


def test_the_map_is_bounded() -> None:
    known = OffsetMap()
    for n in range(3 * MOST_PIECES):
        known.add(2 * n, 1, n)
    assert known.target_of(0) is None
    assert known.target_of(6 * MOST_PIECES - 2) == 3 * MOST_PIECES - 1
