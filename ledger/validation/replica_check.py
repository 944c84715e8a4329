"""`ledgermq log verify`: checks every byte of one replica, and yields each flaw when it is found.

    small files ─> spans, one after the other (entries, positions, units, keys) ─> snapshots ─> ends of the indexes

The check finds the same faults in a replica as `ledgermq validate`. The check does not find faults that only the
replicated state shows (sequences, epochs, unknown topics), or that only a comparison with another replica shows. The
check reads the spans in order and keeps nothing of a span that it has finished, so its memory does not grow with the
log. The check writes nothing and takes no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ledger.validation.judging.engine import LogBounds, left_out_of, misfit_violation, violations_in
from ledger.validation.judging.judging import place_violation
from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.replay.index_ends import IndexEnds, check_index_ends
from ledger.validation.replay.replay import Replay
from ledger.validation.replay.small_files import check_small_files
from ledger.validation.replay.snapshots import check_snapshots
from ledger.validation.sources.access import FileAccess
from ledger.validation.sources.errors import SegmentGoneError, SourceError
from ledger.validation.sources.place import LogPlace, UnreadableError
from ledger.validation.sources.replica import SPAN_BYTES, LogReplica, ReplicaSpan
from ledger.validation.sources.sources import replica_at
from ledger.validation.spans.joining import JoinedLog, LogFinding, SpanJoiner
from ledger.validation.spans.key_entries import WrongKeys
from ledger.validation.spans.pieces import EntryGap
from ledger.validation.spans.segment_end import last_begun
from ledger.validation.spans.span_reader import SpanFacts, look_at, read_span
from ledger.validation.spans.unit_check import AbsentUnits
from store import Flaw, FlawKind

# Called with the number of bytes read so far; `LogPlace.total_bytes` is the total.
OnProgress = Callable[[int], None]
_OF_THE_STATE = (ViolationKind.SEQUENCE_GAP, ViolationKind.SEQUENCE_REPEATED, ViolationKind.EPOCH_FENCED)


@dataclass(slots=True)
class Checked:
    """The numbers of entries, queues, ConsumeQueue units and keys of the checked replica. The numbers are complete
    after the last flaw was yielded."""

    entries: int = 0
    first_index: int | None = None
    last_index: int | None = None
    last_term: int | None = None
    end: int | None = None
    chain: int | None = None
    # The largest commit index that an entry of the log mentions.
    known_commit: int = 0
    queues: int = 0
    # The number of ConsumeQueue units that agree with the log.
    units: int = 0
    # The number of entries of the key index that agree with the log.
    keys: int = 0
    # The kinds of the flaws that were yielded.
    kinds: set[FlawKind] = field(default_factory=set)


def check_replica(place: LogPlace, checked: Checked, on_progress: OnProgress = lambda _: None) -> Iterator[Flaw]:
    """Yield each flaw when it is found, and fill `checked`. Raises UnreadableError if a file cannot be read."""
    try:
        for flaw in _merged(_flaws(place, checked, on_progress)):
            checked.kinds.add(flaw.kind)
            yield flaw
    except (SourceError, SegmentGoneError) as error:
        raise UnreadableError(str(error)) from error
    except OSError as error:
        raise UnreadableError(f"{error.filename} cannot be read: {error.strerror}") from error


def flaw_of(violation: Violation, kind: FlawKind = FlawKind.DAMAGE) -> Flaw:
    """Return the violation as a flaw of `kind`, or of kind UNKNOWN for an entry of another version."""
    if violation.kind is ViolationKind.UNKNOWN_ENTRY:
        kind = FlawKind.UNKNOWN
    path, position = Path(violation.path or violation.source), violation.position or 0
    return Flaw(kind, path, position, violation.index, violation.reason, violation.end, violation.last_index)


def _merged(flaws: Iterable[Flaw]) -> Iterator[Flaw]:
    """Merge the flaws of neighbouring wrong units of one file into one flaw, also across spans."""
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
    """Reads the log of the replica once, from its start to its end."""

    def __init__(self, replica: LogReplica) -> None:
        self._replica = replica
        self._access = FileAccess()
        self._joining = SpanJoiner(replica, lambda: last_begun(replica, FileAccess()), self._look)
        self._replay = Replay(replica.number, state=None, start=replica.start, configuration=b"")
        cuts = {index for index, _ in replica.kept} | ({replica.checkpoint_index} - {0})
        self._cuts = tuple(sorted(cuts))
        # The first missing unit of each queue, by topic id and queue.
        self._absent_units: dict[tuple[int, int], AbsentUnits] = {}
        # The first ones.
        self._absent_keys: list[WrongKeys] = []
        # The number of misfits of the replay that were yielded.
        self._told = 0
        # Topic id and queue of each queue with an entry. The replay forgets the queues after missing entries.
        self._queues: set[tuple[int, int]] = set()
        self._entries = self._units = self._keys = 0

    @property
    def _log(self) -> JoinedLog:
        return self._joining.log

    def spans(self) -> Iterator[tuple[list[Flaw], int]]:
        """Yield the flaws of each span, and the number of bytes read so far."""
        for which, segment in enumerate(self._replica.segments):
            begin: int = max(segment.base, min(self._replica.begin, segment.end))
            is_exact = True
            while begin < segment.end:
                end = min(segment.end, begin + SPAN_BYTES)
                yield (
                    self._flaws_in(ReplicaSpan(0, 0, which, begin, end, is_exact)),
                    end - self._replica.segments[0].base,
                )
                due = self._joining.due
                begin, is_exact = (end, False) if due is None else (max(end, due), True)

    def _flaws_in(self, span: ReplicaSpan) -> list[Flaw]:
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
        bounds = LogBounds(self._replica.begin, self._end, {}, frozenset(self._log.excused))
        within = [each for each in violations_in(facts, self._replica, bounds) if each.kind not in _OF_THE_STATE]
        within += self._misfits(facts)
        return [*self._of_places(), *map(flaw_of, within), *self._left_out(facts, bounds)]

    def _left_out(self, facts: SpanFacts, bounds: LogBounds) -> Iterator[Flaw]:
        """If a span has too many faults of one kind, yield one flaw that states the number of the further faults."""
        path = Path(self._replica.segments[facts.span.segment].path)
        for kind, count in left_out_of(facts, self._replica, bounds).items():
            if kind not in _OF_THE_STATE:
                where = "all in this part of the log or of its indexes"
                reason = f"{count:,} more faults of the kind '{kind}' are only counted, {where}"
                yield Flaw(FlawKind.DAMAGE, path, facts.span.begin, None, reason, facts.span.end)

    @property
    def _end(self) -> int:
        """The end of the log if it is known. Bytes after the end are not judged."""
        return self._log.end if self._joining.has_ended else 1 << 62

    def _misfits(self, facts: SpanFacts) -> Iterator[Violation]:
        """Yield a flaw for each queue whose offsets do not continue the offsets of the previous span."""
        self._replay.take(facts.steps, end=self._end)
        self._queues.update(self._replay.result().ends)
        yield from self._new_misfits(self._replica.segments[facts.span.segment].path)

    def _new_misfits(self, path: str) -> Iterator[Violation]:
        found = self._replay.result().told
        for each in found[self._told :]:
            yield misfit_violation(self._replica, each, {}, path)
        self._told = len(found)

    def _of_places(self) -> list[Flaw]:
        """Return the flaws that the joining of spans has found since the last call."""
        wrong, torn = self._log.wrong, self._log.torn
        flaws = [self._flaw_at(each, FlawKind.DAMAGE) for each in wrong]
        flaws += [self._flaw_at(each, FlawKind.TORN) for each in torn]
        for done in (wrong, torn, self._log.excused, self._log.terms, self._log.course):
            done.clear()
        return flaws

    def _flaw_at(self, place: LogFinding, kind: FlawKind) -> Flaw:
        return flaw_of(place_violation(self._replica, place), kind)

    def _look(self, which: int, position: int, end: int) -> EntryGap:
        return look_at(self._access, self._replica.segments[which], position, end, self._replica.largest_entry)

    # -- at the end of the log

    def finish(self) -> list[Flaw]:
        self._joining.finish()
        self._replay.finish()
        places, segments = self._of_places(), self._replica.segments
        return places if not segments else [*places, *map(flaw_of, self._new_misfits(segments[-1].path))]

    def describe(self, checked: Checked) -> None:
        log, last = self._log, self._log.last
        checked.entries, checked.units, checked.keys = self._entries, self._units, self._keys
        checked.first_index, checked.known_commit = log.first_index, log.known_commit
        checked.queues = len(self._queues - {key for key in self._queues if key[0] in self._replay.result().deleted})
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
            names={},
        )
        found = check_index_ends(known)
        if found.unread:
            raise SourceError(found.unread[0])
        yield from (flaw_of(each, FlawKind.TORN) for each in found.left)
        yield from map(flaw_of, found.violations)
