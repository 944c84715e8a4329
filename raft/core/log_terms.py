"""What the core knows of the log: which term each entry is of, and where the log ends.

The one idea: terms never fall along a log, so the term of every entry is held by one run for each term.

    index   1  2  3  4  5  6  7  8        runs  (1, term 1) (4, term 4) (6, term 5)
    term    1  1  1  4  4  5  5  5        last_index 8

By the Log Matching property (section 5.3) two logs with the same term at an index are the same up to it: this is all
that elections and the consistency check need. A log may begin behind an entry that is not here any more, the base, of
which the term is kept (section 7). Must not know: bodies, sizes, positions, what is durable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class TermRun(NamedTuple):
    """The entries from `first_index` to the next run (or to the end of the range) are of `term`."""

    first_index: int
    term: int


def runs_from(runs: Sequence[TermRun], first: int) -> tuple[TermRun, ...]:
    """The part of `runs` from the entry `first` on, which one of them covers."""
    begin = bisect_right(runs, first, key=lambda run: run.first_index) - 1
    return (TermRun(first, runs[begin].term), *runs[begin + 1 :])


class LogTerms:
    __slots__ = ("_firsts", "_last_index", "_terms", "base_index")

    def __init__(
        self, runs: Iterable[tuple[int, int]] = (), last_index: int = 0, *, base_index: int = 0, base_term: int = 0
    ) -> None:
        # What lies up to here is not in the log; base_index <= last_index. 0: the log begins with entry 1.
        self.base_index = base_index
        # One pair (_firsts[i], _terms[i]) for each run. Both rise strictly; the first run begins with the base where
        # there is one, otherwise with entry 1.
        self._firsts: list[int] = [base_index] if base_index else []
        self._terms: list[int] = [base_term] if base_index else []
        # _firsts[-1] <= _last_index; 0 exactly when there is no run.
        self._last_index = base_index
        self.extend([TermRun(*run) for run in runs], last_index or base_index)

    def __repr__(self) -> str:
        return f"LogTerms({self.runs(self.base_index + 1, self._last_index)}, {self._last_index})"

    @property
    def last_index(self) -> int:
        return self._last_index

    @property
    def last_term(self) -> int:
        return self._terms[-1] if self._terms else 0

    def term(self, index: int) -> int:
        """The term of that entry, which may be the base; 0 for index 0, before the first entry."""
        assert self.base_index <= index <= self._last_index, f"no entry {index} in {self}"
        return self._terms[bisect_right(self._firsts, index) - 1] if index else 0

    def holds(self, index: int, term: int) -> bool:
        """Whether there is an entry of that term at that index: the consistency check of section 5.3."""
        return self.base_index <= index <= self._last_index and self.term(index) == term

    def runs(self, first: int, last: int) -> tuple[TermRun, ...]:
        """The terms of the entries first..last; the first run begins at `first`. Empty when last < first."""
        if last < first:
            return ()
        begin = bisect_right(self._firsts, first) - 1
        end = bisect_right(self._firsts, last)
        inner = [TermRun(self._firsts[i], self._terms[i]) for i in range(begin + 1, end)]
        return (TermRun(first, self._terms[begin]), *inner)

    def append(self, term: int, count: int = 1) -> None:
        """`count` new entries of one term."""
        self.extend((TermRun(self._last_index + 1, term),), self._last_index + count)

    def extend(self, runs: Sequence[TermRun], last_index: int) -> None:
        """New entries behind the last, up to `last_index`."""
        assert not runs or runs[0].first_index == self._last_index + 1, f"{runs} does not follow {self._last_index}"
        assert bool(runs) == (last_index > self._last_index), f"{runs} does not reach to {last_index}"
        for first_index, term in runs:
            assert term >= self.last_term, f"term {term} at {first_index} falls below {self.last_term}"
            if term > self.last_term:
                self._firsts.append(first_index)
                self._terms.append(term)
        self._last_index = last_index

    def truncate(self, last_index: int) -> None:
        """Keep the entries up to `last_index`."""
        assert self.base_index <= last_index <= self._last_index, f"no entry {last_index} in {self}"
        kept = bisect_right(self._firsts, last_index)
        del self._firsts[kept:], self._terms[kept:]
        self._last_index = last_index

    def drop_before(self, base_index: int) -> None:
        """The log begins behind that entry from now on."""
        term = self.term(base_index)
        dropped = bisect_right(self._firsts, base_index)
        self._firsts[:dropped], self._terms[:dropped] = [base_index], [term]
        self.base_index = base_index

    def first_difference(self, runs: Sequence[TermRun], last_index: int) -> int:
        """Of the entries that `runs` describes up to `last_index`: the first that is missing here or has another term
        here. last_index + 1 when all of them are here."""
        ends = [following.first_index - 1 for following in runs[1:]]
        for (index, term), end in zip(runs, [*ends, last_index], strict=False):
            while index <= end:
                if not self.holds(index, term):
                    return index
                index = self._end_of_run(index) + 1
        return last_index + 1

    def last_at_or_below(self, index: int, term: int) -> int:
        """The last entry at or before `index` (clamped to the log) whose term is at most `term`; the one before the
        base when there is none. Above it two logs cannot agree, if the other one has `term` at `index`."""
        run = bisect_right(self._terms, term)
        end = self._firsts[run] - 1 if run < len(self._firsts) else self._last_index
        return min(index, end)

    def is_no_newer_than(self, last_index: int, last_term: int) -> bool:
        """Whether a log that ends with that entry is at least as up-to-date as this one (section 5.4.1)."""
        return (last_term, last_index) >= (self.last_term, self._last_index)

    def _end_of_run(self, index: int) -> int:
        following = bisect_right(self._firsts, index)
        return self._firsts[following] - 1 if following < len(self._firsts) else self._last_index
