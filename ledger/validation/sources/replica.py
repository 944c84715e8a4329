"""Describes replicas, their segments, and the spans of bytes in which replicas are read. Replicas, segments and spans
are plain values.

    segment  | entry | entry | en|try | entry | entr|y | entry | blank         |
    spans    [ 0               ) [ 1                ) [ 2                       )

An entry belongs to the span in which it begins, so spans can be planned without reading the log, and can be read in
any order and on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from store import CleanMark, LogTail

# Larger ones would get new memory from the operating system for each, which costs more than to read them.
SPAN_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    # A file, or a URL.
    path: str
    # Position of its first byte.
    base: int
    # How much of it counts: all of the file, or up to where it ended when the validation began.
    length: int
    # How many bytes at its end were never written, as far as is known: blank, and not worth reading.
    unwritten: int = 0

    @property
    def end(self) -> int:
        """The position after the last byte that is read."""
        return self.base + self.length - self.unwritten


@dataclass(frozen=True, slots=True)
class LogReplica:
    """The log of one shard at one source, as it was at the start of the validation."""

    # Among all replicas of the validation.
    number: int
    source: str
    shard: int
    node: int | None
    cluster: str
    segments: tuple[Segment, ...]
    segment_bytes: int
    largest_entry: int
    # What the first entry follows; None where that is not known.
    start: LogTail | None
    # File or URL of the base where the log begins; None: at entry 1.
    base: str | None = None
    # (index, file) of the bases that are kept for later.
    kept: tuple[tuple[int, str], ...] = ()
    checkpoint: str | None = None
    # Of the checkpoint's entry: it vouches for the positions up to there. 0: there is none that can be read.
    checkpoint_index: int = 0
    # The shard's directory with its small files; None where they cannot be looked at.
    directory: str | None = None
    # The directory with its ConsumeQueues and key index; None where they cannot be looked at.
    indexes: str | None = None
    clean: CleanMark | None = None
    # It may be written to while it is read.
    is_running: bool = False
    # The largest commit that the node itself, or its last entries, told.
    told_commit: int = 0
    # Of a running replica: nothing before that position changes any more but by retention.
    settled: int = 0
    # Of the last entry that was found when the validation began.
    last_index: int = 0

    @property
    def begin(self) -> int:
        """The position at which the log begins, if it is known."""
        if self.start is not None:
            return self.start.end
        return self.segments[0].base if self.segments else 0

    @property
    def total_bytes(self) -> int:
        """The number of bytes of all segments, including unwritten space."""
        return sum(segment.length for segment in self.segments)


@dataclass(frozen=True, slots=True)
class ReplicaSpan:
    """Bytes [begin, end) of the log, all in one segment."""

    number: int
    replica: int
    # Which of the replica's.
    segment: int
    begin: int
    end: int
    # An entry (or the blank) begins at `begin`; else the first one is to be searched for.
    is_exact: bool


def spans_of(replica: LogReplica, first_number: int = 0, span_bytes: int = SPAN_BYTES) -> Iterator[ReplicaSpan]:
    """Return all spans of a replica, in the order of their positions."""
    number = first_number
    for which, segment in enumerate(replica.segments):
        end = segment.end
        begin = max(segment.base, min(replica.begin, end))
        # A segment that is not here from its beginning on, of a log whose start is not known.
        exact = True
        while begin < end:
            upto = min(end, begin + span_bytes)
            yield ReplicaSpan(number, replica.number, which, begin, upto, exact)
            number, begin, exact = number + 1, upto, False
