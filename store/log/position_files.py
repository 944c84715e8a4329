"""Position files store the position of each entry beside the log, so that a start does not read the whole log to find
its entries.

A position file is an array of units of 20 bytes, little-endian. Unit N belongs to entry N.

     0                8            12               20
    +----------------+------------+----------------+
    | position       | size       | term           |
    +----------------+------------+----------------+

Each checkpoint adds units for the entries since the previous checkpoint. Entries up to a checkpoint are committed, so
a log never cuts entries that have units. A start uses a position file only if the file agrees with its mark in the
checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from store.disk.disk import Disk
from store.index.file_mark import FileMark
from store.index.unit_files import UnitFiles
from store.log.positions import UNIT, Positions
from store.log.tail import EMPTY, LogTail

UNITS_PER_FILE = 1 << 20


class PositionFiles:
    """Stores the positions of a log's entries in files. A new object has no units until `load` or `wipe`. After
    `load` or `wipe`, only one thread at a time may call this object."""

    def __init__(self, disk: Disk, directory: Path, units_per_file: int = UNITS_PER_FILE) -> None:
        self._rows = UnitFiles(disk, directory, UNIT.itemsize, units_per_file)

    def load(self, start_tail: LogTail | None, last: int, marks: Iterable[FileMark]) -> Positions | None:
        """Return the positions of the entries after `start_tail` (None: from entry 1) up to `last`. If the files no
        longer agree with their marks, return None."""
        start_tail = start_tail or EMPTY
        if not self._rows.adopt(start_tail.index + 1, last + 1, {mark.name: mark for mark in marks}):
            return None
        positions = Positions(start_tail)
        for piece in self._rows.read(start_tail.index + 1, last - start_tail.index):
            positions.load(np.frombuffer(piece, UNIT))
        return positions

    def begin_at(self, index: int) -> None:
        """Drop the units of entries before `index`, and remove files that hold only dropped units. `index` must be
        the index of an entry in the position files, or of the next entry to be added."""
        self._rows.begin_at(index)

    @property
    def next_index(self) -> int:
        """Index of the next entry that is to be added."""
        return self._rows.end

    def add(self, units: bytes) -> list[FileMark]:
        """Add the units of the next entries. Return the file marks of all position files."""
        self._rows.append(units)
        return self._rows.marks()

    def wipe(self, first_index: int) -> None:
        """Remove all units. The next unit to be added is for entry `first_index`."""
        self._rows.wipe()
        self._rows.begin_at(first_index)

    def close(self) -> None:
        self._rows.close()
