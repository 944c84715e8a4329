"""Checks that the final readings are in the history: every queue, from every node. The module is pure: it does no I/O.

A message can be missing on a node only if the queue was read from the node. If the final readings of a node are not in
the history, the checker cannot see what the node lacks, so the run is void.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaos.live.checker.columns import HistoryColumns

# The largest number of queues that a sentence names.
_NAMED = 10


# By topic: for each queue, the nodes that have a replica of it.
QueueHolders = Mapping[str, Sequence[Sequence[int]]]


def is_held(holders: QueueHolders, topic: str, queue: int, node: int) -> bool:
    """Return True if the node has a replica of the queue. Of a topic that `holders` lacks, each node has all queues."""
    return topic not in holders or node in holders[topic][queue]


def too_few_holders(holders: QueueHolders, least: int) -> str:
    """Return a sentence about the queues with replicas on fewer than `least` nodes, or ""."""
    few = [(topic, queue) for topic, each in holders.items() for queue, nodes in enumerate(each) if len(nodes) < least]
    return f"fewer than {least} nodes have a replica of {queue_names(few)}" if few else ""


@dataclass(frozen=True, slots=True)
class FinalReads:
    """The final readings that a history must contain: each queue of each topic, from each of the nodes. `queues` has
    the number of queues of each topic; an empty `queues` stands for the queues that the history names. `holders` has,
    for each queue of a topic, the nodes with a replica of it; of a topic that is missing, all nodes have all queues.
    """

    nodes: tuple[int, ...]
    queues: Mapping[str, int]
    holders: QueueHolders = field(default_factory=dict)

    def is_due(self, topic: str, queue: int, node: int) -> bool:
        """Return True if this queue must have been read from the node."""
        return is_held(self.holders, topic, queue, node)

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
        names = [name for name in expected.names(columns) if expected.is_due(*name, node)]
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
