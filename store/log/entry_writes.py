"""`EntryWrites` changes the bytes of an open log. Each write either succeeds as a whole or changes nothing.

If a write fails, the log erases the bytes of that write. If the erasing fails too, the memory disagrees with the disk.
If the erasing fails, the log is *poisoned*: it refuses all further writes. A failed sync poisons the log too (the log
refuses all further writes), because the kernel may have dropped the pages, and a second fsync would report success.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from store.errors import DiskFailedError, OutOfFilesError, StoreError
from store.log.entry import Readable
from store.log.grid import Grid
from store.log.positions import Positions
from store.log.segments import Segments

# A position, and the pieces of bytes that are written there. All of them lie in one segment.
Group = tuple[int, Sequence[Readable]]


class EntryWrites:
    def __init__(self, directory: Path, segments: Segments, grid: Grid) -> None:
        self._directory = directory
        self._segments = segments
        self._grid = grid
        # Why the log is poisoned, except by a failed sync, which the segments know; None while it may be written.
        self._failure: StoreError | None = None
        self._is_closed = False

    def check_health(self) -> None:
        """Raise `DiskFailedError` if the log is poisoned by an earlier failed erase or sync."""
        assert not self._is_closed, "what is written behind the clean mark would be taken for damage"
        failure = self._failure or self._segments.failure
        if failure is not None:
            raise DiskFailedError(self._directory, f"an earlier write was lost ({failure})") from failure

    def close(self) -> None:
        self._is_closed = True

    def write(self, groups: Sequence[Group], end: int) -> None:
        """Write the groups of entries in `groups` after the log's end. If the call raises an error, none of the
        entries is in the log."""
        for number, (position, pieces) in enumerate(groups):
            try:
                self._segments.write_group(position, pieces)
            except OutOfFilesError:  # no byte of this group was written, and erasing would need the file, too
                self._undo(groups[:number], end)
                raise
            except StoreError:
                self._undo(groups[: number + 1], end)
                raise

    def _undo(self, groups: Sequence[Group], end: int) -> None:
        """Erase the bytes of a failed write, and remove the segments that were made for the write. These segments
        must not stay, because after a power loss the existence of a segment proves that earlier segments were
        flushed (see `Segments.flushed_below`)."""
        try:
            for position, pieces in reversed(groups):
                if self._segments.has(self._grid.base(position)):
                    self._segments.erase_word(position)
                    self._segments.erase(position, position + sum(map(len, pieces)))
            self._segments.remove_after(self._grid.next_base(end))
        except StoreError as error:
            self._failure = error

    def erase_after(self, last_index: int, positions: Positions, old_end: int) -> None:
        """Erase the entries after `last_index`. A kill at any moment leaves a prefix of the log that contains entry
        `last_index`. First, the segments after the segment of entry `last_index` are removed, the last segment
        first. In the segment that stays, the first word of each entry after `last_index` is erased next, from the
        last entry backwards. Last, the other bytes of the entries after `last_index` are erased."""
        end = positions.end(last_index)
        keep = self._grid.tail_base(end)
        try:
            if self._grid.tail_base(old_end) > keep:
                self._segments.remove_after(keep)
            limit = min(old_end, keep + self._grid.segment_bytes)
            for index in range(positions.last_ending_by(limit), last_index, -1):
                self._segments.erase_word(positions.position(index))
            self._segments.erase(end, limit)
        except StoreError as error:
            self._failure = error
            raise

    def remove_all(self, start: int, removed: Callable[[], None]) -> None:
        """Give up all segments. The next entry is written at or after position `start`. `removed` is called when no
        segment is left (see `Segments.begin_at`)."""
        try:
            self._segments.begin_at(start, removed)
        except StoreError as error:
            self._failure = error
            raise
