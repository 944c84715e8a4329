"""Checks the order of sends in real time: a message must have a higher offset than every offset that a client knew
before the send began.

For a log, the order of sends in real time is equivalent to linearizability, and can be checked in linear time. If any
client knows offset M of a queue when a send begins, the send must get an offset larger than M. If the outcome of a
send is unknown, the checker takes the offset of the message from later reads, if a read returned the message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chaos.live.checker.anomaly import Finding, finding, same_as_before, where
from chaos.live.checker.cells import NONE, OK, UNKNOWN, Numbers
from chaos.live.checker.columns import HistoryColumns


@dataclass(frozen=True, slots=True)
class _Placed:
    """Sends whose offset is known: the row of the send, and the offset."""

    row: Numbers
    offset: Numbers


def _placed(columns: HistoryColumns) -> _Placed:
    sends, reads = columns.sends, columns.reads
    identities, first = np.unique(reads.identity, return_index=True)
    found = np.searchsorted(identities, sends.identity)
    found[found == len(identities)] = 0
    is_read = (identities[found] == sends.identity) if len(identities) else np.zeros(len(sends.identity), np.bool_)
    read_at = reads.offset[first[found]] if len(identities) else sends.offset
    doubtful = is_read & (sends.outcome == UNKNOWN)  # a failed send is left out: its number may be reused
    offset = np.where(sends.outcome == OK, sends.offset, np.where(doubtful, read_at, NONE))
    rows = where((offset != NONE) & (sends.identity != NONE))
    return _Placed(rows, offset[rows])


def send_findings(columns: HistoryColumns) -> list[Finding]:
    placed = _placed(columns)
    return [_non_monotonic(columns, placed), _late(columns, placed)]


def _non_monotonic(columns: HistoryColumns, placed: _Placed) -> Finding:
    """Check the sends of each producer to each queue, in the order of the calls of `send`. Messages without a chosen
    queue have no promised order.
    """
    sends = columns.sends
    bound = sends.bound[placed.row]
    of, offset = placed.row[bound], placed.offset[bound]
    queue, producer, start = (column[of] for column in (sends.queue, sends.producer, sends.start))
    order = np.lexsort((offset, start, producer, queue))
    rows, offset = of[order], offset[order]
    apart = ~same_as_before(start[order])
    wrong = same_as_before(queue[order], producer[order]) & apart & (offset[1:] < offset[:-1])

    def tell(at: int) -> tuple[str, tuple[int, int]]:
        one, other = int(rows[at]), int(rows[at + 1])
        place = columns.place(int(sends.queue[one]), int(offset[at]))
        name = columns.producers[int(sends.producer[one])]
        sentence = f"{name} sent what lies at {place}, and later what lies at offset {offset[at + 1]}"
        return sentence, (int(sends.operation[one]), int(sends.operation[other]))

    return finding("non-monotonic send", where(wrong), tell)


def _late(columns: HistoryColumns, placed: _Placed) -> Finding:
    sends, reads = columns.sends, columns.reads
    known, rows = np.full(len(sends.queue), NONE, np.int64), placed.row
    offsets = np.full(len(sends.queue), NONE, np.int64)
    offsets[rows] = placed.offset
    for queue, times, highest in _knowledge(columns):
        ours = rows[sends.queue[rows] == queue]
        before = np.searchsorted(times, sends.start[ours]) - 1
        known[ours] = np.where(before >= 0, highest[before], NONE)
    wrong = rows[offsets[rows] <= known[rows]]

    def tell(row: int) -> tuple[str, tuple[int, ...]]:
        queue, offset = int(sends.queue[row]), int(known[row])
        told = [
            *sends.operation[where((sends.queue == queue) & (sends.offset == offset))][:1].tolist(),
            *reads.operation[where((reads.queue == queue) & (reads.offset == offset))][:1].tolist(),
        ]
        place = columns.place(queue, int(offsets[row]))
        return f"what lies at {place} was sent when offset {offset} was known", (*told, int(sends.operation[row]))

    return finding("real-time order", wrong, tell)


def _knowledge(columns: HistoryColumns) -> Iterator[tuple[int, Numbers, Numbers]]:
    """For each queue, yield increasing times, and the highest offset that any client knew at each time."""
    sends, reads = columns.sends, columns.reads
    acknowledged = sends.outcome == OK
    queues = np.concatenate((sends.queue[acknowledged], reads.queue))
    ends = np.concatenate((sends.end[acknowledged], reads.end))
    offsets = np.concatenate((sends.offset[acknowledged], reads.offset))
    order = np.lexsort((offsets, ends, queues))
    queues, ends, offsets = queues[order], ends[order], offsets[order]
    edges = np.flatnonzero(np.diff(queues, prepend=NONE, append=NONE - 1))
    for first, behind in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield int(queues[first]), ends[first:behind], np.maximum.accumulate(offsets[first:behind])
