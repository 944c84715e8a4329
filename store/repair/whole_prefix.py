"""The whole prefix of a damaged log: its entries from the first entry to the last entry before the first flaw.

    | entry 1 | entry 2 | entry 3 | #### | entry 5 | ...
    prefix                        ^ tail

A log that cannot be opened is still useful: other replicas can read its whole prefix. This module checks the entries
with the same comparisons as recovery. This module writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from store.disk.disk import ReadOnlyDisk
from store.disk.numbered import name_of
from store.log import entry
from store.log.entry import HEADER_SIZE, WORD, EntryFlawError, Header
from store.log.grid import Grid
from store.log.log_files import SegmentFile
from store.log.positions import Positions
from store.log.segment_view import SegmentView
from store.log.tail import LogTail

OnEntry = Callable[[Header, memoryview], None]


class WholePrefix:
    def __init__(
        self, disk: ReadOnlyDisk, directory: Path, segment_bytes: int, start: LogTail, on_entry: OnEntry | None = None
    ) -> None:
        """Read the prefix, and pass each entry's header and body to `on_entry`. `start` is the tail that the first
        entry follows. Raise `StoreError` if the disk fails."""
        self._disk = disk
        self._directory = directory
        self._grid = Grid(segment_bytes)
        self._on_entry = on_entry
        self._start_tail = self.tail = start
        self._positions = Positions(start)
        # The largest commit index that an entry of the prefix mentions; <= last_index.
        self.known_commit = start.index
        # The flaw after the prefix; None if the bytes there are blank, or the next segment is missing.
        self.flaw: EntryFlawError | None = None
        base = self._grid.base(start.end)
        while disk.exists(directory / name_of(base)) and self._read_segment(base):
            base += segment_bytes

    def _read_segment(self, base: int) -> bool:
        """Read the entries of the segment at `base`. Return whether the log may continue in the next segment."""
        data = SegmentView.of(SegmentFile(self._directory / name_of(base), base), self._disk)
        at = max(0, self._start_tail.end - base)
        try:
            while at + WORD <= len(data.view) and not entry.is_blank(data.view, at):
                header = data.whole(at)
                self.tail.check_place(header, base + at, self._grid)
                if not self.tail.leads_to(header):
                    raise EntryFlawError(f"the chain of entry {header.index} does not continue the one before it")
                self.extend([header])
                if self._on_entry is not None:
                    self._on_entry(header, data.view[at + HEADER_SIZE : at + header.size])
                at = header.end - base
        except EntryFlawError as flaw:
            self.flaw = flaw
            return False
        return len(data.view) == self._grid.segment_bytes

    def extend(self, headers: list[Header]) -> None:
        """Add entries that were found or written after the prefix."""
        self._positions.add(headers)
        self.tail = LogTail.of(headers[-1])
        self.known_commit = max(self.known_commit, *(header.commit for header in headers))

    def shorten(self, tail: LogTail) -> None:
        """Shorten the prefix so that it ends at `tail`, the tail after one of its entries."""
        self._positions.truncate(tail.index)
        self.tail = tail
        self.known_commit = min(self.known_commit, tail.index)

    # The same methods as those of `LogReading`.

    @property
    def first_index(self) -> int:
        return self._start_tail.index + 1

    @property
    def last_index(self) -> int:
        return self.tail.index

    def tail_at(self, index: int) -> LogTail:
        """Return the tail after an entry of the prefix, or the tail that its first entry follows."""
        if index == self._start_tail.index:
            return self._start_tail
        return LogTail.of(entry.parse(self._read(self._positions.position(index), HEADER_SIZE), 0))

    def reach(self, first: int, max_bytes: int) -> int:
        """Return the largest index `last` for which the entries first..last lie in one segment and have at most
        `max_bytes` bytes together. Return at least `first`."""
        position = self._positions.position(first)
        limit = min(position + max_bytes, self._grid.base(position) + self._grid.segment_bytes)
        return max(first, self._positions.last_ending_by(limit))

    def read_range(self, first: int, last: int) -> bytes:
        """Return the bytes of the entries first..last, which lie in one segment."""
        position = self._positions.position(first)
        return self._read(position, self._positions.end(last) - position)

    def _read(self, position: int, count: int) -> bytes:
        base = self._grid.base(position)
        file = self._disk.open(self._directory / name_of(base))
        try:
            return file.read(position - base, count)
        finally:
            file.close()
