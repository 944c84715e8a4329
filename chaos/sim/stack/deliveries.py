"""Checks that the sent, acknowledged, committed and delivered messages of a run agree.

    exactly once    each producer's messages are in a queue in their order, without duplicates and gaps
    acknowledged    messages are committed, at the offset that the producer received
    delivered       messages are committed, at that offset; the offsets of a queue have no gaps
    not stale       a linearizable read sees everything that was committed when the read was requested

Each committed batch is recorded once, in log order. The results that producers receive, and the messages that
consumers receive, are compared with the record of committed batches. Each comparison is made at once if possible,
otherwise at the end of the run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

Fail = Callable[[str, str], None]


class Stream(NamedTuple):
    """Identifies the messages of one producer in one queue."""

    producer: int
    topic: int
    queue: int


class MessageSpan(NamedTuple):
    """The messages of one batch: their number, the sequence of the first message and the offset of the first
    message."""

    stream: Stream
    sequence: int
    messages: int
    offset: int


class Deliveries:
    """Records and checks the messages of one run. The function `fail(invariant, what)` records a violation."""

    def __init__(self, fail: Fail) -> None:
        # Number of acknowledged messages.
        self.acknowledged = 0
        self.committed = 0
        self._fail = fail
        # Committed spans of each stream, ordered by sequence, without gaps.
        self._offsets: dict[Stream, list[MessageSpan]] = {}
        # (topic, queue) -> committed spans, ordered by offset, without gaps.
        self._queues: dict[tuple[int, int], list[MessageSpan]] = {}
        # Acknowledged spans; `finish` checks them again.
        self._acknowledged: list[MessageSpan] = []

    def commit(self, span: MessageSpan) -> None:
        """Record the next committed batch of the log."""
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
            self._fail("offsets without gaps", f"queue {topic}/{queue} continues at {span.offset} instead of {end}")
        at.append(span)
        self.committed += span.messages

    def acknowledge(self, span: MessageSpan, again: bool = False) -> None:
        """Record that a producer received an acknowledgement of its batch at this offset. `again` is True if the
        producer has received an acknowledgement of this batch before."""
        if not again:
            self.acknowledged += span.messages
            self._acknowledged.append(span)
        self._check_acknowledged(span)

    def forgotten(self, stream: Stream, sequence: int) -> None:
        """Record a violation: a producer's batch was refused as an old duplicate, although the producer has never
        received an acknowledgement of the batch."""
        self._fail(
            "repeats are remembered", f"sequence {sequence} of {stream} was forgotten before it was acknowledged"
        )

    def deliver(self, topic: int, queue: int, offset: int, stream: Stream, sequence: int) -> None:
        """Check a message that a consumer received."""
        at = self._queues.get((topic, queue), [])
        place = bisect_right(at, offset, key=lambda span: span.offset) - 1
        span = at[place] if place >= 0 else None
        if span is None or offset >= span.offset + span.messages:
            self._fail(
                "delivered is committed", f"offset {offset} of queue {topic}/{queue} was delivered, not committed"
            )
        elif (span.stream, span.sequence + offset - span.offset) != (stream, sequence):
            self._fail("delivered is committed", f"offset {offset} of queue {topic}/{queue} is {span}, not {stream}")

    def read(self, floor: int, seen: int) -> None:
        """Check that a linearizable read was not stale. The read returned a state with `seen` entries. When the
        client requested the read, `floor` entries were committed."""
        if seen < floor:
            self._fail("reads are not stale", f"a read saw {seen} entries, but {floor} were committed before it")

    def forgive(self, keep: Callable[[MessageSpan], bool]) -> int:
        """Accept a loss of messages: remove from the record all batches for which the function `keep` returns
        False. Return the number of acknowledged messages that were lost."""
        for spans in [*self._offsets.values(), *self._queues.values()]:
            spans[:] = [span for span in spans if keep(span)]
        lost = [span for span in self._acknowledged if not keep(span)]
        self._acknowledged = [span for span in self._acknowledged if keep(span)]
        return sum(span.messages for span in lost)

    def ends(self, topic: int) -> dict[int, int]:
        """Return the end offset of each queue of the topic, for queues with committed messages."""
        return {
            queue: spans[-1].offset + spans[-1].messages
            for (of, queue), spans in self._queues.items()
            if of == topic and spans
        }

    def finish(self) -> None:
        """Check at the end of the run that every acknowledged batch is still committed."""
        for span in self._acknowledged:
            self._check_acknowledged(span)

    def _check_acknowledged(self, span: MessageSpan) -> None:
        spans = self._offsets.get(span.stream, [])
        place = bisect_right(spans, span.sequence, key=lambda each: each.sequence) - 1
        found = spans[place] if place >= 0 else None
        if found != span:
            self._fail("acknowledged is committed", f"{span} was acknowledged, but {found} is committed")
