"""One producer's sequence in one queue: what may come next, and what has been before.

A producer numbers the messages that it sends to a queue from 0; so a batch either continues the sequence,
repeats a part of it, or comes too early. The last few batches are remembered with their results, and a repeat of one
of them is answered with these. A new epoch starts again at 0 and shuts the older ones out.

    epoch of the batch       its first sequence                  decision
    below ours               any                                 Fenced
    ours                     = next sequence                     Accept
                             > next sequence                     Gap
                             < next, a remembered batch          Duplicate
                             < next, otherwise                   Forgotten
    above ours, or unknown   = 0                                 Accept
                             > 0                                 Gap
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ledger.errors import DuplicateForgottenError, ProducerFencedError, SequenceGapError

# At least as many as a client keeps in flight for one queue (5), so that whatever it repeats is still known.
REMEMBERED_BATCHES = 8


@dataclass(slots=True)
class BatchRecord:
    """A batch that has its place in a queue.

    On the leader the last three are 0 until the entry has been appended (`Projected.appended` sets them); once applied,
    nothing changes any more.
    """

    first_sequence: int
    count: int
    base_offset: int
    append_time_ms: int = 0
    index: int = 0
    term: int = 0


@dataclass(frozen=True, slots=True)
class Accept:
    """The batch continues the sequence."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch repeats this one, whose result is its result, once the entry at `record.index` is committed."""

    record: BatchRecord


@dataclass(frozen=True, slots=True)
class Gap:
    """Batches before this one are missing: `expected` is the sequence that may come (0 for an unknown producer)."""

    expected: int
    first_sequence: int

    def error(self) -> SequenceGapError:
        """As the producer is told."""
        return SequenceGapError(
            f"A batch with sequence {self.first_sequence} came where {self.expected} must be next: "
            "send what lies between first, in order."
        )


@dataclass(frozen=True, slots=True)
class Fenced:
    """The batch belongs to an epoch that has ended."""

    epoch: int
    current_epoch: int

    def error(self) -> ProducerFencedError:
        """As the producer is told."""
        return ProducerFencedError(
            f"A batch of epoch {self.epoch} came after epoch {self.current_epoch} of the same producer had begun: "
            "another producer took over its id; start anew with a new one."
        )


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The batch repeats sequences that were used, but is none of the remembered batches."""

    first_sequence: int
    next_sequence: int

    def error(self) -> DuplicateForgottenError:
        """As the producer is told."""
        return DuplicateForgottenError(
            f"A batch with sequence {self.first_sequence} repeats what was committed long ago ({self.next_sequence} is "
            "next): its messages are in the queue, but their offsets are no longer remembered.",
            next_sequence=self.next_sequence,
        )


Decision = Accept | Duplicate | Gap | Fenced | Forgotten

ACCEPT = Accept()


@dataclass(slots=True)
class Sequence:
    """Where a known producer stands in one queue."""

    epoch: int
    # = first_sequence + count of the last batch of this epoch; 0 before the first
    next_sequence: int = 0
    # append time of the last batch; never falls
    last_append_time_ms: int = 0
    # of this epoch, oldest first, each one's sequences directly behind those of the one before
    records: list[BatchRecord] = field(default_factory=list)

    def check(self, epoch: int, first_sequence: int, count: int) -> Decision:
        """What is to be done with a batch; changes nothing."""
        if epoch < self.epoch:
            return Fenced(epoch, self.epoch)
        if epoch > self.epoch:
            return check_first(first_sequence)
        if first_sequence == self.next_sequence:
            return ACCEPT
        if first_sequence > self.next_sequence:
            return Gap(self.next_sequence, first_sequence)
        for record in self.records:
            if record.first_sequence == first_sequence and record.count == count:
                return Duplicate(record)
        return Forgotten(first_sequence, self.next_sequence)

    def add(self, epoch: int, record: BatchRecord) -> None:
        """Take a batch that was accepted."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.records.clear()
        self.next_sequence = record.first_sequence + record.count
        self.last_append_time_ms = record.append_time_ms
        self.records.append(record)
        if len(self.records) > REMEMBERED_BATCHES:
            del self.records[0]

    def copy(self) -> Sequence:
        """One that can go on by itself. The records stay shared."""
        return Sequence(self.epoch, self.next_sequence, self.last_append_time_ms, self.records.copy())


def check_first(first_sequence: int) -> Decision:
    """What is to be done with the first batch of a producer or epoch."""
    return ACCEPT if first_sequence == 0 else Gap(0, first_sequence)
