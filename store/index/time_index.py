"""The time index: the first message that was appended at or after a time. It has no bytes of its own.

    time ──> the first entry with that append time, or a later one      headers of the log, by bisection
         ──> its position ──> the queue's first unit at or behind it    units of the ConsumeQueue, by bisection

The log is this index. Append times never fall along it, and positions never fall along a ConsumeQueue, so
both are sorted already; the first search is one for all queues that are asked for the same time. It costs a few tens of
reads for each question, and nothing to write, to keep, or to distrust; docs/STORE.md compares it with a file.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from store.index.consume_queue import ConsumeQueue
from store.log.commit_log import CommitLog

_WINDOW_UNITS = 128


def position_at(log: CommitLog, time_ms: int, last_index: int) -> int:
    """Where the first entry up to `last_index` begins that was appended at `time_ms` or later; where entry `last_index`
    ends, if there is none."""
    indexes = range(log.first_index, last_index + 1)
    found = bisect_left(indexes, time_ms, key=lambda index: log.header(index).append_time_ms)
    if found < len(indexes):
        return log.position(indexes[found])
    return log.header(last_index).end if indexes else 0


def offset_at(queue: ConsumeQueue, position: int) -> int:
    """The first offset whose entry begins at `position` or behind it; the queue's end, if there is none."""
    low, high = queue.first_offset, queue.end_offset  # all before `low` lie before it, all from `high` on do not
    while high - low > _WINDOW_UNITS:
        middle = (low + high) // 2
        if int(queue.read(middle, 1)["position"][0]) < position:
            low = middle + 1
        else:
            high = middle
    return low + int(np.searchsorted(queue.read(low, high - low)["position"], position))
