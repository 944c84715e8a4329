"""What became of messages: sent, acknowledged, committed, delivered; and whether these agree.

    exactly once    each producer's messages are in a queue in their order, none twice, none left out
    acknowledged    is committed, at the offset that the producer was told
    delivered       is committed, at that offset; and a queue's offsets have no gaps
    not stale       a linearizable read sees all that anyone had committed when it was asked for

Committed batches are seen once each, in the order of the log, and make the truth; everything that producers and
consumers were told is compared with it, at once where it can be, otherwise at the end.

Must not know: nodes, logs, how batches look.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

Fail = Callable[[str, str], None]


class Stream(NamedTuple):
    """One producer's messages in one queue."""

    producer: int
    topic: int
    queue: int


class Span(NamedTuple):
    """A batch: so many messages from `sequence` on, at `offset`."""

    stream: Stream
    sequence: int
    messages: int
    offset: int


class Deliveries:
    def __init__(self, fail: Fail) -> None:
        # Messages.
        self.acknowledged = 0
        self.committed = 0
        self._fail = fail
        # In order of sequence, without gaps.
        self._offsets: dict[Stream, list[Span]] = {}
        # (topic, queue) -> in order of offset, without gaps.
        self._queues: dict[tuple[int, int], list[Span]] = {}
        # To be looked at once more at the end.
        self._acknowledged: list[Span] = []

    def commit(self, span: Span) -> None:
        """The next batch of the log that is committed."""
        stream, (_, topic, queue) = span.stream, span.stream
        before = self._offsets.setdefault(stream, [])
        expected = before[-1].sequence + before[-1].messages if before else 0
        if span.sequence != expected:
            what = "again" if span.sequence < expected else "too early"
            self._fail("exactly once, in order", f"sequence {span.sequence} of {stream} comes {what}, not {expected}")
        before.append(span)
        at = self._queues.setdefault((topic, queue), [])
        end = at[-1].offset + at[-1].messages if at else 0
        if span.offset != end:
            self._fail("offsets without gaps", f"queue {topic}/{queue} goes on at {span.offset}, not at {end}")
        at.append(span)
        self.committed += span.messages

    def acknowledge(self, span: Span, again: bool = False) -> None:
        """A producer was told that its batch is committed, with this offset; perhaps not for the first time."""
        if not again:
            self.acknowledged += span.messages
            self._acknowledged.append(span)
        self._check_acknowledged(span)

    def forgotten(self, stream: Stream, sequence: int) -> None:
        """A producer was told that its batch was committed long ago, and it has not heard of that before."""
        self._fail(
            "repeats are remembered", f"sequence {sequence} of {stream} was never acknowledged, and is forgotten"
        )

    def deliver(self, topic: int, queue: int, offset: int, stream: Stream, sequence: int) -> None:
        """A consumer was given this message."""
        at = self._queues.get((topic, queue), [])
        place = bisect_right(at, offset, key=lambda span: span.offset) - 1
        span = at[place] if place >= 0 else None
        if span is None or offset >= span.offset + span.messages:
            self._fail("delivered is committed", f"offset {offset} of queue {topic}/{queue} was delivered too early")
        elif (span.stream, span.sequence + offset - span.offset) != (stream, sequence):
            self._fail("delivered is committed", f"offset {offset} of queue {topic}/{queue} is {span}, not {stream}")

    def read(self, floor: int, seen: int) -> None:
        """A linearizable read, asked for when `floor` entries were committed, was answered from `seen` of them."""
        if seen < floor:
            self._fail("reads are not stale", f"a read saw {seen} entries where {floor} had been committed before it")

    def forgive(self, keep: Callable[[Span], bool]) -> int:
        """A loss that the run accepts: what is not to be kept was never committed. Returns how many acknowledged
        messages are gone."""
        for spans in [*self._offsets.values(), *self._queues.values()]:
            spans[:] = [span for span in spans if keep(span)]
        lost = [span for span in self._acknowledged if not keep(span)]
        self._acknowledged = [span for span in self._acknowledged if keep(span)]
        return sum(span.messages for span in lost)

    def ends(self, topic: int) -> dict[int, int]:
        """The offset behind the last committed message of each queue that has one."""
        return {
            queue: spans[-1].offset + spans[-1].messages
            for (of, queue), spans in self._queues.items()
            if of == topic and spans
        }

    def finish(self) -> None:
        """At the end: everything that was acknowledged is still there."""
        for span in self._acknowledged:
            self._check_acknowledged(span)

    def _check_acknowledged(self, span: Span) -> None:
        spans = self._offsets.get(span.stream, [])
        place = bisect_right(spans, span.sequence, key=lambda each: each.sequence) - 1
        found = spans[place] if place >= 0 else None
        if found != span:
            self._fail("acknowledged is committed", f"{span} was acknowledged, committed is {found}")
