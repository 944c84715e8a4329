"""Tells about how many bytes of the log the messages of a queue take.

A ConsumeQueue knows the entry of each message, and not the sum of their sizes. A short queue is summed up. Of a long
queue, `WINDOWS` parts that are spread evenly over the queue are measured, so the work is the same for every length.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledger.errors import StorageFailedError
from store import UNREADABLE, CommitLog, ConsumeQueue
from store.index.consume_queue import Units

WINDOWS = 16
WINDOW_MESSAGES = 32


def about_bytes(commit_log: CommitLog, units: ConsumeQueue, first: int, end: int) -> int:
    """Return about how many bytes the messages with the offsets first..end - 1 take in the log, with the headers of
    their batches. Raises StorageFailedError if an entry is damaged, and StoreError."""
    count = end - first
    if count <= 0:
        return 0
    if count <= WINDOWS * WINDOW_MESSAGES:
        return round(_sum(commit_log, units, first, count))
    starts = np.linspace(first, end - WINDOW_MESSAGES, WINDOWS).astype(np.int64)
    measured = sum(_sum(commit_log, units, int(start), WINDOW_MESSAGES) for start in starts)
    return round(measured / (WINDOWS * WINDOW_MESSAGES) * count)


def _sum(commit_log: CommitLog, units: ConsumeQueue, offset: int, count: int) -> float:
    """Return the bytes of some messages. A batch of many messages counts in part if only some are meant."""
    return float(np.sum(shares(commit_log, units.read(offset, count))))


def shares(commit_log: CommitLog, units: Units) -> NDArray[np.float64]:
    """Return for each of these units about how many bytes its message takes. Raises StorageFailedError if an entry is
    damaged, and StoreError."""
    positions, sources = np.unique(units["position"], return_inverse=True)
    try:
        headers = [commit_log.reading.header_at(int(position)) for position in positions.tolist()]
    except UNREADABLE as damage:
        raise StorageFailedError(f"this node cannot read its log for the sizes of messages: {damage}") from damage
    counts = np.array([max(1, header.count) for header in headers])
    return np.asarray(units["size"] / counts[sources], np.float64)
