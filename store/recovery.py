"""Recovery: reading a whole CommitLog at start, and telling a torn end from damage.

One idea: a group of entries becomes visible with its very first word, which is written last. So after a process kill
the log ends at a zero word, whatever lies behind it. A word that is not zero begins an entry that was written whole:
anything wrong with it is damage, also at the very end, and is reported, never cut.

    segment 0                               segment 1
    | entry | entry | entry | blank         | entry | 0 (torn group, or nothing) ...
                              ^ too small for what follows      ^ the log ends here

A zero word ends the segment's entries. The log goes on in the next one if that begins with an entry that did not fit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from store import entry
from store.clean_mark import CleanMark
from store.entry import HEADER_SIZE, WORD, EntryFlawError, Header
from store.errors import DamagedError
from store.grid import Grid
from store.positions import Positions
from store.segments import Segments
from store.tail import EMPTY, Tail

OnEntry = Callable[[Header, memoryview], None]
OnProgress = Callable[[int, int], None]
_PROGRESS_ENTRIES = 4096


class Recovery:
    """One pass over the log. Afterwards `tail`, `positions` and `known_commit` describe it."""

    def __init__(
        self, segments: Segments, grid: Grid, on_entry: OnEntry | None = None, on_progress: OnProgress | None = None
    ) -> None:
        self._segments = segments
        self._grid = grid
        self._on_entry = on_entry
        self._on_progress = on_progress
        self._limit = len(segments.bases) * grid.segment_bytes
        self.tail: Tail = EMPTY
        self.positions = Positions()
        self.known_commit = 0

    def run(self, clean: CleanMark | None) -> None:
        """Read everything; then compare with the mark of a clean stop, or erase what a kill left behind the end."""
        for base in self._segments.bases:
            self._read_segment(base)
        if clean is None:
            self._erase_behind_tail()
        else:
            self._compare(clean)
        self._report_progress(self._limit)

    def _read_segment(self, base: int) -> None:
        """Take up the entries of one segment. Behind the end of the log it only makes sure that there are none: a
        later segment's entry would not follow the tail, and be reported."""
        view = self._segments.view(base)
        cells = np.frombuffer(view, np.uint8)
        at = 0
        while at + WORD <= len(view) and not entry.is_blank(view, at):
            try:
                header = entry.verified(view, cells, at)
                self._take(header, base + at)
            except EntryFlawError as flaw:
                raise DamagedError(self._segments.path(base), base + at, str(flaw)) from flaw
            if self._on_entry is not None:
                self._on_entry(header, view[at + HEADER_SIZE : at + header.size])
            at = header.end - base
            if header.index % _PROGRESS_ENTRIES == 0:
                self._report_progress(header.end)

    def _take(self, header: Header, position: int) -> None:
        self.tail.check_place(header, position, self._grid)
        if not self.tail.leads_to(header):
            raise EntryFlawError(f"the chain of entry {header.index} does not continue the one before it")
        self.tail = Tail.of(header)
        self.positions.add([header])
        self.known_commit = max(self.known_commit, header.commit)

    def _compare(self, clean: CleanMark) -> None:
        found = (self.tail.index, self.tail.end, self.tail.chain)
        if found != (clean.last_index, clean.end, clean.chain):
            reason = (
                f"the log ends with entry {self.tail.index} at {self.tail.end}, but when the node was stopped in order "
                f"it ended with entry {clean.last_index} at {clean.end}"
            )
            if found[:2] == (clean.last_index, clean.end):
                reason = f"entry {self.tail.index} is not the one that was last when the node was stopped in order"
            raise DamagedError(self._segments.path(self.tail.end), self.tail.end, reason)

    def _erase_behind_tail(self) -> None:
        """Nothing that a torn write or a torn truncation left may come to light when the log grows over it again."""
        base = self._grid.tail_base(self.tail.end)
        self._segments.remove_after(base)
        if self._segments.has(base):
            self._segments.erase(self.tail.end, base + self._grid.segment_bytes)

    def _report_progress(self, position: int) -> None:
        if self._on_progress is not None:
            self._on_progress(position, self._limit)
