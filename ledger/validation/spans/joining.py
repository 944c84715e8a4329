"""Joins the spans of one replica into one log, from the start of the log to its end.

    span 0   | run 1..57 |                      span 1   | run 58..99 | blank       segment 2: span 2 | run 100.. |
                        the entry 57 ends in span 1 ^    ^ does 58 follow 57?       ^ is this where 100 belongs?

Span readers have checked the entries within a run. The joining checks, by the same rules as a span reader, that each
run continues the run before it. The joining also decides what a blank word means, which is a word of zeros where an
entry could begin. A blank word (8 zero bytes) ends the log, unless another fact shows that entries follow. If a node
is killed during a write, the incomplete bytes that remain after the log's end are reported as torn, and are not a
violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ledger.validation.judging.violation import ViolationKind
from ledger.validation.naming import rendered
from ledger.validation.sources.replica import LogReplica, Segment
from ledger.validation.spans.pieces import Break, EntryGap, EntryRun, GapKind, break_between
from ledger.validation.spans.span_reader import SpanFacts
from store import LogTail
from store.disk.numbered import name_of
from store.log.entry import chained
from store.log.grid import Grid

# Called with the number of a segment, a position and an end; reads these bytes and returns the gap at the position.
Look = Callable[[int, int, int], EntryGap]


@dataclass(frozen=True, slots=True)
class LogFinding:
    """A fault of a log, or torn bytes after the end of the log."""

    kind: ViolationKind
    reason: str
    position: int
    index: int | None
    end: int | None = None
    last_index: int | None = None
    path: str | None = None


@dataclass(slots=True)
class JoinedLog:
    """The log of one replica, as it results from the facts of its spans."""

    replica: LogReplica
    first_index: int | None = None
    # The last entry; if the log has none, the entry before the log start.
    last: LogTail | None = None
    # The position at which the log ends. Later runs do not belong to the log.
    end: int = 0
    # The largest commit that an entry mentions.
    known_commit: int = 0
    entries: int = 0
    messages: int = 0
    # Whether the whole log could be read.
    is_read: bool = True
    wrong: list[LogFinding] = field(default_factory=list)
    # Torn bytes after the end, as a killed write leaves them, or bytes in the changing end of a running node.
    torn: list[LogFinding] = field(default_factory=list)
    # Spans whose first entry was found within another entry: the number of the span, and where it really begins.
    misled: list[tuple[int, int]] = field(default_factory=list)
    # Positions of entries that the span calls broken in their chain, and that go on from the right one: the entry
    # before, which begins the span, says a wrong chain.
    excused: list[int] = field(default_factory=list)
    terms: list[tuple[int, int]] = field(default_factory=list)
    # Index and position of the first and the last entry of each run.
    course: list[tuple[int, int]] = field(default_factory=list)

    @property
    def last_index(self) -> int:
        return self.last.index if self.last is not None else 0


def join(replica: LogReplica, spans: Iterable[SpanFacts], look: Look) -> JoinedLog:
    """Return the log of a replica. `spans` are all spans of the replica that could be read, in any order."""
    ordered = sorted(spans, key=lambda facts: facts.span.begin)
    last_begun = max(map(_begun, ordered), default=-1)
    joining = SpanJoiner(replica, lambda: last_begun, look)
    for facts in ordered:
        joining.take(facts)
    return joining.finish()


class SpanJoiner:
    """Joins the spans of one replica. The caller passes the spans in the order of their positions."""

    def __init__(self, replica: LogReplica, last_begun: Callable[[], int], look: Look) -> None:
        """`last_begun` returns the first position of the last segment that begins with an entry, or -1 if no
        segment does."""
        self._replica = replica
        self._last_begun = last_begun
        self._look = look
        self._grid = Grid(replica.segment_bytes)
        self._tail = replica.start
        self._due_chain: int | None = None
        # Entries are missing between the tail and the next one.
        self._lost = False
        # The gap after the last run, if the next entry is not known yet.
        self._gap: EntryGap | None = None
        self._segment = -1
        # The end of the log was found: later entries do not belong to it.
        self.has_ended = False
        # The span before could not be read.
        self._is_blind = False
        known = replica.start.index if replica.start is not None else 0
        self.log = JoinedLog(replica, last=replica.start, end=replica.begin, known_commit=known)

    @property
    def due(self) -> int | None:
        """The position at which the next entry must begin, or None if it is not known."""
        return self.log.end if self._gap is None else None

    # -- the next span

    def take(self, facts: SpanFacts) -> None:
        segment = self._replica.segments[facts.span.segment]
        if facts.unread:
            self._pass_over(facts)
            return
        if facts.span.segment != self._segment:
            self._next_segment(facts.span.segment, segment.base)
        if not facts.span.is_exact and not self._is_blind:
            self._lead(facts)
        self._is_blind = False
        for piece in facts.pieces:
            if isinstance(piece, EntryGap):
                self._open(piece)
            else:
                self._run(piece, facts)

    def finish(self) -> JoinedLog:
        log = self.log
        if self._gap is not None:
            self._close_last(self._gap)
        if self._segment == len(self._replica.segments) - 1 and self._segment >= 0:
            self._check_length(self._replica.segments[self._segment], is_last=True)
        log.last = self._tail
        self._compare_clean()
        return log

    def _pass_over(self, facts: SpanFacts) -> None:
        """Skip a span that could not be read. After the skipped span any entry may follow."""
        self._segment, self._tail, self._due_chain, self._gap = facts.span.segment, None, None, None
        self.log.is_read = False
        self._is_blind = True

    def _next_segment(self, number: int, base: int) -> None:
        self._leave_segment()
        before = self._replica.segments[self._segment] if self._segment >= 0 else None
        due = before.base + self._replica.segment_bytes if before is not None else self._grid.base(self._replica.begin)
        if before is None and (self._replica.start is None or base == self._next_base(self._replica.begin)):
            due = base
        if base != due and not self.has_ended:
            self._wrong(self._missing_segments(due, base))
            self._lost = True
        self._segment = number
        if number < len(self._replica.segments) - 1:
            self._check_length(self._replica.segments[number], is_last=False)

    def _leave_segment(self) -> None:
        """End the current segment. The next segment begins with an entry, so damage does not continue into it."""
        gap, self._gap = self._gap, None
        if gap is None:
            pass
        elif gap.kind is not GapKind.BLANK:
            self._wrong(self._damage(gap, None))
            self._lost = True
        elif gap.junk is not None and not self.has_ended:
            self._tell_junk(gap, gap.junk)
        if self._segment >= 0:
            segment = self._replica.segments[self._segment]
            self._lost |= segment.length < self._replica.segment_bytes and not self._replica.is_running

    def _check_length(self, segment: Segment, *, is_last: bool) -> None:
        due = self._replica.segment_bytes
        if segment.length == due or self._replica.is_running:
            return
        reason = f"the file has {segment.length} bytes, but segments of this log have {due}"
        place = LogFinding(
            ViolationKind.DAMAGED_ENTRY, reason, segment.base + min(segment.length, due), None, path=segment.path
        )
        gap = self._gap
        is_written = gap is not None and (gap.kind is not GapKind.BLANK or gap.junk is not None)
        is_blank = is_last and segment.length < due and self.log.end <= segment.base and not is_written
        if is_blank and self._replica.clean is None:
            self.log.torn.append(place)
        else:
            self._wrong(place)

    def _next_base(self, begin: int) -> int:
        """Return the position at which the next segment begins, if the log starts after the last entry of a segment."""
        return self._grid.base(begin) + self._replica.segment_bytes if begin % self._replica.segment_bytes else begin

    def _missing_segments(self, due: int, base: int) -> LogFinding:
        step = self._replica.segment_bytes
        reason = f"the segments from {due} to {base} are missing"
        if due % step or base % step:
            reason = f"segments of {step} bytes do not begin at {base}: perhaps the log has another segment size"
        path = self._replica.segments[0].path.rpartition("/")[0] + "/" + name_of(due)
        end = base if base > due else None
        return LogFinding(ViolationKind.MISSING_SEGMENT, reason, due, self._due_index, end, path=path)

    def _lead(self, facts: SpanFacts) -> None:
        """Check the bytes before the first entry of a span whose first entry was found by a search."""
        begin, first = facts.span.begin, facts.pieces[0] if facts.pieces else None
        found = first.first.position if isinstance(first, EntryRun) else facts.span.end
        if self._gap is not None:
            if self._gap.kind is GapKind.BLANK and facts.lead is not None and self._gap.junk is None:
                gap = self._gap
                self._gap = EntryGap(gap.kind, gap.position, gap.reason, max(facts.lead[0], gap.position))
            return
        due = self._due_position(facts)
        if isinstance(first, EntryRun) and found < due:
            self.log.misled.append((facts.span.number, due))
        elif due < found and due < facts.span.end:
            self._open(self._look(facts.span.segment, max(due, begin), facts.span.end))

    def _due_position(self, facts: SpanFacts) -> int:
        """Return the position of the next entry or of the blank space in this segment."""
        base = self._replica.segments[facts.span.segment].base
        return max(base, self.log.end)

    # -- pieces

    def _open(self, gap: EntryGap) -> None:
        self._gap = gap

    def _run(self, run: EntryRun, facts: SpanFacts) -> None:
        if self._gap is not None:
            self._close(self._gap, run)
            self._gap = None
        if self.has_ended:
            return
        due = None
        if self._tail is not None:
            found, due = self._judge(run, self._tail)
            if found is not None:
                self._wrong(_place_of(found, self._path_of(found.position)))
            second = run.second
            if due is not None and second is not None and second.chain == chained(due, second.crc):
                self.log.excused.append(second.position)
        log = self.log
        if log.first_index is None:
            log.first_index = run.first.index
        self._tail, self._lost = LogTail.of(run.last), False
        self._due_chain = due if run.first.index == run.last.index else run.due_chain
        log.end = run.last.end
        log.known_commit = max(log.known_commit, run.commit)
        log.course += [(header.index, header.position) for header in (run.first, run.last)]
        log.terms += [each for each in facts.terms if run.first.index <= each[1] <= run.last.index]

    def _judge(self, run: EntryRun, tail: LogTail) -> tuple[Break | None, int | None]:
        """Return the fault at the start of a run. If the first entry of the run has a wrong chain, also return the
        right chain."""
        header = run.first
        if not self._lost:
            return break_between(tail, header, self._grid, self._due_chain)
        place = (header.position, header.index, header.end, header.index)
        if header.index <= tail.index:
            return Break(ViolationKind.OUT_OF_PLACE, f"index {header.index} follows index {tail.index}", *place), None
        if header.term < tail.term:
            reason = f"term {header.term} follows the higher term {tail.term}"
            return Break(ViolationKind.TERM_FALLS, reason, *place), None
        return None, None

    def _close(self, gap: EntryGap, run: EntryRun) -> None:
        """Judge a gap between two runs."""
        if gap.kind is GapKind.BLANK:
            self._close_blank(gap, run)
        else:
            self._wrong(self._damage(gap, run))
            self._lost = True

    def _close_blank(self, gap: EntryGap, run: EntryRun) -> None:
        path = self._path_of(gap.position)
        due = self._due_index
        reason = f"entries {run.first.index} to {run.last.index} follow a blank word"
        place = LogFinding(ViolationKind.DAMAGED_ENTRY, reason, gap.position, due, run.first.position, None, path)
        says_more = due is not None and run.commit >= due
        if due is not None and not says_more and not self._goes_on_behind(gap.position):
            self.log.torn.append(place)
            self.has_ended = True
            return
        if says_more:
            reason += f", and they say that entry {run.commit} is committed"
        self._wrong(LogFinding(ViolationKind.DAMAGED_ENTRY, reason, gap.position, due, run.first.position, None, path))
        self._lost = True

    def _goes_on_behind(self, position: int) -> bool:
        return self._replica.clean is not None or self._last_begun() > self._grid.base(position)

    def _close_last(self, gap: EntryGap) -> None:
        """Judge a gap at the end of the log."""
        if gap.kind is not GapKind.BLANK:
            self._wrong(self._damage(gap, None))
        elif gap.junk is not None and not self.has_ended:
            self._tell_junk(gap, gap.junk)

    def _tell_junk(self, gap: EntryGap, junk: int) -> None:
        """Report bytes after the last entry of a segment that are not zero."""
        reason = "there are bytes after the last entry, where the segment must be blank"
        place = LogFinding(ViolationKind.NOT_BLANK, reason, junk, self._due_index, path=self._path_of(gap.position))
        if self._goes_on_behind(gap.position):
            self._wrong(place)
        else:
            self.log.torn.append(place)

    def _damage(self, gap: EntryGap, run: EntryRun | None) -> LogFinding:
        kind = ViolationKind.UNKNOWN_ENTRY if gap.kind is GapKind.UNKNOWN else ViolationKind.DAMAGED_ENTRY
        due, path = self._due_index, self._path_of(gap.position)
        if run is None:
            return LogFinding(kind, gap.reason, gap.position, due, path=path)
        last = run.first.index - 1 if due is not None and run.first.index > due else None
        return LogFinding(kind, gap.reason, gap.position, due, run.first.position, last, path)

    def _compare_clean(self) -> None:
        clean, tail = self._replica.clean, self._tail
        if clean is None or tail is None:
            return
        if (tail.index, tail.end, tail.chain) == (clean.last_index, clean.end, clean.chain):
            return
        stopped = f"at the last orderly stop the log ended with entry {clean.last_index} at {clean.end}"
        found = f"now it ends with entry {tail.index} at {tail.end}"
        if (tail.index, tail.end) == (clean.last_index, clean.end):
            found = "now its last entry is a different one"
        reason = f"{stopped}, {found}"
        first, index = min(tail.end, clean.end), min(tail.index, clean.last_index) + 1
        path = self._path_of(max(0, first - 1))
        if tail.index < clean.last_index:
            place = LogFinding(ViolationKind.LOG_CUT, reason, first, index, last_index=clean.last_index, path=path)
        else:
            place = LogFinding(ViolationKind.CLEAN_MARK_WRONG, reason, first, index, path=path)
        self._wrong(place)

    # -- what is said of it

    def _wrong(self, place: LogFinding) -> None:
        """Report a fault. The end of a running replica's log still changes, so a fault there is not reported as a
        violation."""
        if self._replica.is_running and place.position >= self._replica.settled:
            self.log.torn.append(place)
        else:
            self.log.wrong.append(place)

    @property
    def _due_index(self) -> int | None:
        return None if self._tail is None or self._lost else self._tail.index + 1

    def _path_of(self, position: int) -> str | None:
        base = self._grid.base(position)
        return next((each.path for each in self._replica.segments if each.base == base), None)


def _begun(facts: SpanFacts) -> int:
    """Return the first position of the span's segment if the segment begins with an entry in this span; otherwise
    -1."""
    first = facts.pieces[0] if facts.pieces else None
    at_begin = isinstance(first, EntryRun) and facts.span.is_exact and first.first.position == facts.span.begin
    return facts.span.begin if at_begin else -1


def _place_of(found: Break, path: str | None) -> LogFinding:
    reason = rendered(found.reason, {})  # a break between entries is about no topic
    return LogFinding(found.kind, reason, found.position, found.index, found.end, found.last_index, path)
