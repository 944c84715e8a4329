"""Finds the end of a log by reading backwards, without reading the whole log.

    | ... | entry | entry | entry |          blank          |
                    <- the last few entries    <- searched from here, a piece at a time

Blank space is zeros, and each entry contains its own position. This is why a few reads find the last bytes that are
not zero, and the entries before these bytes, even in a large segment.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.validation.sources.access import Access
from ledger.validation.sources.replica import LogReplica, Segment
from ledger.validation.spans.block import SpanBlock, written_in
from ledger.validation.spans.entries import entries_from
from store import Header
from store.log.entry import ALIGNMENT, EntryFlawError

_PIECE = 1 << 20


def last_entry(replica: LogReplica, access: Access) -> tuple[int, list[Header]] | None:
    """Return the number of the last segment with a whole entry, and its last entries in ascending order.

    Returns None if the log has no whole entry. The function does not check that each entry continues the entry before
    it.
    """
    for which in range(len(replica.segments) - 1, -1, -1):
        segment = replica.segments[which]
        end = segment.end
        while (end := _last_byte(access, segment, end)) > segment.base:
            found = _entries_before(replica, segment, access, end)
            if found:
                return which, found
            end = max(segment.base, (end - _PIECE) & -ALIGNMENT)
    return None


def last_begun(replica: LogReplica, access: Access) -> int:
    """Return the first position of the last segment that begins with a whole entry, or -1 if no segment does."""
    for segment in reversed(replica.segments):
        block = SpanBlock.read(
            access, segment, segment.base, min(segment.end, segment.base + _PIECE), replica.largest_entry
        )
        try:
            block.whole(segment.base)
        except EntryFlawError:
            continue
        return segment.base
    return -1


def _last_byte(access: Access, segment: Segment, end: int) -> int:
    """Return the position after the last byte before `end` that is not zero, or the segment's start if all bytes
    are zero."""
    while end > segment.base:
        begin = max(segment.base, end - _PIECE)
        found = written_in(access.read(segment, begin, end))
        if found is not None:
            return begin + found[1] + 1
        end = begin
    return segment.base


def _entries_before(replica: LogReplica, segment: Segment, access: Access, end: int) -> list[Header]:
    """Return the whole entries that begin shortly before `end`. If entries are large, the search begins further
    back."""
    for reach in (_PIECE, replica.largest_entry + _PIECE):
        begin = max(segment.base, (end - reach) & -ALIGNMENT)
        upto = min(end + ALIGNMENT, segment.base + segment.length)
        block = SpanBlock.read(access, segment, begin, upto, replica.largest_entry)
        found = list(_whole(block, begin))
        if found or begin == segment.base:
            return found
    return []


def _whole(block: SpanBlock, begin: int) -> Iterator[Header]:
    position = begin
    while (first := block.next_whole(position)) is not None:
        entries, position = entries_from(block, first.position)
        yield from (entries.header(number) for number in range(len(entries)))
        position += ALIGNMENT
