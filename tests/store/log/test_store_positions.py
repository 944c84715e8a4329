"""The table of positions and the grid, compared with the obvious computation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from store import EntryDraft, EntryKind, Header
from store.log.entry import encode, padded
from store.log.grid import Grid
from store.log.positions import Positions

GRID = Grid(512)


def headers(entries: list[tuple[int, int]]) -> list[Header]:
    """Return the headers of entries that are given as (body size, increase of the term)."""
    made, end, term = [], 0, 1
    for index, (size, increase) in enumerate(entries, 1):
        term += increase
        draft = EntryDraft(EntryKind.BATCH, bytes(size))
        header, _ = encode(
            draft, index=index, term=term, position=GRID.place(end, draft.size), commit=0, append_time_ms=0,
            previous_chain=0,
        )  # fmt: skip
        made.append(header)
        end = header.end
    return made


ENTRIES = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 2)), min_size=1, max_size=40)


@given(ENTRIES, st.data())
def test_look_ups_agree_with_the_headers_after_a_cut(entries: list[tuple[int, int]], data: st.DataObject) -> None:
    everything = headers(entries)
    positions = Positions()
    positions.add(everything)
    keep = data.draw(st.integers(0, len(everything)))
    positions.truncate(keep)
    kept = everything[:keep]
    assert positions.last_index == keep
    assert (positions.term(0), positions.end(0)) == (0, 0)
    for header in kept:
        index = header.index
        found = (positions.position(index), positions.size(index), positions.end(index), positions.term(index))
        assert found == (header.position, header.size, header.end, header.term)
    limit = data.draw(st.integers(0, 20_000))
    assert positions.last_ending_by(limit) == sum(header.end <= limit for header in kept)
    positions.add(everything[keep:])
    assert positions.last_index == len(everything)


@given(ENTRIES, st.data())
def test_runs_name_each_term_once(entries: list[tuple[int, int]], data: st.DataObject) -> None:
    everything = headers(entries)
    positions = Positions()
    positions.add(everything)
    first = data.draw(st.integers(1, len(everything)))
    last = data.draw(st.integers(first - 1, len(everything)))
    expected: list[tuple[int, int]] = []
    for header in everything[first - 1 : last]:
        if not expected or expected[-1][1] != header.term:
            expected.append((header.index, header.term))
    assert positions.runs(first, last) == expected


@given(ENTRIES)
def test_entries_follow_each_other_and_never_span_segments(entries: list[tuple[int, int]]) -> None:
    end = 0
    for header in headers(entries):
        assert GRID.base(header.position) == GRID.base(header.end - 1) == GRID.tail_base(header.end)
        fits = padded(header.size) <= GRID.base(end) + 512 - end
        assert header.position == (end if fits else GRID.base(end) + 512)
        end = header.end
    assert GRID.tail_base(0) == 0
