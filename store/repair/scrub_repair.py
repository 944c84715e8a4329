"""Scrub repair: overwrites damaged entries of an open log with the same entries of another replica.

The index, position, size and term of every entry stay known while its bytes are damaged. A scrub repair accepts only
the original bytes, and neither moves nor cuts an entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from store.errors import LogDamagedError
from store.log import entry
from store.log.entry import HEADER_SIZE, EntryFlawError, Header
from store.log.grid import Grid
from store.log.positions import Positions
from store.log.received_range import whole_entries
from store.log.segments import Segments
from store.log.tail import LogTail


@dataclass(frozen=True, slots=True)
class ScrubRepair:
    """Replaces damaged bytes of the open log. Do not keep this object: it is invalid as soon as the log grows, is
    cut, or has another first entry."""

    segments: Segments
    positions: Positions
    grid: Grid
    # The last entry before the first entry of the log.
    start_tail: LogTail
    # The last entry; start_tail.index <= tail.index.
    tail: LogTail
    # Raises an error if the log must not be written.
    check_health: Callable[[], None]

    def tail_at(self, index: int) -> LogTail:
        """Return the tail after an entry that was overwritten. For the first damaged entry, this is the tail after
        the entry before it. The method reads the bytes even if they are marked as damaged. Raise `LogDamagedError` if
        they are not the header of an entry."""
        if index == self.tail.index:
            return self.tail
        if index == self.start_tail.index:
            return self.start_tail
        position = self.positions.position(index)
        try:
            return LogTail.of(entry.parse(self.segments.slice(position, HEADER_SIZE), 0))
        except EntryFlawError as flaw:
            raise LogDamagedError(self.segments.path(position), position, str(flaw)) from flaw

    def overwrite(self, data: bytes, first: int) -> int:
        """Overwrite the entries from index `first` with `data`, the same entries of another replica. Stop at the
        first entry that differs in position, size, term or chain. Return the first index that was not written.
        After `overwrite`, call `CommitLog.sync` and `check_whole`."""
        self.check_health()
        headers = whole_entries(data, self.tail_at(first - 1), self.grid)
        same = [header for header in headers if self._is_entry(header)]
        if same:
            self.segments.overwrite(same[0].position, data[: same[-1].end - same[0].position])
        return first + len(same)

    def check_whole(self, entries: range) -> None:
        """Read the entries first..last again. Raise `LogDamagedError` unless each entry is whole, and the chain is
        unbroken from the entry before `first` to the entry after `last`."""
        tail, last = self.tail_at(entries[0] - 1), min(entries[-1] + 1, self.tail.index)
        while tail.index < last:
            first = tail.index + 1
            position = self.positions.position(first)
            data = self.segments.read(position, self.positions.end(first) - position)
            if not (headers := whole_entries(data, tail, self.grid)):
                raise LogDamagedError(self.segments.path(position), position, f"entry {first} is not whole")
            tail = LogTail.of(headers[0])

    def _is_entry(self, header: Header) -> bool:
        index = header.index
        if index > self.tail.index:
            return False
        here = (self.positions.position(index), self.positions.size(index), self.positions.term(index))
        return here == (header.position, header.size, header.term)
