"""Ranges of offsets: what one task reads, and how much of what is there one micro-batch takes.

Shares follow sizes, as Kafka's do: a queue that has ten times as much gets ten times the tasks, and ten times of what
a trigger may take. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.client.records import TopicQueue


@dataclass(frozen=True, slots=True)
class Range:
    """The messages [start, end) of a queue, and who is asked for them: `nodes` one after the other, where one fails;
    none: whoever leads the shard."""

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


def split(ranges: Sequence[Range], least: int | None) -> list[Range]:
    """The same messages in at least so many ranges, where there are as many; None: as they are."""
    total = sum(each.size for each in ranges)
    if least is None or len(ranges) >= least or total == 0:
        return list(ranges)
    return [part for each in ranges for part in cut(each, max(1, math.ceil(each.size / total * least)))]


def cut(whole: Range, parts: int) -> Iterable[Range]:
    """Up to so many ranges of about the same size, none of them empty."""
    edges = [whole.start + whole.size * part // parts for part in range(parts + 1)]
    for start, end in zip(edges, edges[1:], strict=False):  # noqa: RUF007
        if end > start:
            yield replace(whole, start=start, end=end)


def limited(starts: Mapping[TopicQueue, int], ends: Mapping[TopicQueue, int], most: int) -> dict[TopicQueue, int]:
    """How far each queue may be read, so that it is about `most` messages of all together: each queue that has any
    gives one at least, so that none starves."""
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
