"""A received range: entries of another log, judged before a byte of them is written.

The same comparisons as at recovery, against the tail that the range is said to follow, but nothing here is
damage: the bytes are the sender's, and can be asked for again. Only a range that is sound in itself and does not
continue our chain is more than that: the two logs have parted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from store.errors import CorruptRangeError, ForkedError
from store.log import entry
from store.log.entry import EntryFlawError, Header, Readable
from store.log.grid import Grid
from store.log.tail import Tail


def examined(data: Readable, tail: Tail, grid: Grid) -> list[Header]:
    """The headers of a range that follows `tail`. Raises `CorruptRangeError` when it is bad in itself, `ForkedError`
    when its chain does not continue the tail's."""
    headers: list[Header] = []
    try:
        headers.extend(_followers(data, tail, grid))
    except EntryFlawError as flaw:
        end = headers[-1].end if headers else tail.end
        raise CorruptRangeError(end, str(flaw)) from flaw
    return headers


def whole_entries(data: Readable, tail: Tail, grid: Grid) -> list[Header]:
    """The headers of those entries at the beginning of a range that are whole and follow `tail`."""
    headers: list[Header] = []
    with suppress(EntryFlawError, ForkedError):
        for header in _followers(data, tail, grid):
            headers.append(header)  # noqa: PERF402 (those before the error stay)
    return headers


def _followers(data: Readable, tail: Tail, grid: Grid) -> Iterator[Header]:
    """Raises `EntryFlawError` at the first one that is bad in itself; `ForkedError` when the very first does not
    continue the tail's chain."""
    cells = np.frombuffer(data, np.uint8)
    at, start = 0, None
    while at < len(data):
        header = entry.verified(data, cells, at)
        if start is None:
            start = header.position
        tail.check_place(header, start + at, grid)
        if grid.base(start) != grid.base(header.position):
            raise EntryFlawError("the range spans two segments")
        if not tail.leads_to(header):
            if at == 0:
                raise ForkedError(header.index, entry.chained(tail.chain, header.crc), header.chain)
            raise EntryFlawError(f"the chain of entry {header.index} does not continue the one before it")
        yield header
        tail = Tail.of(header)
        at = header.end - start
