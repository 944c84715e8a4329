"""The grid computes the positions of entries in a CommitLog, which is divided into segments of equal length.

The position of an entry depends only on its size and on the end of the entry before it, so every replica writes the
same bytes at the same position. An entry never spans two segments: if it does not fit into the rest of a segment, it
goes to the start of the next segment.

    0              segment_bytes      2 * segment_bytes
    | entry | entry | blank |  entry       | entry | ...

The grid is pure arithmetic and reads no file.
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
        """Return the position of the first byte of the segment that contains `position`."""
        return position - position % self.segment_bytes

    def tail_base(self, end: int) -> int:
        """Return the first position of the segment that contains the last entry, where `end` is the position after that
        entry. For an empty log (`end` = 0) return 0."""
        return self.base(end - 1) if end else 0

    def next_base(self, end: int) -> int:
        """Return the first position of the segment after the segment of the last entry, which ends at `end`."""
        return self.tail_base(end) + self.segment_bytes

    def fits(self, size: int) -> bool:
        """Return whether an entry of `size` bytes fits into an empty segment."""
        return padded(size) <= self.segment_bytes

    def place(self, end: int, size: int) -> int:
        """Return the position of an entry of `size` bytes that follows an entry which ends at `end`."""
        room = -end % self.segment_bytes or self.segment_bytes
        return end if padded(size) <= room else end + room
