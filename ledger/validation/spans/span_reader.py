"""Reads one span of a log, and finds everything that its bytes alone can show.

    bytes ─> runs of whole entries and gaps ─> of each run: does it hold together?  sums of windows, steps for the
             (entries.py, pieces.py)           (run_check, batches, continuity)     replay, units, keys

Reading the spans is almost all the work of a validation. A span is read without other spans, so spans can be read in
any order, by one process or by many machines. Joining the spans is little work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ledger.validation.judging.bound import MAX_TOLD, Bound
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.judging.windows import WindowSum, window_sums
from ledger.validation.replay.replay import PlacedMisfit, placed
from ledger.validation.sources.access import Access
from ledger.validation.sources.errors import SegmentGoneError, SourceError
from ledger.validation.sources.replica import LogReplica, ReplicaSpan, Segment
from ledger.validation.spans.batches import Facts, batches_of
from ledger.validation.spans.block import SpanBlock, written_in
from ledger.validation.spans.continuity import Continuity, continuity_of
from ledger.validation.spans.entries import Entries, entries_from
from ledger.validation.spans.key_entries import KeyEntryCheck, WrongKeys
from ledger.validation.spans.pieces import Break, EntryGap, GapKind, Piece
from ledger.validation.spans.position_check import PositionCheck, WrongPositions
from ledger.validation.spans.run_check import check_run
from ledger.validation.spans.span_steps import SpanSteps
from ledger.validation.spans.steps import steps_of
from ledger.validation.spans.unit_check import AbsentUnits, UnitCheck, WrongUnits, first_of_each
from store.log import entry
from store.log.entry import ALIGNMENT, WORD, EntryFlawError, UnknownEntryError
from store.log.grid import Grid


@dataclass(slots=True)
class SpanFacts:
    """What a reader found out about one span, and the faults in the span."""

    span: ReplicaSpan
    pieces: list[Piece] = field(default_factory=list)
    # The first and the last byte that is not zero before the first entry, if that entry was searched for.
    lead: tuple[int, int] | None = None
    breaks: list[Break] = field(default_factory=list)
    misfits: list[PlacedMisfit] = field(default_factory=list)
    windows: list[WindowSum] = field(default_factory=list)
    steps: SpanSteps = field(default_factory=SpanSteps)
    wrong_positions: list[WrongPositions] = field(default_factory=list)
    wrong_units: list[WrongUnits] = field(default_factory=list)
    absent_units: list[AbsentUnits] = field(default_factory=list)
    wrong_keys: list[WrongKeys] = field(default_factory=list)
    absent_keys: list[WrongKeys] = field(default_factory=list)
    # Of `breaks`, `misfits`, `wrong_positions`, `wrong_units` and `wrong_keys`.
    bound: Bound = field(default_factory=Bound)
    # Each term with the index at which it begins.
    terms: list[tuple[int, int]] = field(default_factory=list)
    first_index: int = 0
    last_index: int = 0
    entries: int = 0
    messages: int = 0
    units: int = 0
    keys: int = 0
    bytes: int = 0
    # Retention has removed the segment meanwhile.
    is_gone: bool = False
    # Why the span could not be read; empty if it was read.
    unread: str = ""

    @property
    def findings(self) -> int:
        """The number of faults that were found in this span without looking at other spans."""
        gaps = [piece for piece in self.pieces if isinstance(piece, EntryGap) and piece.kind is not GapKind.BLANK]
        beside = len(self.wrong_positions) + len(self.wrong_units) + len(self.wrong_keys)
        inside = len(self.breaks) + len(self.misfits) + beside
        return inside + len(gaps) + self.bound.left_out().total()


def read_span(replica: LogReplica, span: ReplicaSpan, access: Access, cuts: Sequence[int]) -> SpanFacts:
    """Read a span and return its facts. If the span could not be read, the result says why.

    `cuts` are the indexes at which the replay keeps the state, in ascending order.
    """
    facts = SpanFacts(span, bytes=span.end - span.begin)
    try:
        segment = replica.segments[span.segment]
        block = SpanBlock.read(access, segment, span.begin, span.end, replica.largest_entry)
        if block.end < span.end and not (replica.is_running and block.end >= replica.settled):
            raise SourceError(
                f"{segment.path} ends at {block.end - segment.base}, and had {segment.length} bytes before"
            )
        _SpanReader(replica, block, facts, cuts).read()
    except SegmentGoneError as error:
        facts.is_gone, facts.unread = True, str(error)
    except SourceError as error:
        facts.unread = str(error)
    except OSError as error:  # of the files beside the log
        facts.unread = f"{error.filename} cannot be read: {error.strerror}"
    return facts


def runs_in(block: SpanBlock, position: int | None) -> Iterator[Entries | EntryGap]:
    """Yield the pieces of a block from `position` on. If `position` is None, begin at the first entry that is
    found."""
    if position is None:
        found = block.next_whole(block.begin)
        if found is None:
            return
        position = found.position
    while position < block.end:
        entries, position = entries_from(block, position)
        if len(entries):
            yield entries
        if position >= block.end or position + WORD > block.segment.base + block.segment.length:
            return
        gap, following = look(block, position)
        yield gap
        if following is None:
            return
        position = following


def look(block: SpanBlock, position: int) -> tuple[EntryGap, int | None]:
    """No whole entry begins at `position`. Return the gap that begins at `position`, and the position of the next
    entry in this block."""
    at = position - block.begin
    if entry.is_blank(block.view, at):
        junk = block.blank_from(position)
        following = block.next_whole(position + ALIGNMENT) if junk is not None else None
        gap = EntryGap(GapKind.BLANK, position, "a blank word", junk[0] if junk is not None else None)
        return gap, following.position if following is not None else None
    following = block.next_whole(position + ALIGNMENT)
    kind, reason = GapKind.DAMAGE, "no whole entry lies here"
    try:
        block.whole(position)
    except EntryFlawError as error:
        reason = str(error)
        sealed = entry.is_sealed(block.view, block.cells, at)
        if isinstance(error, UnknownEntryError) and (following is None or sealed):
            kind = GapKind.UNKNOWN
    return EntryGap(kind, position, reason), following.position if following is not None else None


def look_at(access: Access, segment: Segment, position: int, end: int, largest: int) -> EntryGap:
    """Return the gap in [position, end) like `look`, for a position at which no span begins."""
    return look(SpanBlock.read(access, segment, position, end, largest), position)[0]


class _SpanReader:
    def __init__(self, replica: LogReplica, block: SpanBlock, facts: SpanFacts, cuts: Sequence[int]) -> None:
        self._replica = replica
        self._block = block
        self._facts = facts
        self._cuts = cuts
        self._grid = Grid(replica.segment_bytes)
        self._units = UnitCheck(replica.indexes) if replica.indexes is not None else None
        self._keys = KeyEntryCheck(replica.indexes) if replica.indexes is not None else None
        self._positions = PositionCheck(replica)

    def read(self) -> None:
        facts, span = self._facts, self._facts.span
        for piece in runs_in(self._block, span.begin if span.is_exact else None):
            if isinstance(piece, EntryGap):
                facts.pieces.append(piece)
            else:
                self._take(piece)
        if not span.is_exact:
            self._describe_lead()
        self._close()

    def _describe_lead(self) -> None:
        """Describe the bytes before the first entry of the span. These bytes are the rest of an entry of the
        previous span, blank space, or damage. Only the previous span shows which of these they are."""
        first = self._facts.pieces[0] if self._facts.pieces else None
        assert not isinstance(first, EntryGap)
        end = first.first.position if first is not None else self._block.end
        begin = self._block.begin
        found = written_in(self._block.view[: end - begin])
        self._facts.lead = (begin + found[0], begin + found[1]) if found is not None else None

    def _take(self, entries: Entries) -> None:
        run, breaks = check_run(entries, self._grid)
        batches, broken = batches_of(self._block, entries)
        continuity = continuity_of(batches)
        facts = self._facts
        facts.pieces.append(run)
        facts.breaks += [each for each in (*breaks, *broken) if facts.bound.takes(each.kind, each.position)]
        facts.misfits += self._bounded_misfits(batches, continuity)
        facts.windows += window_sums(entries)
        facts.steps.extend(steps_of(self._block, entries, batches, continuity, self._cuts))
        facts.terms += _terms(entries)
        facts.entries += len(entries)
        facts.messages += int(batches["count"].sum())
        self._positions.compare(entries)
        facts.first_index = facts.first_index or run.first.index
        facts.last_index = run.last.index
        if self._units is not None and self._keys is not None:
            self._compare_indexes(entries, batches, continuity)

    def _bounded_misfits(self, batches: Facts, continuity: Continuity) -> Iterator[PlacedMisfit]:
        """Return the misfits in the order of the log, at most as many as the bound allows."""
        for misfit in sorted(continuity.misfits, key=lambda misfit: misfit.fact):
            if self._facts.bound.takes(misfit.kind, int(batches["position"][misfit.fact])):
                yield placed(batches, misfit)

    def _compare_indexes(self, entries: Entries, batches: Facts, continuity: Continuity) -> None:
        """Compare the indexes with the batches of the span. If the replica is running, compare only index entries
        that no longer change."""
        assert self._units is not None
        assert self._keys is not None
        begin, end = entries.header(0).position, entries.header(-1).position + 1
        if self._replica.is_running:
            end = min(end, self._replica.settled)
            batches = batches[batches["position"] < end]
            continuity = continuity_of(batches)
        if begin < end:
            self._units.compare(self._block, batches, continuity)
            self._keys.compare(self._block, batches, begin, end)

    def _close(self) -> None:
        facts, bound = self._facts, self._facts.bound
        facts.wrong_positions = [each for each in self._positions.wrong if bound.takes(ViolationKind.POSITION_WRONG)]
        if self._units is not None and self._keys is not None:
            facts.wrong_units = [each for each in self._units.wrong if bound.takes(ViolationKind.UNIT_WRONG)]
            facts.wrong_keys = [each for each in self._keys.wrong if bound.takes(each.kind)]
            facts.absent_units, facts.absent_keys = first_of_each(self._units.absent), self._keys.absent[:MAX_TOLD]
            facts.units, facts.keys = self._units.right, self._keys.right


def _terms(entries: Entries) -> list[tuple[int, int]]:
    terms = entries.rows["term"]
    begins = np.append(0, np.flatnonzero(terms[1:] != terms[:-1]) + 1)[:MAX_TOLD]
    return list(zip(terms[begins].tolist(), entries.rows["index"][begins].tolist(), strict=True))
