"""LogTerms, compared with the plain list of terms that it represents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.core import LogTerms, TermRun
from raft.core.log_terms import runs_from
from tests.raft.network import Entry, runs_of

terms = st.lists(st.integers(1, 6), max_size=20).map(sorted)


def summary(entries: list[int]) -> LogTerms:
    return LogTerms(runs(entries), len(entries))


def runs(entries: list[int], first: int = 1) -> tuple[TermRun, ...]:
    return runs_of([Entry(term, None) for term in entries], first)


def listed(log: LogTerms) -> list[int]:
    return [log.term(index) for index in range(1, log.last_index + 1)]


@given(terms)
def test_it_knows_every_term(entries: list[int]) -> None:
    log = summary(entries)
    assert listed(log) == entries
    assert log.last_term == (entries[-1] if entries else 0)
    assert log.term(0) == 0


@given(terms, st.data())
def test_runs_of_a_range(entries: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(entries) + 1))
    last = data.draw(st.integers(first - 1, len(entries)))
    assert summary(entries).runs(first, last) == runs(entries[first - 1 : last], first)


@given(terms, st.data())
def test_the_part_of_runs_from_an_entry_on(entries: list[int], data: st.DataObject) -> None:
    entries = entries or [1]
    first = data.draw(st.integers(1, len(entries)))
    assert runs_from(runs(entries), first) == runs(entries[first - 1 :], first)


@given(terms, st.integers(0, 20), st.integers(6, 9), st.integers(1, 5))
def test_cut_and_append(entries: list[int], keep: int, term: int, count: int) -> None:
    keep = min(keep, len(entries))
    log = summary(entries)
    log.truncate(keep)
    assert listed(log) == entries[:keep]
    log.append(term, count)
    assert listed(log) == entries[:keep] + [term] * count


@given(terms, terms, st.data())
def test_first_difference(own: list[int], other: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(other) + 1))
    expected = next(
        (i for i in range(first, len(other) + 1) if i > len(own) or own[i - 1] != other[i - 1]), len(other) + 1
    )
    assert summary(own).first_difference(runs(other[first - 1 :], first), len(other)) == expected


@given(terms, st.integers(0, 25), st.integers(0, 8))
def test_last_at_or_below(entries: list[int], index: int, term: int) -> None:
    candidates = [i for i, own in enumerate(entries, 1) if i <= index and own <= term]
    assert summary(entries).last_at_or_below(index, term) == max(candidates, default=0)


def test_terms_never_fall_and_entries_leave_no_gap() -> None:
    log = summary([1, 3])
    with pytest.raises(AssertionError, match="falls"):
        log.append(2)
    with pytest.raises(AssertionError, match="does not follow"):
        log.extend((TermRun(4, 3),), 5)
    with pytest.raises(AssertionError, match="no entry 3"):
        log.truncate(3)


def test_up_to_date_is_the_later_term_then_the_longer_log() -> None:
    """Section 5.4.1."""
    log = summary([1, 2, 2])
    assert log.is_no_newer_than(3, 2)
    assert log.is_no_newer_than(1, 3)
    assert not log.is_no_newer_than(2, 2)
    assert not log.is_no_newer_than(9, 1)
