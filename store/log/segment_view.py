"""A segment view: the bytes of one segment file, for code that searches them for whole entries.

If an entry is whole, has a right CRC and states its own position, it was written at this position. The bytes inside
another entry's body, an old copy of an entry, or random bytes never meet all three conditions. By the three
conditions, a reader can find whole entries after damaged bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from store.disk.disk import ReadOnlyDisk
from store.log import entry
from store.log.entry import ALIGNMENT, MAGIC, Cells, EntryFlawError, Header
from store.log.log_files import SegmentFile

# Number of 8-byte words (or of bytes, for `first_byte`) that are searched in one step.
_SEARCH = 1 << 20


@dataclass(frozen=True, slots=True)
class SegmentView:
    segment: SegmentFile
    view: memoryview
    cells: Cells

    @staticmethod
    def of(segment: SegmentFile, disk: ReadOnlyDisk) -> SegmentView:
        view = segment.view(disk)
        return SegmentView(segment, view, np.frombuffer(view, np.uint8))

    def whole(self, at: int) -> Header:
        """Return the header of the entry at offset `at`. Raise `EntryFlawError` unless the entry is whole and
        states its own position."""
        header = entry.verified(self.view, self.cells, at)
        if header.position != self.segment.base + at:
            raise EntryFlawError(f"the entry says that it stands at position {header.position}")
        return header

    def next_whole(self, at: int) -> Header | None:
        """Return the first whole entry at or after offset `at`; None if there is no such entry."""
        words = np.frombuffer(self.view, "<u4", len(self.view) // ALIGNMENT * 2)[::2]
        for first in range(-(-at // ALIGNMENT), len(words), _SEARCH):
            for place in np.flatnonzero(words[first : first + _SEARCH] == MAGIC).tolist():
                try:
                    return self.whole((first + place) * ALIGNMENT)
                except EntryFlawError:
                    continue
        return None

    def first_byte(self, at: int) -> int | None:
        """Return the offset of the first byte at or after `at` that is not zero; None if all bytes are zero."""
        for first in range(at, len(self.cells), _SEARCH):
            piece = self.cells[first : first + _SEARCH]
            if piece.any():
                return first + int(np.flatnonzero(piece)[0])
        return None
