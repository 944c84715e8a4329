"""The positions of entries, kept beside the log: so that a start need not read the whole log to know where they are.

    unit, 20 bytes, little-endian; entry N is unit N

     0                8            12               20
    +----------------+------------+----------------+
    | position       | size       | term           |
    +----------------+------------+----------------+

Written at each checkpoint, for the entries since the last one, which are committed and never cut; never
believed without the checkpoint's mark.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from store.disk.disk import Disk
from store.index.file_mark import FileMark
from store.index.unit_files import UnitFiles
from store.log.positions import UNIT, Positions
from store.log.tail import EMPTY, Tail

UNITS_PER_FILE = 1 << 20


class PositionFiles:
    """Empty at first. After `load` or `wipe`, one thread at a time may call it."""

    def __init__(self, disk: Disk, directory: Path, units_per_file: int = UNITS_PER_FILE) -> None:
        self._rows = UnitFiles(disk, directory, UNIT.itemsize, units_per_file)

    def load(self, start_tail: Tail | None, last: int, marks: Iterable[FileMark]) -> Positions | None:
        """The entries behind `base` (None: all) up to `last`; None where the files are not as they were when the marks
        were made."""
        start_tail = start_tail or EMPTY
        if not self._rows.adopt(start_tail.index + 1, last + 1, {mark.name: mark for mark in marks}):
            return None
        positions = Positions(start_tail)
        for piece in self._rows.read(start_tail.index + 1, last - start_tail.index):
            positions.load(np.frombuffer(piece, UNIT))
        return positions

    def begin_at(self, index: int) -> None:
        """The entries before that one, which is one of those here or the next, are not kept: whole files of them go."""
        self._rows.begin_at(index)

    @property
    def next_index(self) -> int:
        """Of the next entry that is to be added."""
        return self._rows.end

    def add(self, units: bytes) -> list[FileMark]:
        """The next entries. Returns the marks of all files."""
        self._rows.append(units)
        return self._rows.marks()

    def wipe(self, first_index: int) -> None:
        """Forget everything; the next entry to come is `first_index`."""
        self._rows.wipe()
        self._rows.begin_at(first_index)

    def close(self) -> None:
        self._rows.close()
