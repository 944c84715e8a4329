"""A block holds bytes of one segment in memory. numpy and the CRC library read these bytes as arrays.

    segment   |..........| begin ......... end |...........|
    words                  u64, u64, ...                          entries begin at multiples of 8

An entry that begins in a block may end after it. If an entry ends after the block, `reach` reads the missing bytes, up
to the size of the largest entry. The memory of a reader does not depend on the size of a segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ledger.validation.sources.access import Access
from ledger.validation.sources.replica import Segment
from store import Header
from store.log.entry import ALIGNMENT, HEADER_SIZE, MAGIC, EntryFlawError, padded, parse
from store.log.log_files import SegmentFile
from store.log.segment_view import SegmentView

Words = npt.NDArray[np.uint64]
# How many bytes after the end are read at once. Most entries that cross the end need no more.
_AHEAD = 128 << 10
# How many words are searched at once for the start of an entry.
_SEARCHED = 32 << 10


class SpanBlock:
    """Bytes [begin, end) of a log, and some bytes after them. All positions in this class are positions in the log."""

    def __init__(self, access: Access, segment: Segment, begin: int, end: int, largest: int, data: bytes) -> None:
        self._access = access
        self.largest = largest
        self.segment = segment
        self.begin = begin
        # The entries of this block begin before this position.
        self.end = end
        self._set(data)

    @staticmethod
    def read(access: Access, segment: Segment, begin: int, end: int, largest: int) -> SpanBlock:
        """Read a block. `largest` is the size of the largest entry, in bytes. Raises SourceError or
        SegmentGoneError."""
        upto = min(end + _AHEAD, segment.base + segment.length)
        data = access.read(segment, begin, upto)
        return SpanBlock(access, segment, begin, min(end, begin + len(data)), largest, data)

    def _set(self, data: bytes) -> None:
        self.data = data
        self.view = memoryview(data)
        self.cells = np.frombuffer(data, np.uint8)
        self.words: Words = np.frombuffer(data, "<u8", len(data) // ALIGNMENT)

    @property
    def reached(self) -> int:
        """The position after the last byte in memory."""
        return self.begin + len(self.data)

    def reach(self, position: int) -> bool:
        """Read the bytes up to `position` if they are not in memory. Return False if the segment ends before
        `position`."""
        if position > self.segment.base + self.segment.length:
            return False
        if position > self.reached:
            self._set(self.data + self._access.read(self.segment, self.reached, position))
        return position <= self.reached

    def whole(self, position: int) -> Header:
        """Return the header of the whole entry at `position`. Raises EntryFlawError if no whole entry is at
        `position`."""
        at = position - self.begin
        if at + HEADER_SIZE > len(self.data):
            self.reach(position + HEADER_SIZE)
        header = parse(self.view, at)
        if header.size > self.largest:
            raise EntryFlawError(
                f"size {header.size} is larger than entries of this shard may be ({self.largest} bytes)"
            )
        self.reach(position + padded(header.size))
        place = SegmentFile(Path(self.segment.path), self.begin)
        return SegmentView(place, self.view, self.cells).whole(at)

    def next_whole(self, position: int) -> Header | None:
        """Return the first whole entry that begins at `position` or later in this block, or None."""
        at = -(-(position - self.begin) // ALIGNMENT)
        last = -(-(self.end - self.begin) // ALIGNMENT)
        for word in self._magics(at, last):
            place = self.begin + word * ALIGNMENT
            if word + 5 > len(self.words) or int(self.words[word + 4]) != place:
                continue
            try:
                return self.whole(place)
            except EntryFlawError:
                continue
        return None

    def _magics(self, at: int, last: int) -> Iterator[int]:
        """Yield the numbers of those words in [at, last) that may be the beginning of an entry."""
        begins = self.words.view("<u4")[::2]
        for first in range(at, last, _SEARCHED):
            found = np.flatnonzero(begins[first : min(first + _SEARCHED, last)] == MAGIC)
            yield from (found + first).tolist()

    def blank_from(self, position: int) -> tuple[int, int] | None:
        """Return the first and the last position in [position, end) of a byte that is not zero, or None."""
        found = written_in(self.view[position - self.begin : self.end - self.begin])
        return (position + found[0], position + found[1]) if found is not None else None


def written_in(data: bytes | memoryview) -> tuple[int, int] | None:
    """Return the places of the first and the last byte that is not zero, or None if all bytes are zero."""
    words = np.frombuffer(data, "<u8", len(data) // ALIGNMENT)
    if not np.count_nonzero(words) and not any(data[len(words) * ALIGNMENT :]):
        return None
    there = np.frombuffer(data, np.uint8) != 0
    return int(there.argmax()), len(there) - 1 - int(there[::-1].argmax())
