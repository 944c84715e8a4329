"""Reads headers, bodies and byte ranges of entries from an open CommitLog.

If a method has an index as its parameter, the log must hold the entry with this index. A read does not check bytes
again, because they were checked when they entered the log; only `whole_tail_at` checks them. A read raises
`RangeDamagedError` if the bytes lie in a range that is marked as damaged, or if the bytes of the entry with this index
cannot be its header. A read by a position that an index names raises `EntryFlawError` if no header is there.
`UNREADABLE` is both. Damage of the log that was not marked is reported to `on_damage`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from store.errors import RangeDamagedError
from store.log import entry
from store.log.entry import HEADER_SIZE, EntryFlawError, Header
from store.log.flaw import Flaw, FlawKind
from store.log.grid import Grid
from store.log.log_files import SegmentFile
from store.log.log_state import LogState
from store.log.segment_span import SegmentSpan
from store.log.segments import Segments
from store.log.tail import LogTail

# The errors of a read whose bytes are damaged. After a scrub repair, the entry can be read again.
UNREADABLE = (RangeDamagedError, EntryFlawError)


class LogReading:
    def __init__(self, state: LogState, segments: Segments, grid: Grid) -> None:
        self._state = state
        self._segments = segments
        self._grid = grid
        # Positions between which the log was found damaged: no bytes are read there. Empty while the log is whole.
        self.damaged: range = range(0)
        # Called, in the thread of the read, with damage that a read has found outside of `damaged`.
        self.on_damage: Callable[[Flaw], None] = lambda _: None

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
        """Return a view of these bytes. Raise `RangeDamagedError` if some of these bytes are marked as damaged, and
        `EntryFlawError` if the log has no segment there: the index that names the position is behind the log start, or
        is damaged."""
        if not self._segments.has(self._grid.base(position)):
            raise EntryFlawError(f"the log has no segment at position {position}")
        damaged = self.damaged
        if damaged and position < damaged.stop and position + size > damaged.start:
            raise RangeDamagedError(self._segments.path(position), damaged.start, damaged.stop)
        return self._segments.slice(position, size)

    def _found(self, index: int, flaw: EntryFlawError) -> RangeDamagedError:
        """Report damage of entry `index`, and return the error for the reader. Entries before it whose headers cannot
        be read either belong to the same damage, because a repair begins after a whole entry."""
        positions, first = self._state.positions, index
        while first > self.first_index and not self._has_header(first - 1):
            first -= 1
        begin, end = positions.position(first), positions.end(index)
        path = self._segments.path(begin)
        self.on_damage(Flaw(FlawKind.DAMAGE, path, begin, first, str(flaw), end, index))
        return RangeDamagedError(path, begin, end)

    def _has_header(self, index: int) -> bool:
        try:
            entry.parse(self._slice(self.position(index), HEADER_SIZE), 0)
        except UNREADABLE:
            return False
        return True

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

    def end(self, index: int) -> int:
        """Return the position after entry `index`, or after the entry before the first entry of the log. No bytes are
        read."""
        return self._state.positions.end(index)

    def tail_at(self, index: int) -> LogTail:
        """Return the tail that the log would have if it ended with entry `index`. `index` may also be the index of
        the entry before the first entry of the log."""
        state = self._state
        if index == state.tail.index:
            return state.tail
        return state.start_tail if index == state.start_tail.index else LogTail.of(self.header(index))

    def whole_tail_at(self, index: int) -> LogTail:
        """Return the same as `tail_at`, after a check of the entry's bytes and of its chain. Raise `RangeDamagedError`
        if the entry is damaged. A flipped bit would otherwise look like an entry of another log."""
        tail = self.tail_at(index)
        if index in (self._state.tail.index, self._state.start_tail.index):
            return tail
        position, size = self._state.positions.position(index), self._state.positions.end(index) - self.position(index)
        try:
            data = self._slice(position, size)
            header = entry.verified(data, np.frombuffer(data, np.uint8), 0)
        except EntryFlawError as flaw:
            raise self._found(index, flaw) from flaw
        # The chain field itself has no CRC. The entry before and the entry after say whose chain is wrong.
        if not self.tail_at(index - 1).leads_to(header) and not tail.leads_to(self.header(index + 1)):
            raise self._found(index, EntryFlawError(f"the chain of entry {index} does not continue the one before it"))
        return tail

    def header(self, index: int) -> Header:
        try:
            return entry.parse(self._slice(self._state.positions.position(index), HEADER_SIZE), 0)
        except EntryFlawError as flaw:
            raise self._found(index, flaw) from flaw

    def header_at(self, position: int) -> Header:
        """Return the header of the entry at `position`. The caller reads `position` from a ConsumeQueue."""
        return self._parsed(self._slice(position, HEADER_SIZE), position)

    def _parsed(self, data: memoryview, position: int) -> Header:
        try:
            return entry.parse(data, 0)
        except EntryFlawError as flaw:
            index = self._state.positions.last_ending_by(position) + 1
            # If no entry of this size begins there, the index that names the position is damaged.
            if len(data) >= HEADER_SIZE and index <= self.last_index and self.position(index) == position:
                self._found(index, flaw)
            raise

    def body(self, index: int) -> bytes:
        """Return a copy of the body of an entry."""
        # The slice is of the whole entry: an empty body at the end of a segment would begin in the next segment.
        positions = self._state.positions
        return bytes(self._slice(positions.position(index), positions.size(index))[HEADER_SIZE:])

    def entry(self, index: int) -> tuple[Header, memoryview]:
        """Return header and body of an entry. The body is a view that stays valid until the log is closed or cut at
        this entry."""
        positions = self._state.positions
        data = self._slice(positions.position(index), positions.size(index))
        try:
            return entry.parse(data, 0), data[HEADER_SIZE:]
        except EntryFlawError as flaw:
            raise self._found(index, flaw) from flaw

    def entry_at(self, position: int, size: int) -> tuple[Header, memoryview]:
        """Return header and body of the entry of `size` bytes at `position`. The caller reads `size` and `position`
        from a ConsumeQueue."""
        data = self._slice(position, size)
        return self._parsed(data, position), data[HEADER_SIZE:]

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
