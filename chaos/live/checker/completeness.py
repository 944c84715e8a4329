"""Checks that the final readings are in the history: every queue, from every node. The module is pure: it does no I/O.

A message can be missing on a node only if the queue was read from the node. If the final readings of a node are not in
the history, the checker cannot see what the node lacks, so the run is void.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.live.checker.columns import HistoryColumns

# The largest number of queues that a sentence names.
_NAMED = 10


@dataclass(frozen=True, slots=True)
class FinalReads:
    """The final readings that a history must contain: each queue of each topic, from each of the nodes. `queues` has
    the number of queues of each topic; an empty `queues` stands for the queues that the history names.
    """

    nodes: tuple[int, ...]
    queues: Mapping[str, int]

    def names(self, columns: HistoryColumns) -> list[tuple[str, int]]:
        """Return topic and number of each queue that must have been read."""
        if not self.queues:
            return list(columns.queues)
        return [(topic, queue) for topic, count in self.queues.items() for queue in range(count)]


def absent_reads(columns: HistoryColumns, expected: FinalReads) -> list[str]:
    """Return one sentence for each node from which a queue was not read at the end."""
    there = {(columns.queues[queue], node) for queue, node in columns.read_to_end}
    sentences = []
    for node in expected.nodes:
        names = expected.names(columns)
        absent = [name for name in names if (name, node) not in there]
        if absent and len(absent) == len(names):
            sentences.append(f"the final readings of node {node} are missing")
        elif absent:
            sentences.append(f"the final readings of node {node} are missing for {queue_names(absent)}")
    return sentences


def queue_names(queues: list[tuple[str, int]]) -> str:
    """Return the first of the names, as topic:queue, and the number of the other names."""
    names = ", ".join(f"{topic}:{queue}" for topic, queue in queues[:_NAMED])
    more = len(queues) - _NAMED
    return f"{names} and {more} more" if more > 0 else names
