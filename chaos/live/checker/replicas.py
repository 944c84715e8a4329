"""The nodes against one another: what each of them gave when it was read to its end.

A table with a column for each place of a queue, and a row for each node: whatever is not the same in all rows is a
difference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chaos.live.checker.anomaly import Finding, finding, where
from chaos.live.checker.columns import NONE, Columns, Numbers


def divergence(columns: Columns) -> Finding:
    """Of the last reading only: every node must give every message of every queue, with the same payload, at the same
    offset. What one node has let go by retention, at the beginning of a queue, another may still have."""
    reads = columns.reads
    rows = where(reads.final & (reads.node > 0))
    nodes = np.array(sorted({node for _, node in columns.read_to_end if node > 0}), np.int64)
    of = np.searchsorted(nodes, reads.node[rows])
    width = int(reads.offset[rows].max(initial=0)) + 1
    places, at = np.unique(reads.queue[rows] * width + reads.offset[rows], return_inverse=True)
    queue, offset = places // width, places % width
    holds = np.full((len(nodes), len(places)), NONE, np.int64)
    holds[of, at] = _contents(reads.identity[rows], reads.crc[rows])
    missing = (holds == NONE) & (offset >= _beginnings(columns, nodes)[:, queue])
    most, least = holds.max(axis=0, initial=NONE), np.where(holds == NONE, np.iinfo(np.int64).max, holds)
    wrong = missing.any(axis=0) | (least.min(axis=0, initial=np.iinfo(np.int64).max) < most)

    def tell(place: int) -> tuple[str, tuple[int, ...]]:
        here = rows[at == place]
        name = columns.place(int(queue[place]), int(offset[place]))
        if missing[:, place].any():
            lack = nodes[missing[:, place]].tolist()
            sentence = f"{name} is on {_list(sorted(set(reads.node[here].tolist())))} and not on {_list(lack)}"
        else:
            sentence = f"{name} is another message, or has another payload, on different nodes"
        return sentence, tuple(reads.operation[here].tolist())

    return finding("divergence", where(wrong), tell)


def _contents(identity: Numbers, crc: Numbers) -> Numbers:
    """A number for each message and payload: equal where both are."""
    _, one = np.unique(identity, return_inverse=True)
    return one * (1 << 32) + crc


def _beginnings(columns: Columns, nodes: Numbers) -> NDArray[np.int64]:
    """For each node and queue: where the reading of it began."""
    begins = np.zeros((len(nodes), len(columns.queues)), np.int64)
    rows = {node: row for row, node in enumerate(nodes.tolist())}
    for (queue, node), offset in columns.beginnings().items():
        if node in rows:
            begins[rows[node], queue] = offset
    return begins


def _list(nodes: list[int]) -> str:
    return ("nodes " if len(nodes) > 1 else "node ") + ", ".join(map(str, nodes))
