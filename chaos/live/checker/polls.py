"""Checks the order in which consumers received messages.

The offsets of a queue have no gaps, so a consumer must read the offsets of a queue one directly after the other, until
the consumer seeks. In the history, a seek is recorded as an operation `assign`.
"""

from __future__ import annotations

import numpy as np

from chaos.live.checker.anomaly import Finding, finding, same_as_before, where
from chaos.live.checker.cells import Numbers
from chaos.live.checker.columns import HistoryColumns


def poll_findings(columns: HistoryColumns) -> list[Finding]:
    reads = columns.reads
    order = np.lexsort((reads.operation, reads.queue, reads.process))  # stable: messages of one poll keep their order
    operation, offset = reads.operation[order], reads.offset[order]
    stretch = _assigns_before(columns)[order]
    goes_on = same_as_before(reads.process[order], reads.queue[order])
    inside = goes_on & same_as_before(operation)
    between = goes_on & ~same_as_before(operation) & same_as_before(stretch)
    step = offset[1:] - offset[:-1]

    def tell(row: int) -> tuple[str, tuple[int, int]]:
        read = int(order[row])
        place = columns.place(int(reads.queue[read]), int(offset[row]))
        sentence = f"process {reads.process[read]} was given {place}, and then offset {offset[row + 1]}"
        return sentence, (int(operation[row]), int(operation[row + 1]))

    return [
        finding("internal poll skip", where(inside & (step > 1)), tell),
        finding("internal non-monotonic poll", where(inside & (step < 1)), tell),
        finding("external poll skip", where(between & (step > 1)), tell),
        finding("external non-monotonic poll", where(between & (step < 1)), tell),
    ]


def _assigns_before(columns: HistoryColumns) -> Numbers:
    """Return, for each message that was read, how many times its consumer had sought in that queue before."""
    reads, numbers = columns.reads, {queue: number for number, queue in enumerate(columns.queues)}
    times: dict[tuple[int, int], list[int]] = {}
    for operation, assign in columns.assigns:
        times.setdefault((assign.process, numbers[assign.topic, assign.queue]), []).append(operation)
    before = np.zeros(len(reads.operation), np.int64)
    for (process, queue), operations in times.items():
        rows = (reads.process == process) & (reads.queue == queue)
        before[rows] = np.searchsorted(np.array(operations), reads.operation[rows])
    return before
