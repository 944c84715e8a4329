"""The time index finds the first message of a queue that was appended at or after a given time. The time index has no
files.

    time ──> the first entry with that append time, or a later one      headers of the log, by bisection
         ──> its position ──> the queue's first unit at or after it     units of the ConsumeQueue, by bisection

The time index searches the log and the ConsumeQueue by bisection. Bisection is possible because append times never
decrease along the log, and positions never decrease along a ConsumeQueue. The position that the bisection of the log
finds is the same for all queues. Each search reads some tens of entries and units. docs/STORE.md compares the speed
with a table of all append times in memory.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from store.index.consume_queue import ConsumeQueue
from store.log.commit_log import CommitLog

_WINDOW_UNITS = 128


def position_at(log: CommitLog, time_ms: int, last_index: int) -> int:
    """Return the position of the first entry up to `last_index` that was appended at `time_ms` (Unix time in
    milliseconds) or later. If there is no such entry, return the end of entry `last_index`; for an empty log return
    0."""
    indexes = range(log.first_index, last_index + 1)
    found = bisect_left(indexes, time_ms, key=lambda index: log.reading.header(index).append_time_ms)
    if found < len(indexes):
        return log.reading.position(indexes[found])
    return log.reading.header(last_index).end if indexes else 0


def offset_at(queue: ConsumeQueue, position: int) -> int:
    """Return the first offset whose entry begins at or after `position`. If there is no such entry, return the end
    offset of the queue."""
    low, high = queue.first_offset, queue.end_offset  # below `low`: before `position`; from `high` on: at or after it
    while high - low > _WINDOW_UNITS:
        middle = (low + high) // 2
        if int(queue.read(middle, 1)["position"][0]) < position:
            low = middle + 1
        else:
            high = middle
    return low + int(np.searchsorted(queue.read(low, high - low)["position"], position))
