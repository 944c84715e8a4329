"""The core's summary of the log: the term of each entry, and the last index.

Terms never decrease along a log, so the summary has one run of entries for each term.

    index   1  2  3  4  5  6  7  8        runs  (1, term 1) (4, term 4) (6, term 5)
    term    1  1  1  4  4  5  5  5        last_index 8

By the Log Matching property (section 5.3), two logs with the same term at an index are equal up to that index. For
this reason, elections and the consistency check need only the terms of the entries. A log can begin after a snapshot.
If a log begins after a snapshot, `snapshot_index` and `snapshot_term` are the index and the term of the snapshot's
last entry (section 7).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class TermRun(NamedTuple):
    """The entries from `first_index` up to the next run, or up to the end of the range, have this `term`."""

    first_index: int
    term: int


def runs_from(runs: Sequence[TermRun], first: int) -> tuple[TermRun, ...]:
    """Return the runs from entry `first` on. One of `runs` must contain entry `first`."""
    begin = bisect_right(runs, first, key=lambda run: run.first_index) - 1
    return (TermRun(first, runs[begin].term), *runs[begin + 1 :])


class LogTerms:
    """The terms of the entries of one log."""

    __slots__ = ("_firsts", "_last_index", "_terms", "snapshot_index")

    def __init__(
        self,
        runs: Iterable[tuple[int, int]] = (),
        last_index: int = 0,
        *,
        snapshot_index: int = 0,
        snapshot_term: int = 0,
    ) -> None:
        # Entries up to here are not in the log; snapshot_index <= last_index. 0: the log begins with entry 1.
        self.snapshot_index = snapshot_index
        # One pair (_firsts[i], _terms[i]) for each run. Both rise strictly. The first run begins at snapshot_index, or
        # at entry 1 if snapshot_index is 0.
        self._firsts: list[int] = [snapshot_index] if snapshot_index else []
        self._terms: list[int] = [snapshot_term] if snapshot_index else []
        # _firsts[-1] <= _last_index; 0 exactly when there is no run.
        self._last_index = snapshot_index
        self.extend([TermRun(*run) for run in runs], last_index or snapshot_index)

    def __repr__(self) -> str:
        return f"LogTerms({self.runs(self.snapshot_index + 1, self._last_index)}, {self._last_index})"

    @property
    def last_index(self) -> int:
        return self._last_index

    @property
    def last_term(self) -> int:
        return self._terms[-1] if self._terms else 0

    def term(self, index: int) -> int:
        """Return the term of the entry at `index`. The index `snapshot_index` is allowed. For index 0 return 0."""
        assert self.snapshot_index <= index <= self._last_index, f"no entry {index} in {self}"
        return self._terms[bisect_right(self._firsts, index) - 1] if index else 0

    def holds(self, index: int, term: int) -> bool:
        """Return True if the log has an entry of `term` at `index` (the consistency check of section 5.3)."""
        return self.snapshot_index <= index <= self._last_index and self.term(index) == term

    def runs(self, first: int, last: int) -> tuple[TermRun, ...]:
        """Return the terms of the entries first..last. The first run begins at `first`. If last < first, return no
        run."""
        if last < first:
            return ()
        begin = bisect_right(self._firsts, first) - 1
        end = bisect_right(self._firsts, last)
        inner = [TermRun(self._firsts[i], self._terms[i]) for i in range(begin + 1, end)]
        return (TermRun(first, self._terms[begin]), *inner)

    def append(self, term: int, count: int = 1) -> None:
        """Append `count` new entries of one term."""
        self.extend((TermRun(self._last_index + 1, term),), self._last_index + count)

    def extend(self, runs: Sequence[TermRun], last_index: int) -> None:
        """Append entries with the terms `runs`, up to `last_index`."""
        assert not runs or runs[0].first_index == self._last_index + 1, f"{runs} does not follow {self._last_index}"
        assert bool(runs) == (last_index > self._last_index), f"{runs} does not reach to {last_index}"
        for first_index, term in runs:
            assert term >= self.last_term, f"term {term} at {first_index} falls below {self.last_term}"
            if term > self.last_term:
                self._firsts.append(first_index)
                self._terms.append(term)
        self._last_index = last_index

    def truncate(self, last_index: int) -> None:
        """Keep the entries up to `last_index`, and drop all later entries."""
        assert self.snapshot_index <= last_index <= self._last_index, f"no entry {last_index} in {self}"
        kept = bisect_right(self._firsts, last_index)
        del self._firsts[kept:], self._terms[kept:]
        self._last_index = last_index

    def drop_before(self, snapshot_index: int) -> None:
        """Drop the entries up to `snapshot_index`. After this call, the log begins after `snapshot_index`."""
        term = self.term(snapshot_index)
        dropped = bisect_right(self._firsts, snapshot_index)
        self._firsts[:dropped], self._terms[:dropped] = [snapshot_index], [term]
        self.snapshot_index = snapshot_index

    def first_difference(self, runs: Sequence[TermRun], last_index: int) -> int:
        """Return the index of the first entry of `runs` that this log lacks or has with a different term. `runs`
        end at `last_index`. If this log has all entries of `runs`, return last_index + 1."""
        ends = [following.first_index - 1 for following in runs[1:]]
        for (index, term), end in zip(runs, [*ends, last_index], strict=False):
            while index <= end:
                if not self.holds(index, term):
                    return index
                index = self._end_of_run(index) + 1
        return last_index + 1

    def last_at_or_below(self, index: int, term: int) -> int:
        """Return the last index at or before `index` whose entry has at most this `term`. Return snapshot_index - 1
        if the log has no such entry. Suppose that another log has an entry of `term` at `index`. Then this log and the
        other log have different entries at every index above the returned index."""
        run = bisect_right(self._terms, term)
        end = self._firsts[run] - 1 if run < len(self._firsts) else self._last_index
        return min(index, end)

    def is_no_newer_than(self, last_index: int, last_term: int) -> bool:
        """Return True if a log that ends with the given entry is at least as up-to-date as this log (section
        5.4.1)."""
        return (last_term, last_index) >= (self.last_term, self._last_index)

    def _end_of_run(self, index: int) -> int:
        following = bisect_right(self._firsts, index)
        return self._firsts[following] - 1 if following < len(self._firsts) else self._last_index
