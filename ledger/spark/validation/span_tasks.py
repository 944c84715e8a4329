"""Divides the spans of a validation among Spark's tasks, and packs what a task tells the driver about a span.

    tasks   [ 1, 2, 3, 4, ... ] [ 9, 10, ... ] [ 14, 15 ] [ 16 ] [ 17 ]       each takes a share of what is left

Spark runs tasks in their order. The first tasks are large, because each task costs time beside its reading. The last
tasks are small, so that all cores end at about the same time.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ledger.validation.judging.engine import outline_of
from ledger.validation.sources.replica import ReplicaSpan
from ledger.validation.spans.span_reader import SpanFacts

# The bytes of logs that a task reads: at most, and at least if there are as many.
_LARGEST_TASK = 2 << 30
_SMALLEST_TASK = 64 << 20
# The packed bytes of all facts that the driver takes. Unpacked they take a few times as much memory.
_DRIVER_BYTES = 64 << 20
# The packed bytes of one span's facts. The facts of a span with larger ones take so long to replay, that it is better
# done by several tasks.
_SPAN_BYTES = 8 << 10


def tasks_of(
    spans: Sequence[ReplicaSpan], cores: int, *, largest: int = _LARGEST_TASK, smallest: int = _SMALLEST_TASK
) -> list[list[ReplicaSpan]]:
    """Return the spans of each task, in the order in which the tasks are to run.

    A task takes its share of half of the bytes that are left, between `smallest` and `largest` bytes.
    """
    tasks: list[list[ReplicaSpan]] = []
    left = sum(span.end - span.begin for span in spans)
    room = 0
    for span in spans:
        if room <= 0:
            tasks.append([])
            room = max(smallest, min(largest, left // (2 * cores)))
        tasks[-1].append(span)
        room -= span.end - span.begin
        left -= span.end - span.begin
    return tasks


@dataclass(frozen=True, slots=True)
class PackedFacts:
    """The facts of one span as bytes, which tasks keep and send."""

    # Of the span.
    number: int
    # All facts; empty for the driver, if they are large.
    data: bytes
    # The outline of large facts; empty if the facts are small.
    outline: bytes

    @staticmethod
    def of(facts: SpanFacts, limit: int) -> PackedFacts:
        """Pack facts. They are small up to `limit` bytes."""
        data = pickle.dumps(facts, pickle.HIGHEST_PROTOCOL)
        outline = b"" if len(data) <= limit else pickle.dumps(outline_of(facts), pickle.HIGHEST_PROTOCOL)
        return PackedFacts(facts.span.number, data, outline)

    def for_driver(self) -> PackedFacts:
        """Return what the driver gets: small facts, and of large facts only the outline."""
        return replace(self, data=b"") if self.outline else self

    def facts(self) -> SpanFacts:
        """Return the facts, or their outline where only that is here."""
        facts: SpanFacts = pickle.loads(self.data or self.outline)
        return facts


def packed_limit(spans: int) -> int:
    """Return the largest size in bytes of packed facts that a task sends whole, if there are so many spans."""
    return min(_SPAN_BYTES, _DRIVER_BYTES // max(1, spans))
