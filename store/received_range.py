"""A received range: entries of another log, judged before a byte of them is written.

One idea: the same comparisons as at recovery, against the tail that the range is said to follow, but nothing here is
damage: the bytes are the sender's, and can be asked for again. Only a range that is sound in itself and does not
continue our chain is more than that: the two logs have parted.
"""

from __future__ import annotations

import numpy as np

from store import entry
from store.entry import EntryFlawError, Header
from store.errors import CorruptRangeError, ForkedError
from store.grid import Grid
from store.tail import Tail


def examined(data: bytes, tail: Tail, grid: Grid) -> list[Header]:
    """The headers of a range that follows `tail`. Raises `CorruptRangeError` when it is bad in itself, `ForkedError`
    when its chain does not continue the tail's."""
    cells = np.frombuffer(data, np.uint8)
    headers: list[Header] = []
    at = 0
    while at < len(data):
        try:
            header = entry.verified(data, cells, at)
            start = headers[0].position if headers else header.position
            tail.check_place(header, start + at, grid)
            if headers and grid.base(start) != grid.base(header.position):
                raise EntryFlawError("the range spans two segments")
            if not tail.leads_to(header):
                if not headers:
                    raise ForkedError(header.index, entry.chained(tail.chain, header.crc), header.chain)
                raise EntryFlawError(f"the chain of entry {header.index} does not continue the one before it")
        except EntryFlawError as flaw:
            raise CorruptRangeError(tail.end, str(flaw)) from flaw
        headers.append(header)
        tail = Tail.of(header)
        at = header.end - headers[0].position
    return headers
