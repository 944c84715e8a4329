"""The table of positions holds the position, size and term of each entry of the log, in memory.

The table needs 12 bytes of memory for each entry. The table consists of flat arrays. The position or the size of an
entry is found in constant time. `PositionFiles` stores the table on disk up to the last checkpoint. At each start, the
positions of later entries are read from the log.

    index     1      2      3      4            runs of terms: (1, term 1), (3, term 4)
    position  0      160    400    1024         index 0 stands for "before the first entry": term 0, end 0
    size      144    233    90     5000

If a log begins after a snapshot, the table begins with the index of the snapshot's entry and not with index 0.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from store.log.entry import Header, padded
from store.log.tail import EMPTY, LogTail

# Position, size and term of one entry, as `position_files` stores them.
UNIT = np.dtype([("position", "<u8"), ("size", "<u4"), ("term", "<u8")])


class Positions:
    def __init__(self, start_tail: LogTail = EMPTY) -> None:
        self._start_tail = start_tail
        # Entry i is element i - start_tail.index - 1 of both arrays.
        self._positions = array("Q")
        self._sizes = array("I")
        # Runs of equal terms: the index where each run begins, and its term. Both rise.
        self._run_starts = array("Q")
        self._run_terms = array("Q")

    @property
    def last_index(self) -> int:
        return self._start_tail.index + len(self._positions)

    def add(self, headers: Iterable[Header]) -> None:
        for header in headers:
            assert header.index == self.last_index + 1
            if not self._run_terms or header.term != self._run_terms[-1]:
                self._run_starts.append(header.index)
                self._run_terms.append(header.term)
            self._positions.append(header.position)
            self._sizes.append(header.size)

    def units(self, first: int, last: int) -> npt.NDArray[np.void]:
        """Return the entries first..last as units of `position_files`."""
        units = np.empty(max(0, last + 1 - first), UNIT)
        if len(units):
            at = slice(self._place(first), self._place(last) + 1)
            units["position"], units["size"] = self._positions[at], self._sizes[at]
            runs = [*self.runs(first, last), (last + 1, 0)]
            for (begin, term), (end, _) in pairwise(runs):
                units["term"][begin - first : end - first] = term
        return units

    def load(self, units: npt.NDArray[np.void]) -> None:
        """Add the entries of `units` after the entries of this table."""
        index, before = self.last_index + 1, self._run_terms[-1] if self._run_terms else 0
        self._positions.frombytes(np.ascontiguousarray(units["position"]).tobytes())
        self._sizes.frombytes(np.ascontiguousarray(units["size"]).tobytes())
        begins = np.flatnonzero(np.diff(units["term"], prepend=np.uint64(before)))
        self._run_starts.extend((begins + index).tolist())
        self._run_terms.extend(units["term"][begins].tolist())

    def truncate(self, last_index: int) -> None:
        """Keep the entries up to `last_index`."""
        kept = last_index - self._start_tail.index
        assert kept >= 0
        del self._positions[kept:]
        del self._sizes[kept:]
        runs = bisect_right(self._run_starts, last_index)
        del self._run_starts[runs:]
        del self._run_terms[runs:]

    def drop_before(self, start_tail: LogTail) -> None:
        """Keep the entries after `start_tail`, and drop all earlier entries. `start_tail` must be the tail of an
        entry in this table, or the tail before the first entry of this table."""
        dropped = start_tail.index - self._start_tail.index
        assert 0 <= dropped <= len(self._positions)
        del self._positions[:dropped]
        del self._sizes[:dropped]
        runs = max(0, bisect_right(self._run_starts, start_tail.index + 1) - 1)
        del self._run_starts[:runs]
        del self._run_terms[:runs]
        self._start_tail = start_tail

    def position(self, index: int) -> int:
        return self._positions[self._place(index)]

    def size(self, index: int) -> int:
        return self._sizes[self._place(index)]

    def end(self, index: int) -> int:
        """Return the position after entry `index` and its padding. `index` may also be the index before the first
        entry (the index of the start tail)."""
        return (
            self._start_tail.end if index == self._start_tail.index else self.position(index) + padded(self.size(index))
        )

    def term(self, index: int) -> int:
        """Return the term of entry `index`. `index` may also be the index before the first entry (the index of the
        start tail)."""
        if index == self._start_tail.index:
            return self._start_tail.term
        self._place(index)
        return self._run_terms[bisect_right(self._run_starts, index) - 1]

    def runs(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return (first index, term) of each run of equal terms in first..last."""
        found = []
        while first <= last:
            run = bisect_right(self._run_starts, first)
            found.append((first, self._run_terms[run - 1]))
            first = self._run_starts[run] if run < len(self._run_starts) else last + 1
        return found

    def last_ending_by(self, limit: int) -> int:
        """Return the largest index whose entry ends at or before position `limit`. If no entry ends at or before
        `limit`, return the index before the first entry."""
        index = self._start_tail.index + bisect_right(self._positions, limit)
        return index - 1 if index > self._start_tail.index and self.end(index) > limit else index

    def _place(self, index: int) -> int:
        place = index - self._start_tail.index - 1
        assert 0 <= place < len(self._positions), f"no entry {index} in {self._start_tail.index + 1}.."
        return place
