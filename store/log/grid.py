"""The grid: where entries may stand in a CommitLog that is cut into segments of equal length.

An entry's position follows from the end of the one before and from its own size, and from nothing else; so
every replica lays the same bytes at the same place. Entries never span segments: what does not fit in the rest of one
goes to the start of the next.

    0              segment_bytes      2 * segment_bytes
    | entry | entry | blank |  entry       | entry | ...

Pure arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

from store.log.entry import ALIGNMENT, HEADER_SIZE, padded


@dataclass(frozen=True, slots=True)
class Grid:
    segment_bytes: int

    def __post_init__(self) -> None:
        assert self.segment_bytes >= HEADER_SIZE
        assert self.segment_bytes % ALIGNMENT == 0

    def base(self, position: int) -> int:
        """Position of the first byte of the segment that holds the byte at `position`."""
        return position - position % self.segment_bytes

    def tail_base(self, end: int) -> int:
        """First byte of the segment of the last entry, given the position behind it; the first one's, before any."""
        return self.base(end - 1) if end else 0

    def fits(self, size: int) -> bool:
        return padded(size) <= self.segment_bytes

    def place(self, end: int, size: int) -> int:
        """Position of an entry of `size` bytes that follows an entry which ends at `end`."""
        room = -end % self.segment_bytes or self.segment_bytes
        return end if padded(size) <= room else end + room
