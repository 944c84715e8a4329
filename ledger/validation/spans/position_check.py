"""Compares the position files, up to the checkpoint, with the log.

    entry 57 at 4,096, 800 bytes, term 3
    <shard>/positions/00000000000000000000, unit 57     position 4,096, size 800, term 3

At its next start the node trusts the positions up to the checkpoint's entry and writes all later positions again. For
this reason, the check compares only the positions up to the checkpoint's entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ledger.validation.sources.access import read_part
from ledger.validation.sources.replica import LogReplica
from ledger.validation.spans.entries import Entries
from store.disk.numbered import name_of
from store.log.position_files import UNITS_PER_FILE
from store.log.positions import UNIT


@dataclass(frozen=True, slots=True)
class WrongPositions:
    """A run of neighbouring units of a position file that differ from the log or are missing."""

    index: int
    last_index: int
    path: str
    position: int
    end: int
    reason: str


class PositionCheck:
    """Compares the position files of one replica with its log. A replica without position files always passes."""

    def __init__(self, replica: LogReplica) -> None:
        self._directory = Path(replica.directory) / "positions" if replica.directory is not None else None
        self._last = replica.checkpoint_index
        self._is_running = replica.is_running
        self.wrong: list[WrongPositions] = []

    def compare(self, entries: Entries) -> None:
        """Compare the units of `entries`."""
        rows = entries.rows[entries.rows["index"] <= self._last]
        if self._directory is None or not len(rows):
            return
        files = rows["index"] // np.uint64(UNITS_PER_FILE)
        for file in np.unique(files).tolist():
            self._compare_file(self._directory / name_of(file * UNITS_PER_FILE), rows[files == file])

    def _compare_file(self, path: Path, rows: npt.NDArray[np.void]) -> None:
        at = (rows["index"] % np.uint64(UNITS_PER_FILE)).astype(np.int64)
        first, last = int(at.min()), int(at.max())
        try:
            data = read_part(path, first * UNIT.itemsize, (last - first + 1) * UNIT.itemsize)
        except FileNotFoundError:
            if self._is_running or not path.parent.parent.exists():
                return  # retention has removed the file, or the whole directory is gone
            data = b""
        there = np.frombuffer(data, UNIT, len(data) // UNIT.itemsize)
        is_there = at - first < len(there)
        said = there[np.where(is_there, at - first, 0)] if len(there) else np.zeros(len(at), UNIT)
        right = is_there.copy()
        for name in ("position", "size", "term"):
            right &= said[name] == rows[name]
        self._tell(path, at[~right], is_there[~right], rows["index"][~right])

    def _tell(
        self, path: Path, at: npt.NDArray[np.int64], is_there: npt.NDArray[np.bool_], indexes: npt.NDArray[np.uint64]
    ) -> None:
        """Add one `WrongPositions` for each run of neighbouring wrong units."""
        if not len(at):
            return
        for run in np.split(np.arange(len(at)), np.flatnonzero(np.diff(at) != 1) + 1):
            first, last = int(run[0]), int(run[-1])
            index = int(indexes[first])
            reason = f"the unit of entry {index} is " + ("different from the log" if is_there[first] else "missing")
            position, end = int(at[first]) * UNIT.itemsize, (int(at[last]) + 1) * UNIT.itemsize
            self.wrong.append(WrongPositions(index, int(indexes[last]), str(path), position, end, reason))
