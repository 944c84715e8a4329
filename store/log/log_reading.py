"""Reads headers, bodies and byte ranges of entries from an open CommitLog.

If a method has an index as its parameter, the log must hold the entry with this index. A read does not check bytes
again, because they were checked when they entered the log. A read raises `RangeDamagedError` if the bytes lie in a
range that is marked as damaged, and `EntryFlawError` if they cannot be the header of an entry. `UNREADABLE` is both.
"""

from __future__ import annotations

from store.errors import RangeDamagedError
from store.log import entry
from store.log.entry import HEADER_SIZE, Header
from store.log.grid import Grid
from store.log.log_files import SegmentFile
from store.log.log_state import LogState
from store.log.segment_span import SegmentSpan
from store.log.segments import Segments
from store.log.tail import LogTail

# The errors of a read whose bytes are damaged. After a scrub repair, the entry can be read again.
UNREADABLE = (RangeDamagedError, entry.EntryFlawError)


class LogReading:
    def __init__(self, state: LogState, segments: Segments, grid: Grid) -> None:
        self._state = state
        self._segments = segments
        self._grid = grid
        # Positions between which the log was found damaged: no bytes are read there. Empty while the log is whole.
        self.damaged: range = range(0)

    @property
    def first_index(self) -> int:
        """The index of the first entry that the log holds or will hold."""
        return self._state.start_tail.index + 1

    @property
    def last_index(self) -> int:
        """Index of the last entry. If the log is empty, this is the index of the entry before its first entry."""
        return self._state.tail.index

    # Damage, found while the log is open.

    def mark_damaged(self, entries: range) -> None:
        """Refuse reads of the entries first..last until `mark_whole` is called."""
        positions = self._state.positions
        self.damaged = range(positions.position(entries[0]), positions.end(entries[-1]))

    def mark_whole(self) -> None:
        self.damaged = range(0)

    def _slice(self, position: int, size: int) -> memoryview:
        """Return a view of these bytes. Raise `RangeDamagedError` if some of these bytes are marked as damaged."""
        damaged = self.damaged
        if damaged and position < damaged.stop and position + size > damaged.start:
            raise RangeDamagedError(self._segments.path(position), damaged.start, damaged.stop)
        return self._segments.slice(position, size)

    # Entries.

    def term(self, index: int) -> int:
        """Return the term of entry `index`. `index` may also be the index of the entry before the first entry of
        the log. For index 0 return 0."""
        return self._state.positions.term(index)

    def term_runs(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return (first index, term) of each run of equal terms in first..last."""
        return self._state.positions.runs(first, last)

    def position(self, index: int) -> int:
        return self._state.positions.position(index)

    def tail_at(self, index: int) -> LogTail:
        """Return the tail that the log would have if it ended with entry `index`. `index` may also be the index of
        the entry before the first entry of the log."""
        state = self._state
        if index == state.tail.index:
            return state.tail
        return state.start_tail if index == state.start_tail.index else LogTail.of(self.header(index))

    def header(self, index: int) -> Header:
        return self.header_at(self._state.positions.position(index))

    def header_at(self, position: int) -> Header:
        """Return the header of the entry at `position`. The caller reads `position` from a ConsumeQueue."""
        return entry.parse(self._slice(position, HEADER_SIZE), 0)

    def body(self, index: int) -> bytes:
        """Return a copy of the body of an entry."""
        # The slice is of the whole entry: an empty body at the end of a segment would begin in the next segment.
        positions = self._state.positions
        return bytes(self._slice(positions.position(index), positions.size(index))[HEADER_SIZE:])

    def entry(self, index: int) -> tuple[Header, memoryview]:
        """Return header and body of an entry. The body is a view that stays valid until the log is closed or cut at
        this entry."""
        positions = self._state.positions
        return self.entry_at(positions.position(index), positions.size(index))

    def entry_at(self, position: int, size: int) -> tuple[Header, memoryview]:
        """Return header and body of the entry of `size` bytes at `position`. The caller reads `size` and `position`
        from a ConsumeQueue."""
        data = self._slice(position, size)
        return entry.parse(data, 0), data[HEADER_SIZE:]

    # Ranges of entries.

    def position_units(self, first: int, last: int) -> bytes:
        """Return the positions of the entries first..last as units of `PositionFiles`."""
        return self._state.positions.units(first, last).tobytes()

    def begins_segment(self, index: int) -> bool:
        """Return whether entry `index` is the first entry of a segment."""
        return self.position(index) % self._grid.segment_bytes == 0

    def span(self, first: int, last: int) -> int:
        """Return the number of bytes from the start of entry `first` to the end of entry `last`."""
        return self._state.positions.end(last) - self.position(first)

    def reach(self, first: int, max_bytes: int) -> int:
        """Return the largest index `last` such that the entries first..last lie in one segment and have at most
        `max_bytes` bytes. If the entry `first` alone has more than `max_bytes` bytes, return `first`."""
        position = self.position(first)
        limit = min(position + max_bytes, self._grid.base(position) + self._grid.segment_bytes)
        return max(first, self._state.positions.last_ending_by(limit))

    def read_range(self, first: int, last: int) -> bytes:
        """Return the bytes of the entries first..last, which must lie in one segment. A follower passes the
        returned bytes to `CommitLog.examine`."""
        return bytes(self.view_range(first, last))

    def view_range(self, first: int, last: int) -> memoryview:
        """Return the bytes of the entries first..last as a view, without a copy. If the log is cut later, the view
        may show zeros, or later entries at the same positions."""
        position = self.position(first)
        assert self._grid.base(position) == self._grid.base(self.position(last)), "a range lies in one segment"
        return self._slice(position, self._state.positions.end(last) - position)

    def entries_in(self, first: int, end: int) -> range:
        """Return the indexes of the entries that have a byte between the positions `first` and `end`."""
        positions = self._state.positions
        after = positions.last_ending_by(first) + 1
        last = positions.last_ending_by(end)
        last += last < self.last_index and self.position(last + 1) < end
        return range(after, last + 1)

    # Files.

    def segment_files(self, last_index: int) -> list[SegmentFile]:
        """Return the files that hold the entries up to `last_index`."""
        last = self.position(last_index)
        return [SegmentFile(self._segments.path(base), base) for base in self._segments.bases if base <= last]

    def spans(self) -> list[SegmentSpan]:
        """Return a segment span for each segment file, oldest first. Entries that are not in a file yet are left
        out."""
        state, positions = self._state, self._state.positions
        spans, first = [], self.first_index
        for base in self._segments.bases:
            whole = positions.last_ending_by(base + self._grid.segment_bytes)
            last = min(whole, positions.last_ending_by(base + self._segments.written_bytes(base)))
            if last >= first:
                span = SegmentSpan(
                    path=self._segments.path(base),
                    base=base,
                    start=max(0, state.start_tail.end - base),
                    length=positions.end(last) - base,
                    first_index=first,
                    last_index=last,
                    chain=self.tail_at(last).chain,
                    is_last=last < whole or last == self.last_index,
                )
                spans.append(span)
                first = last + 1
            if last < whole:
                break
        return spans
