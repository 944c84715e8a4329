"""The sequence of one producer in one queue, by which the leader recognises repeated and missing batches.

A producer numbers the messages that it sends to a queue from 0. For each batch there are three cases: the batch
continues the sequence, repeats earlier numbers of the sequence, or leaves a gap. The sequence remembers the results of
the last few batches. If the producer sends one of the remembered batches again, the batch receives the remembered
result. With a new epoch, the producer's sequence numbers start again at 0, and the earlier epochs are fenced.

    epoch of the batch               first sequence of the batch         decision
    older than the known epoch       any                                 Fenced
    equal to the known epoch         = next sequence                     Accept
                                     > next sequence                     SequenceGap
                                     < next, a remembered batch          Duplicate
                                     < next, otherwise                   Forgotten
    newer, or producer unknown       = 0                                 Accept
                                     > 0                                 SequenceGap
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ledger.errors import DuplicateForgottenError, ProducerFencedError, SequenceGapError

# More than a client keeps in flight for one queue (5), so every batch that a client repeats is still remembered.
REMEMBERED_BATCHES = 8


@dataclass(slots=True)
class BatchRecord:
    """The record of a batch whose offsets in the queue are decided.

    On the leader, `append_time_ms`, `index` and `term` are 0 until the entry is appended and `Projected.appended`
    sets them. The record of an applied batch never changes."""

    first_sequence: int
    count: int
    base_offset: int
    append_time_ms: int = 0
    index: int = 0
    term: int = 0


@dataclass(frozen=True, slots=True)
class Accept:
    """The decision that the batch continues the sequence."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The decision that the batch repeats an earlier batch, which `record` describes. The producer receives the
    earlier batch's result when the entry at `record.index` is committed."""

    record: BatchRecord


@dataclass(frozen=True, slots=True)
class SequenceGap:
    """The decision that batches before this batch are missing. `expected` is the next sequence number of the
    producer, 0 if the producer is unknown."""

    expected: int
    first_sequence: int

    def error(self) -> SequenceGapError:
        """Return the error that the broker sends to the producer."""
        return SequenceGapError(
            f"A batch has sequence {self.first_sequence}, but the next sequence of its producer is {self.expected}: "
            "send the batches between first, in order."
        )


@dataclass(frozen=True, slots=True)
class Fenced:
    """The decision that the batch belongs to an epoch that has ended."""

    epoch: int
    current_epoch: int

    def error(self) -> ProducerFencedError:
        """Return the error that the broker sends to the producer."""
        return ProducerFencedError(
            f"A batch has epoch {self.epoch}, but its producer has begun epoch {self.current_epoch}: "
            f"another producer uses the "
            "same id; create a new producer."
        )


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The decision that the batch repeats old sequence numbers, and its result is no longer remembered."""

    first_sequence: int
    next_sequence: int

    def error(self) -> DuplicateForgottenError:
        """Return the error that the broker sends to the producer."""
        return DuplicateForgottenError(
            f"A batch with sequence {self.first_sequence} repeats a batch that was committed long "
            f"ago (the next sequence is "
            f"{self.next_sequence}): its messages are in the queue, but their offsets are no longer remembered.",
            next_sequence=self.next_sequence,
        )


Decision = Accept | Duplicate | SequenceGap | Fenced | Forgotten

ACCEPT = Accept()


@dataclass(slots=True)
class Sequence:
    """The sequence numbers and last results of a known producer in one queue."""

    epoch: int
    # first_sequence + count of the last batch of this epoch; 0 before the first batch.
    next_sequence: int = 0
    # Append time of the last batch; never decreases.
    last_append_time_ms: int = 0
    # The last batches of this epoch, oldest first. Their sequences follow each other without gaps.
    records: list[BatchRecord] = field(default_factory=list)

    def check(self, epoch: int, first_sequence: int, count: int) -> Decision:
        """Decide whether a batch continues this sequence, repeats earlier sequence numbers, or leaves a gap.
        Changes nothing."""
        if epoch < self.epoch:
            return Fenced(epoch, self.epoch)
        if epoch > self.epoch:
            return check_first(first_sequence)
        if first_sequence == self.next_sequence:
            return ACCEPT
        if first_sequence > self.next_sequence:
            return SequenceGap(self.next_sequence, first_sequence)
        for record in self.records:
            if record.first_sequence == first_sequence and record.count == count:
                return Duplicate(record)
        return Forgotten(first_sequence, self.next_sequence)

    def add(self, epoch: int, record: BatchRecord) -> None:
        """Advance the sequence by an accepted batch, and remember its result."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.records.clear()
        self.next_sequence = record.first_sequence + record.count
        self.last_append_time_ms = record.append_time_ms
        self.records.append(record)
        if len(self.records) > REMEMBERED_BATCHES:
            del self.records[0]

    def copy(self) -> Sequence:
        """Return a copy of this sequence. If a batch is added to the copy, this sequence does not change. The copy
        and this sequence share their `BatchRecord` objects."""
        return Sequence(self.epoch, self.next_sequence, self.last_append_time_ms, self.records.copy())


def check_first(first_sequence: int) -> Decision:
    """Decide about a batch of an unknown producer, or about the first batch of a new epoch."""
    return ACCEPT if first_sequence == 0 else SequenceGap(0, first_sequence)
