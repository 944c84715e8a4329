"""Ranges of offsets: cuts them for tasks, and limits the messages of a micro-batch. No I/O.

The limit is divided among the queues in proportion to their numbers of messages, as in Kafka's source. A queue with
ten times as many messages gets ten times as many tasks, and ten times as much of a limited micro-batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.client.records import TopicQueue


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The messages [start, end) of a queue.

    `nodes` has the nodes to ask, in this order: if one node fails, the next node is asked. If `nodes` is empty, the
    leader of the shard is asked.
    """

    topic: str
    topic_id: int
    queue: int
    shard: int
    start: int
    end: int
    nodes: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return self.end - self.start


def split(ranges: Sequence[OffsetRange], least: int | None) -> list[OffsetRange]:
    """Return the same messages in at least `least` ranges, if there are enough messages. If `least` is None, return
    the ranges unchanged."""
    total = sum(each.size for each in ranges)
    if least is None or len(ranges) >= least or total == 0:
        return list(ranges)
    return [part for each in ranges for part in cut(each, max(1, math.ceil(each.size / total * least)))]


def cut(whole: OffsetRange, parts: int) -> Iterable[OffsetRange]:
    """Yield up to `parts` ranges of about equal size. No range is empty."""
    edges = [whole.start + whole.size * part // parts for part in range(parts + 1)]
    for start, end in zip(edges, edges[1:], strict=False):  # noqa: RUF007
        if end > start:
            yield replace(whole, start=start, end=end)


def limited(starts: Mapping[TopicQueue, int], ends: Mapping[TopicQueue, int], most: int) -> dict[TopicQueue, int]:
    """Return, for each queue, the offset at which reading ends, so that about `most` messages are read in total.

    At least one message is read of each queue that has messages, so that no queue starves.
    """
    sizes = {place: max(0, end - starts[place]) for place, end in ends.items()}
    total = sum(sizes.values())
    if total <= most:
        return dict(ends)
    limits = {}
    for place, size in sizes.items():
        share = most * size / total
        limits[place] = (
            starts[place] + min(size, math.ceil(share) if share < 1 else math.floor(share)) if size else ends[place]
        )
    return limits
