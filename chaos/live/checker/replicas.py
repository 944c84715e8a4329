"""Compares the messages that each node returned in the final reading.

The comparison is a table with a column for each offset of a queue and a row for each node. If the rows of a column
differ, the replicas diverge at this offset.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chaos.live.checker.anomaly import Finding, finding, where
from chaos.live.checker.cells import NONE, Flags, Numbers
from chaos.live.checker.columns import HistoryColumns
from chaos.words import node_names


def divergence(columns: HistoryColumns) -> Finding:
    """Compare the final readings. Every node must return every message of every queue, with the same payload, at the
    same offset. A difference at the beginning of a queue is allowed, because retention may have removed messages from
    one node and not yet from another node.
    """
    reads = columns.reads
    rows = where(reads.final & (reads.node > 0))
    nodes = np.array(sorted({node for _, node in columns.read_to_end if node > 0}), np.int64)
    of = np.searchsorted(nodes, reads.node[rows])
    offsets, rank = np.unique(reads.offset[rows], return_inverse=True)
    width = max(len(offsets), 1)
    places, at = np.unique(reads.queue[rows] * width + rank, return_inverse=True)
    queue, offset = places // width, offsets[places % width]
    holds = np.full((len(nodes), len(places)), NONE, np.int64)
    holds[of, at] = _contents(reads.identity[rows], reads.crc[rows])
    missing = (holds == NONE) & (offset >= _beginnings(columns, nodes)[:, queue])
    missing &= _was_read(columns, nodes)[:, queue]
    most, least = holds.max(axis=0, initial=NONE), np.where(holds == NONE, np.iinfo(np.int64).max, holds)
    wrong = missing.any(axis=0) | (least.min(axis=0, initial=np.iinfo(np.int64).max) < most)

    def tell(place: int) -> tuple[str, tuple[int, ...]]:
        here = rows[at == place]
        name = columns.place(int(queue[place]), int(offset[place]))
        if missing[:, place].any():
            have, lack = sorted(set(reads.node[here].tolist())), nodes[missing[:, place]].tolist()
            sentence = f"{name} is on {node_names(have)} and not on {node_names(lack)}"
        else:
            sentence = f"the nodes have different messages, or different payloads, at {name}"
        return sentence, tuple(reads.operation[here].tolist())

    return finding("divergence", where(wrong), tell)


def _was_read(columns: HistoryColumns, nodes: Numbers) -> Flags:
    """Return, for each node and queue, whether a final reading of the queue from the node is in the history."""
    read = np.zeros((len(nodes), len(columns.queues)), np.bool_)
    rows = {node: row for row, node in enumerate(nodes.tolist())}
    for queue, node in columns.read_to_end:
        if node in rows:
            read[rows[node], queue] = True
    return read


def _contents(identity: Numbers, crc: Numbers) -> Numbers:
    """Return a number for each pair of message and payload; equal pairs have equal numbers."""
    _, one = np.unique(identity, return_inverse=True)
    return one * (1 << 32) + crc


def _beginnings(columns: HistoryColumns, nodes: Numbers) -> NDArray[np.int64]:
    """Return, for each node and queue, the offset where its final reading began."""
    begins = np.zeros((len(nodes), len(columns.queues)), np.int64)
    rows = {node: row for row, node in enumerate(nodes.tolist())}
    for (queue, node), offset in columns.beginnings().items():
        if node in rows:
            begins[rows[node], queue] = offset
    return begins
