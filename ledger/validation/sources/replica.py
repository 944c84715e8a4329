"""What is to be validated: replicas of logs, and the spans of bytes that they are read in.

    segment  | entry | entry | en|try | entry | entr|y | entry | blank         |
    spans    [ 0               ) [ 1                ) [ 2                       )

An entry belongs to the span in which it begins, wherever it ends; so spans can be cut at any multiple of 8, without
reading, and be read in any order and anywhere. All of this is plain values, to be sent to whoever reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from store import CleanMark, LogTail

SPAN_BYTES = 8 << 20
"""Larger ones would get new memory from the operating system for each, which costs more than to read them."""


@dataclass(frozen=True, slots=True)
class Segment:
    path: str
    """A file, or a URL."""
    base: int
    """Position of its first byte."""
    length: int
    """How much of it counts: all of the file, or up to where it ended when the validation began."""
    unwritten: int = 0
    """How many bytes at its end were never written, as far as is known: blank, and not worth reading."""

    @property
    def end(self) -> int:
        """Position behind the last byte that is to be read."""
        return self.base + self.length - self.unwritten


@dataclass(frozen=True, slots=True)
class LogReplica:
    """One shard's log at one source, as it was when the validation began."""

    number: int
    """Among all replicas of the validation."""
    source: str
    shard: int
    node: int | None
    cluster: str
    segments: tuple[Segment, ...]
    segment_bytes: int
    largest_entry: int
    start: LogTail | None
    """What the first entry follows; None where that is not known."""
    base: str | None = None
    """File or URL of the base where the log begins; None: at entry 1."""
    kept: tuple[tuple[int, str], ...] = ()
    """(index, file) of the bases that are kept for later."""
    checkpoint: str | None = None
    checkpoint_index: int = 0
    """Of the checkpoint's entry: it vouches for the positions up to there. 0: there is none that can be read."""
    directory: str | None = None
    """The shard's directory with its small files; None where they cannot be looked at."""
    indexes: str | None = None
    """The directory with its ConsumeQueues and key index; None where they cannot be looked at."""
    clean: CleanMark | None = None
    is_running: bool = False
    """It may be written to while it is read."""
    told_commit: int = 0
    """The largest commit that the node itself, or its last entries, told."""
    settled: int = 0
    """Of a running replica: nothing before that position changes any more but by retention."""
    last_index: int = 0
    """Of the last entry that was found when the validation began."""

    @property
    def begin(self) -> int:
        """Position where the log begins, as far as that is known."""
        if self.start is not None:
            return self.start.end
        return self.segments[0].base if self.segments else 0

    @property
    def total_bytes(self) -> int:
        """Unwritten space too."""
        return sum(segment.length for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes [begin, end) of the log, all in one segment."""

    number: int
    replica: int
    segment: int
    """Which of the replica's."""
    begin: int
    end: int
    is_exact: bool
    """An entry (or the blank) begins at `begin`; else the first one is to be searched for."""


def spans_of(replica: LogReplica, first_number: int = 0, span_bytes: int = SPAN_BYTES) -> Iterator[Span]:
    """All of a replica's, in the order of their positions."""
    number = first_number
    for which, segment in enumerate(replica.segments):
        end = segment.end
        begin = max(segment.base, min(replica.begin, end))
        # A segment that is not here from its beginning on, of a log whose start is not known.
        exact = True
        while begin < end:
            upto = min(end, begin + span_bytes)
            yield Span(number, replica.number, which, begin, upto, exact)
            number, begin, exact = number + 1, upto, False
