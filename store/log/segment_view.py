"""The bytes of one segment file, as whoever searches them for entries looks at them: what is whole, and what is not.

An entry that is whole, has a right CRC and says of itself that it stands just there was written there; an
entry's body, a stale copy or chance do not look like that. So entries are found again behind bytes that are none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from store.disk.disk import ReadOnlyDisk
from store.log import entry
from store.log.entry import ALIGNMENT, MAGIC, Cells, EntryFlawError, Header
from store.log.log_files import SegmentFile

# Words of 8 bytes that are looked at together.
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
        """The entry at `at`, if it is whole and says that it stands there. Raises `EntryFlawError`."""
        header = entry.verified(self.view, self.cells, at)
        if header.position != self.segment.base + at:
            raise EntryFlawError(f"the entry says that it stands at position {header.position}")
        return header

    def next_whole(self, at: int) -> Header | None:
        """The first such entry from `at` on; None where there is none."""
        words = np.frombuffer(self.view, "<u4", len(self.view) // ALIGNMENT * 2)[::2]
        for first in range(-(-at // ALIGNMENT), len(words), _SEARCH):
            for place in np.flatnonzero(words[first : first + _SEARCH] == MAGIC).tolist():
                try:
                    return self.whole((first + place) * ALIGNMENT)
                except EntryFlawError:
                    continue
        return None

    def first_byte(self, at: int) -> int | None:
        """Where the first byte from `at` on lies that is not zero; None where all are."""
        for first in range(at, len(self.cells), _SEARCH):
            piece = self.cells[first : first + _SEARCH]
            if piece.any():
                return first + int(np.flatnonzero(piece)[0])
        return None
