"""Where each entry of the log stands: a dense table from index to position and size, and the runs of equal terms.

One idea: 12 bytes an entry in flat arrays, so that every look-up of the hot path is O(1) and cutting the end is too.
Rebuilt from the log at each start; it must not know of files.

    index     1      2      3      4            runs of terms: (1, term 1), (3, term 4)
    position  0      160    400    1024         index 0 stands for "before the first entry": term 0, end 0
    size      144    233    90     5000
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable

from store.entry import Header, padded


class Positions:
    def __init__(self) -> None:
        # Entry i is element i - 1 of both.
        self._positions = array("Q")
        self._sizes = array("I")
        # Runs of terms: the index where each begins, rising, and its term, rising too.
        self._run_starts = array("Q")
        self._run_terms = array("Q")

    @property
    def last_index(self) -> int:
        return len(self._positions)

    def add(self, headers: Iterable[Header]) -> None:
        for header in headers:
            assert header.index == self.last_index + 1
            if not self._run_terms or header.term != self._run_terms[-1]:
                self._run_starts.append(header.index)
                self._run_terms.append(header.term)
            self._positions.append(header.position)
            self._sizes.append(header.size)

    def truncate(self, last_index: int) -> None:
        """Keep the entries up to `last_index`."""
        del self._positions[last_index:]
        del self._sizes[last_index:]
        runs = bisect_right(self._run_starts, last_index)
        del self._run_starts[runs:]
        del self._run_terms[runs:]

    def position(self, index: int) -> int:
        assert 1 <= index <= self.last_index, f"no entry {index} in 1..{self.last_index}"
        return self._positions[index - 1]

    def size(self, index: int) -> int:
        assert 1 <= index <= self.last_index, f"no entry {index} in 1..{self.last_index}"
        return self._sizes[index - 1]

    def end(self, index: int) -> int:
        """Position behind entry `index` and its padding; 0 for index 0."""
        return self.position(index) + padded(self.size(index)) if index else 0

    def term(self, index: int) -> int:
        """Term of entry `index`; 0 for index 0."""
        assert 0 <= index <= self.last_index, f"no entry {index} in 1..{self.last_index}"
        return self._run_terms[bisect_right(self._run_starts, index) - 1] if index else 0

    def runs(self, first: int, last: int) -> list[tuple[int, int]]:
        """(first index, term) of each run of equal terms in first..last."""
        found = []
        while first <= last:
            run = bisect_right(self._run_starts, first)
            found.append((first, self._run_terms[run - 1]))
            first = self._run_starts[run] if run < len(self._run_starts) else last + 1
        return found

    def last_ending_by(self, limit: int) -> int:
        """Largest index whose entry ends at or before position `limit`; 0 if none does."""
        index = bisect_right(self._positions, limit)
        return index - 1 if index and self.end(index) > limit else index
