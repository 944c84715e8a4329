"""The check of one replica: everything that its own bytes show to be wrong, told flaw by flaw as it is found.

    small files ─> spans, one after the other (entries, positions, units, keys) ─> snapshots ─> ends of the indexes

This is what `validate` judges of each replica, without what takes the replicated state (sequences, epochs, whether a
topic exists) or another replica. The spans are read in their order, and nothing is kept of a span that is behind: so
the memory that a check needs does not grow with the log. Nothing is written, and no lock is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ledger.validation.judging.engine import Bounds, left_out_of, misfit_violation, violations_in
from ledger.validation.judging.judging import place_violation
from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.replay.index_ends import IndexEnds, check_index_ends
from ledger.validation.replay.joining import JoinedLog, Joining, Place
from ledger.validation.replay.key_entries import WrongKeys
from ledger.validation.replay.pieces import Gap
from ledger.validation.replay.replay import Replay
from ledger.validation.replay.segment_end import last_begun
from ledger.validation.replay.small_files import check_small_files
from ledger.validation.replay.snapshots import check_snapshots
from ledger.validation.replay.span_reader import SpanFacts, look_at, read_span
from ledger.validation.replay.unit_check import AbsentUnits
from ledger.validation.sources.access import FileAccess, SegmentGoneError, SourceError
from ledger.validation.sources.place import LogPlace, UnreadableError
from ledger.validation.sources.replica import SPAN_BYTES, LogReplica, Span
from ledger.validation.sources.sources import replica_at
from store import Flaw, FlawKind

OnProgress = Callable[[int], None]
"""Takes the bytes that are behind, of `LogPlace.total_bytes`."""
_OF_THE_STATE = (ViolationKind.SEQUENCE_GAP, ViolationKind.SEQUENCE_REPEATED, ViolationKind.EPOCH_FENCED)


@dataclass(slots=True)
class Checked:
    """What a check found besides flaws; complete once all flaws have been told."""

    entries: int = 0
    first_index: int | None = None
    last_index: int | None = None
    last_term: int | None = None
    end: int | None = None
    chain: int | None = None
    known_commit: int = 0
    """The largest commit that the entries mention: surely committed."""
    queues: int = 0
    units: int = 0
    """ConsumeQueue units that are what the log gives."""
    keys: int = 0
    """Entries of the key index that are."""
    kinds: set[FlawKind] = field(default_factory=set)
    """Of the flaws that were told."""


def check_replica(place: LogPlace, checked: Checked, on_progress: OnProgress = lambda _: None) -> Iterator[Flaw]:
    """Tells each flaw as it is found, and fills `checked`. Raises UnreadableError where a file cannot be read."""
    try:
        for flaw in _merged(_flaws(place, checked, on_progress)):
            checked.kinds.add(flaw.kind)
            yield flaw
    except (SourceError, SegmentGoneError) as error:
        raise UnreadableError(str(error)) from error
    except OSError as error:
        raise UnreadableError(f"{error.filename} cannot be read: {error.strerror}") from error


def flaw_of(violation: Violation, kind: FlawKind = FlawKind.DAMAGE) -> Flaw:
    if violation.kind is ViolationKind.UNKNOWN_ENTRY:
        kind = FlawKind.UNKNOWN
    path, position = Path(violation.path or violation.source), violation.position or 0
    return Flaw(kind, path, position, violation.index, violation.reason, violation.end, violation.last_index)


def _merged(flaws: Iterable[Flaw]) -> Iterator[Flaw]:
    """Neighbouring units of one file that are wrong are one flaw, also where two spans tell them."""
    before: Flaw | None = None
    for flaw in flaws:
        if before is not None and _goes_on(before, flaw):
            before = replace(before, end=flaw.end, last_index=flaw.last_index)
            continue
        if before is not None:
            yield before
        before = flaw
    if before is not None:
        yield before


def _goes_on(before: Flaw, flaw: Flaw) -> bool:
    is_unit = before.reason.startswith("the unit of") and flaw.reason.startswith("the unit of")
    return is_unit and (before.path, before.end) == (flaw.path, flaw.position)


def _flaws(place: LogPlace, checked: Checked, on_progress: OnProgress) -> Iterator[Flaw]:
    yield from (flaw for flaw in place.flaws if flaw.path.name != "clean" or place.shard is None)
    replica = replica_at(place, str(place.path))
    yield from map(flaw_of, check_small_files(replica))
    reading = _Reading(replica)
    for flaws, position in reading.spans():
        yield from flaws
        on_progress(position)
    on_progress(place.total_bytes)
    yield from reading.finish()
    reading.describe(checked)
    yield from map(flaw_of, reading.of_files())
    yield from reading.of_index_ends()


class _Reading:
    """One pass over the replica's log."""

    def __init__(self, replica: LogReplica) -> None:
        self._replica = replica
        self._access = FileAccess()
        self._joining = Joining(replica, lambda: last_begun(replica, FileAccess()), self._look)
        self._replay = Replay(replica.number, state=None, start=replica.start, configuration=b"")
        cuts = {index for index, _ in replica.kept} | ({replica.checkpoint_index} - {0})
        self._cuts = tuple(sorted(cuts))
        self._absent_units: dict[tuple[int, int], AbsentUnits] = {}
        """The first missing unit of each queue."""
        self._absent_keys: list[WrongKeys] = []
        """The first ones."""
        self._told = 0
        """Misfits of the replay."""
        self._entries = self._units = self._keys = 0

    @property
    def _log(self) -> JoinedLog:
        return self._joining.log

    def spans(self) -> Iterator[tuple[list[Flaw], int]]:
        """What each span shows, and how many bytes are behind then."""
        for which, segment in enumerate(self._replica.segments):
            begin: int = max(segment.base, min(self._replica.begin, segment.end))
            is_exact = True
            while begin < segment.end:
                end = min(segment.end, begin + SPAN_BYTES)
                yield self._flaws_in(Span(0, 0, which, begin, end, is_exact)), end - self._replica.segments[0].base
                due = self._joining.due
                begin, is_exact = (end, False) if due is None else (max(end, due), True)

    def _flaws_in(self, span: Span) -> list[Flaw]:
        facts = read_span(self._replica, span, self._access, self._cuts)
        if facts.unread:
            raise SourceError(facts.unread)
        self._joining.take(facts)
        self._entries, self._units, self._keys = (
            self._entries + facts.entries, self._units + facts.units, self._keys + facts.keys,
        )  # fmt: skip
        for absent in facts.absent_units:
            self._absent_units.setdefault((absent.topic_id, absent.queue), absent)
        self._absent_keys = (self._absent_keys + facts.absent_keys)[:1]
        bounds = Bounds(self._replica.begin, self._end, {}, frozenset(self._log.excused))
        within = [each for each in violations_in(facts, self._replica, bounds) if each.kind not in _OF_THE_STATE]
        within += self._misfits(facts)
        return [*self._of_places(), *map(flaw_of, within), *self._left_out(facts, bounds)]

    def _left_out(self, facts: SpanFacts, bounds: Bounds) -> Iterator[Flaw]:
        """What is wrong in the span, and is only counted because there is too much of it."""
        path = Path(self._replica.segments[facts.span.segment].path)
        for kind, count in left_out_of(facts, self._replica, bounds).items():
            if kind not in _OF_THE_STATE:
                reason = f"{count:,} more of the kind '{kind}' are in or beside this part of the log, and only counted"
                yield Flaw(FlawKind.DAMAGE, path, facts.span.begin, None, reason, facts.span.end)

    @property
    def _end(self) -> int:
        """Of the log, as far as it is known: what lies behind an end that is not the last word counts no more."""
        return self._log.end if self._joining.has_ended else 1 << 62

    def _misfits(self, facts: SpanFacts) -> Iterator[Violation]:
        """Offsets that do not go on from span to span."""
        self._replay.take(facts.steps, end=self._end)
        found = self._replay.result().told
        path = self._replica.segments[facts.span.segment].path
        for each in found[self._told :]:
            yield misfit_violation(self._replica, each.kind, each.reason, each, {}, path)
        self._told = len(found)

    def _of_places(self) -> list[Flaw]:
        """What joining the spans has shown since the last time."""
        wrong, torn = self._log.wrong, self._log.torn
        flaws = [self._flaw_at(each, FlawKind.DAMAGE) for each in wrong]
        flaws += [self._flaw_at(each, FlawKind.TORN) for each in torn]
        for done in (wrong, torn, self._log.excused, self._log.terms, self._log.course):
            done.clear()
        return flaws

    def _flaw_at(self, place: Place, kind: FlawKind) -> Flaw:
        return flaw_of(place_violation(self._replica, place), kind)

    def _look(self, which: int, position: int, end: int) -> Gap:
        return look_at(self._access, self._replica.segments[which], position, end, self._replica.largest_entry)

    # -- at the end of the log

    def finish(self) -> list[Flaw]:
        self._joining.finish()
        return self._of_places()

    def describe(self, checked: Checked) -> None:
        log, last = self._log, self._log.last
        checked.entries, checked.units, checked.keys = self._entries, self._units, self._keys
        checked.first_index, checked.known_commit = log.first_index, log.known_commit
        checked.queues = len(self._replay.result().ends)
        if last is not None:
            checked.last_index, checked.last_term = last.index, last.term
            checked.end, checked.chain = last.end, last.chain

    def of_files(self) -> Iterator[Violation]:
        return check_snapshots(self._replica, self._replay.result(), self._log.last_index)

    def of_index_ends(self) -> Iterator[Flaw]:
        result = self._replay.result()
        is_whole = result.is_continuous and self._replica.start is not None
        known = IndexEnds(
            replica=self._replica,
            ends=result.ends,
            deleted=result.deleted,
            knows_queues=is_whole and self._replica.base is None,
            is_continuous=is_whole,
            log_end=self._log.end,
            committed=self._log.known_commit,
            absent_units=tuple(self._absent_units.values()),
            absent_keys=self._absent_keys,
        )
        found = check_index_ends(known)
        if found.unread:
            raise SourceError(found.unread[0])
        yield from (flaw_of(each, FlawKind.TORN) for each in found.left)
        yield from map(flaw_of, found.violations)
