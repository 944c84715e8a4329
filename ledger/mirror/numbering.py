"""The numbers of copied batches, by which a mirror and the target find out what was copied.

A mirror is a producer with a number for each message. Its numbers name the offset of the message at the source, so the
batches in the target say how far the mirror came, and nothing else has to be stored:

    producer id   identity of the source queue, 48 bits | first offset of the run, its upper 16 bits
    epoch         first offset of the run, its lower 32 bits
    sequence      offset at the source - first offset of the run

A *run* is a part of a source queue that was copied without a gap. In a run, the target accepts each message once and
in order, as from any producer. A mirror begins a new run only where the numbers cannot go on: at its start, behind
messages that the source no longer has, and if the target has forgotten the producer. A later run has a larger epoch, so
it fences the earlier ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import xxhash

from ledger.errors import InvalidArgumentError

MAX_OFFSET = (1 << 48) - 1
_IDENTITY_BITS = 48
_LOW_BITS = 32


class NumberedBatch(Protocol):
    """An interface: the fields of a batch header that the numbering reads."""

    @property
    def producer_id(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def first_sequence(self) -> int: ...
    @property
    def count(self) -> int: ...


class CopyNumber(NamedTuple):
    """The numbers of a copied batch."""

    producer_id: int
    epoch: int
    first_sequence: int


class CopiedRange(NamedTuple):
    """The offsets at the source of a copied batch: from `first` to before `end`. `run` is the first offset of its
    run."""

    run: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class CopyNumbering:
    """The numbering of the copies of one source queue."""

    # 48 bits, not 0.
    identity: int

    @classmethod
    def of(cls, mirror: str, cluster: str, topic_id: int, created_ms: int, queue: int) -> CopyNumbering:
        """Return the numbering of a mirror with this name for a queue of a source cluster. A topic that was deleted and
        created again is another source."""
        text = f"{mirror}\0{cluster}\0{topic_id}\0{created_ms}\0{queue}"
        return cls(xxhash.xxh3_64_intdigest(text.encode()) >> (64 - _IDENTITY_BITS) or 1)

    def number(self, run: int, offset: int) -> CopyNumber:
        """Return the numbers of a batch whose first message has this offset at the source, in the run that begins at
        the offset `run`. Raises InvalidArgumentError."""
        if not 0 <= run <= offset or run > MAX_OFFSET:
            raise InvalidArgumentError(f"A mirror cannot begin a run at {run} for offset {offset}.")
        return CopyNumber(
            self.identity << (64 - _IDENTITY_BITS) | run >> _LOW_BITS, run & ((1 << _LOW_BITS) - 1), offset - run
        )

    def copied(self, batch: NumberedBatch) -> CopiedRange | None:
        """Return the offsets at the source of a batch of the target, or None if this numbering did not make it."""
        if batch.producer_id >> (64 - _IDENTITY_BITS) != self.identity:
            return None
        run = (batch.producer_id & ((1 << 64 - _IDENTITY_BITS) - 1)) << _LOW_BITS | batch.epoch
        first = run + batch.first_sequence
        return CopiedRange(run, first, first + batch.count)
