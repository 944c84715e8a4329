"""Checks a received range: entries of another replica's log, of which no byte is written before the check.

The range is compared with the tail that it claims to follow, in the same way as recovery compares an entry with its
tail. A flaw in a received range is no damage of this log: no byte of the range is written, and the range can be
requested again. If a range has no flaw, but does not continue the chain of this log, the two logs have diverged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from store.errors import CorruptRangeError, ForkedError
from store.log import entry
from store.log.entry import EntryFlawError, Header, Readable
from store.log.grid import Grid
from store.log.tail import LogTail


def examined(data: Readable, tail: LogTail, grid: Grid) -> list[Header]:
    """Return the headers of a range that follows `tail`. Raise `CorruptRangeError` if the range itself is damaged, and
    `ForkedError` if its chain does not continue the chain of `tail`."""
    headers: list[Header] = []
    try:
        headers.extend(_followers(data, tail, grid))
    except EntryFlawError as flaw:
        end = headers[-1].end if headers else tail.end
        raise CorruptRangeError(end, str(flaw)) from flaw
    return headers


def whole_entries(data: Readable, tail: LogTail, grid: Grid) -> list[Header]:
    """Return the headers of the entries at the beginning of `data` that are whole and follow `tail`."""
    headers: list[Header] = []
    with suppress(EntryFlawError, ForkedError):
        for header in _followers(data, tail, grid):
            headers.append(header)  # noqa: PERF402 (those before the error stay)
    return headers


def _followers(data: Readable, tail: LogTail, grid: Grid) -> Iterator[Header]:
    """Yield the headers of entries that follow `tail`. Raise `EntryFlawError` at the first entry that is not whole
    or does not follow the entry before it. Raise `ForkedError` if the first entry does not continue the chain of
    `tail`."""
    cells = np.frombuffer(data, np.uint8)
    at, start = 0, None
    while at < len(data):
        header = entry.verified(data, cells, at)
        if start is None:
            start = header.position
        if at == 0 and header.index == tail.index + 1 and not tail.leads_to(header):
            # Before the place: two logs that differ can have the same entry at different positions.
            raise ForkedError(header.index, entry.chained(tail.chain, header.crc), header.chain)
        tail.check_place(header, start + at, grid)
        if grid.base(start) != grid.base(header.position):
            raise EntryFlawError("the range spans two segments")
        if not tail.leads_to(header):
            raise EntryFlawError(f"the chain of entry {header.index} does not continue the one before it")
        yield header
        tail = LogTail.of(header)
        at = header.end - start
