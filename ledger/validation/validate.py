"""`ledgermq validate`: judges the replicas of a cluster and returns a report.

    sources ─> plan ─> spans read ─> logs joined ─> states replayed ─> replicas compared ─> histories ─> report

An engine runs the steps: in this process (judging/plain_engine.py), or on Spark. If a source cannot be read, the
verdict of the report is "could not be judged". Even if a source cannot be read, the report has all violations that
were found.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from ledger.errors import LedgerError
from ledger.history import ends_in_half_a_line, has_a_line
from ledger.state import State
from ledger.validation.judging.acknowledged import KnownQueue, topic_hash
from ledger.validation.judging.contents import (
    Contents,
    LostEntries,
    QueueExtent,
    contents_of,
    lost_in,
    with_contents,
)
from ledger.validation.judging.engine import (
    AcknowledgedFound,
    Engine,
    LogBounds,
    ReadPlan,
    WantedMessages,
    entries_in,
    misfit_violation,
)
from ledger.validation.judging.judging import Judged, ShardJudge, place_violations
from ledger.validation.judging.log_cuts import without_false_cuts
from ledger.validation.judging.violation import ORDER, Violation, ViolationKind
from ledger.validation.replay.index_ends import IndexEnds, notes_of
from ledger.validation.replay.replay import Replayed
from ledger.validation.replay.snapshots import present_snapshot
from ledger.validation.report.out_directory import prepare
from ledger.validation.report.report import AcknowledgedReport, ShardReport, ValidationReport
from ledger.validation.sources.access import access_to
from ledger.validation.sources.errors import SourceError
from ledger.validation.sources.replica import SPAN_BYTES, LogReplica, spans_of
from ledger.validation.sources.sources import open_sources
from ledger.validation.spans.entries import Rows
from ledger.validation.spans.joining import JoinedLog, join
from ledger.validation.spans.pieces import EntryGap
from ledger.validation.spans.span_reader import SpanFacts, look_at
from store import Snapshot

_TRIES = 3
# A first offset that is larger than the offset of any message.
_NOTHING_KEPT = 1 << 62
# Called with the number of spans and of bytes that will be read.
OnPlan = Callable[[int, int], None]


def validate(
    sources: Sequence[str],
    engine: Engine,
    *,
    histories: Sequence[Path] = (),
    out: Path | None = None,
    span_bytes: int = SPAN_BYTES,
    on_plan: OnPlan = lambda _spans, _bytes: None,
) -> ValidationReport:
    """Read all sources, judge them, and return the report. If a source cannot be read, the report says so, and no
    exception is raised.

        sources      paths or URLs, as the user gave them
        histories    files of acknowledgements of clients
        out          directory for all violations as Parquet; None: no such file
        span_bytes   size of the spans that are read

    Raises LedgerError if a history cannot be read, or if `out` cannot be written.
    """
    begun = time.perf_counter()
    if out is not None:
        prepare(out)
    replicas, not_judged = open_sources(sources)
    not_judged += _strangers(replicas)
    if not replicas or _strangers(replicas):
        return ValidationReport(
            tuple(sources), engine.name, (), None, (), (), 0, tuple(not_judged), 0, time.perf_counter() - begun
        )
    plan = plan_of(replicas, span_bytes)
    on_plan(len(plan.spans), plan.total_bytes)
    return _Validation(sources, plan, engine, not_judged, begun).run(histories, out)


def plan_of(replicas: Sequence[LogReplica], span_bytes: int) -> ReadPlan:
    """Return the spans of all replicas, numbered, and the indexes at which states are compared."""
    numbers = count()
    spans = [
        replace(span, number=next(numbers)) for replica in replicas for span in spans_of(replica, span_bytes=span_bytes)
    ]
    shards = sorted({replica.shard for replica in replicas})
    cuts = {shard: _cuts([each for each in replicas if each.shard == shard]) for shard in shards}
    return ReadPlan(tuple(replicas), tuple(spans), cuts)


def _cuts(replicas: Sequence[LogReplica]) -> tuple[int, ...]:
    """Return the indexes at which states are compared: of all snapshots, of the last entry that all replicas have,
    and of the last committed entry."""
    indexes = {index for replica in replicas for index, _ in replica.kept}
    indexes |= {replica.checkpoint_index for replica in replicas if replica.checkpoint_index}
    indexes |= {replica.start.index for replica in replicas if replica.start is not None}
    indexes.add(min(replica.last_index for replica in replicas))
    indexes.add(min(replica.last_index if not replica.told_commit else replica.told_commit for replica in replicas))
    return tuple(sorted(indexes))


def _strangers(replicas: Sequence[LogReplica]) -> list[str]:
    clusters: dict[str, str] = {}
    for replica in replicas:
        if replica.cluster:
            clusters.setdefault(replica.cluster, replica.source)
    if len(clusters) < 2:
        return []
    said = ", ".join(f"{source} belongs to cluster {cluster!r}" for cluster, source in clusters.items())
    return [f"the sources belong to different clusters: {said}; give the replicas of one cluster"]


class _Validation:
    def __init__(
        self, sources: Sequence[str], plan: ReadPlan, engine: Engine, not_judged: list[str], begun: float
    ) -> None:
        self._sources = sources
        self._plan = plan
        self._engine = engine
        self._not_judged = not_judged
        self._begun = begun
        self._notes: dict[int, list[str]] = defaultdict(list)
        # The number of violations that are only counted, by kind: there are too many of the kind.
        self._left_out: Counter[str] = Counter()
        # The present snapshots of running replicas, by number of the replica.
        self._snapshots: dict[int, Snapshot] = {}
        self._by_shard: dict[int, list[LogReplica]] = defaultdict(list)
        for replica in plan.replicas:
            self._by_shard[replica.shard].append(replica)

    def run(self, histories: Sequence[Path], out: Path | None) -> ValidationReport:
        outlines = {facts.span.number: facts for facts in self._engine.read(self._plan)}
        self._tell_unread(outlines.values())
        logs = self._joined(outlines)
        ends = {number: log.end for number, log in logs.items()}
        told, violations, unjudged = self._engine.replay(ends)
        self._not_judged += unjudged
        replayed = {each.replica: each for each in told}
        self._tell_lost_bases(replayed)
        names = {shard: self._names(shard, replayed) for shard in self._by_shard}
        divergences = self._engine.divergences(self._engine.differing_windows(), ends)
        counted = _counted(self._plan.replicas, outlines.values())
        judged = {
            shard: ShardJudge(
                shard,
                [logs[each.number] for each in replicas],
                replayed,
                divergences.get(shard, []),
                counted,
                names[shard],
            ).judge()
            for shard, replicas in self._by_shard.items()
        }
        self._judge_judged(judged)
        for each in judged.values():
            violations += each.violations
        violations += self._of_logs(logs, replayed, names)
        violations += self._of_indexes(logs, replayed, judged, outlines.values(), names)
        acknowledged = self._acknowledged(histories, judged, replayed, logs, violations)
        violations = without_false_cuts(violations, logs.values())
        entries = _lost_entries(violations, logs.values(), judged)
        lost = self._contents(filter(None, entries), logs, judged, outlines.values())
        violations = [
            with_contents(replace(each, last_index=gone.last), lost[gone], names[each.shard])
            if gone and gone in lost
            else each
            for each, gone in zip(violations, entries, strict=True)
        ]
        bounds = {
            number: LogBounds(
                self._begin_of(log.replica),
                log.end,
                names[log.replica.shard],
                frozenset(log.excused),
                {(each.first, each.last): extents for each, extents in lost.items() if each.replica == number},
            )
            for number, log in logs.items()
        }
        for replay in told:
            self._left_out += replay.left_out
        found = self._engine.violations(bounds, violations, self._left_out, out)
        return ValidationReport(
            sources=tuple(self._sources),
            engine=self._engine.name,
            shards=tuple(self._shard_report(judged[shard].report) for shard in sorted(judged)),
            acknowledged=acknowledged,
            violations=found.first,
            counts=tuple(sorted(found.counts.items(), key=lambda each: ORDER[ViolationKind(each[0])])),
            written=found.written,
            not_judged=tuple(dict.fromkeys(self._not_judged)),
            bytes=self._plan.total_bytes,
            seconds=time.perf_counter() - self._begun,
        )

    # -- logs

    def _tell_unread(self, outlines: Iterable[SpanFacts]) -> None:
        for facts in outlines:
            replica = self._plan.replicas[facts.span.replica]
            if not facts.unread:
                continue
            if facts.is_gone and replica.is_running:
                begin = self._snapshot_now(replica).end
                if facts.span.end <= begin:
                    moved = f"retention has moved the log start to position {begin} meanwhile"
                    self._notes[replica.shard].append(f"{replica.source}: {moved}; earlier entries are not judged")
                    continue
            self._not_judged.append(f"{replica.source}, shard {replica.shard}: {facts.unread}")

    def _tell_lost_bases(self, replayed: Mapping[int, Replayed]) -> None:
        for replica in self._plan.replicas:
            start = replica.start
            if replica.base is None or start is None or start.index in replayed[replica.number].states:
                continue
            if replica.is_running and self._snapshot_now(replica).index > start.index:
                note = (
                    f"{replica.source}: its state is not compared, because retention has moved its log start meanwhile"
                )
                self._notes[replica.shard].append(note)

    def _begin_of(self, replica: LogReplica) -> int:
        """Return the position at which the replica's log begins now, as the replica's files state."""
        return self._snapshot_now(replica).end if replica.is_running and replica.indexes is not None else replica.begin

    def _snapshot_now(self, replica: LogReplica) -> Snapshot:
        """Return the present snapshot of a running replica. The snapshot is read once, after the spans of the log."""
        if replica.number not in self._snapshots:
            self._snapshots[replica.number] = present_snapshot(replica)
        return self._snapshots[replica.number]

    def _joined(self, outlines: dict[int, SpanFacts]) -> dict[int, JoinedLog]:
        for _ in range(_TRIES):
            logs = {replica.number: self._join(replica, outlines) for replica in self._plan.replicas}
            misled = [each for log in logs.values() for each in log.misled]
            if not misled:
                break
            spans = [outlines[number].span for number, _ in misled]
            exact = [
                replace(span, begin=min(begin, span.end), is_exact=True)
                for span, (_, begin) in zip(spans, misled, strict=True)
            ]
            outlines.update({facts.span.number: facts for facts in self._engine.read_again(exact)})
        return logs

    def _join(self, replica: LogReplica, outlines: Mapping[int, SpanFacts]) -> JoinedLog:
        def look(which: int, position: int, end: int) -> EntryGap:
            segment = replica.segments[which]
            return look_at(access_to(segment.path), segment, position, end, replica.largest_entry)

        mine = [facts for facts in outlines.values() if facts.span.replica == replica.number]
        try:
            log = join(replica, mine, look)
        except SourceError as error:
            self._not_judged.append(str(error))
            log = JoinedLog(replica, last=replica.start, end=replica.begin, is_read=False)
        log.entries = sum(facts.entries for facts in mine)
        log.messages = sum(facts.messages for facts in mine)
        for place in log.torn:
            where = f"{replica.source}, shard {replica.shard}: at position {place.position} of the log"
            self._notes[replica.shard].append(
                f"{where}: {place.reason}: a torn end; the next start of the node erases it"
            )
        return log

    def _of_logs(
        self,
        logs: Mapping[int, JoinedLog],
        replayed: Mapping[int, Replayed],
        names: Mapping[int, Mapping[int, str]],
    ) -> list[Violation]:
        violations: list[Violation] = []
        for number, log in logs.items():
            violations += place_violations(log.replica, log)
            told = replayed[number]
            violations += [
                misfit_violation(log.replica, each, names[log.replica.shard], _path(log.replica, each.position))
                for each in told.told
            ]
        return violations

    def _judge_judged(self, judged: Mapping[int, Judged]) -> None:
        for shard, each in judged.items():
            if not each.committed:
                self._not_judged.append(f"shard {shard}: no entry is known to be committed")
        sources = {replica.source for replica in self._plan.replicas}
        common = [shard for shard, replicas in self._by_shard.items() if len({each.source for each in replicas}) > 1]
        if len(sources) > 1 and not common:
            self._not_judged.append("the sources have no shard in common, so no replicas can be compared")
        for shard, replicas in self._by_shard.items():
            if len(replicas) == 1:
                self._notes[shard].append(
                    f"only {replicas[0].source} has a replica of this shard, so nothing is compared with it"
                )

    # -- indexes and histories

    def _of_indexes(
        self,
        logs: Mapping[int, JoinedLog],
        replayed: Mapping[int, Replayed],
        judged: Mapping[int, Judged],
        outlines: Iterable[SpanFacts],
        names: Mapping[int, Mapping[int, str]],
    ) -> list[Violation]:
        by_replica: dict[int, list[SpanFacts]] = defaultdict(list)
        for facts in outlines:
            by_replica[facts.span.replica].append(facts)
        known = [
            IndexEnds(
                replica=log.replica,
                ends=replayed[number].ends,
                deleted=replayed[number].deleted,
                knows_queues=replayed[number].is_known,
                is_continuous=replayed[number].is_known,
                log_end=log.end,
                committed=min(judged[log.replica.shard].committed, log.last_index),
                absent_units=[each for facts in by_replica[number] for each in facts.absent_units],
                absent_keys=[each for facts in by_replica[number] for each in facts.absent_keys],
                names=names[log.replica.shard],
                waiting=replayed[number].waiting,
            )
            for number, log in logs.items()
            if log.replica.indexes is not None
        ]
        found = self._engine.index_ends(known)
        for each in found:
            self._not_judged += each.unread
            for shard, note in notes_of(each.left):
                self._notes[shard].append(note)
        return [violation for each in found for violation in each.violations]

    def _acknowledged(
        self,
        histories: Sequence[Path],
        judged: Mapping[int, Judged],
        replayed: Mapping[int, Replayed],
        logs: Mapping[int, JoinedLog],
        violations: list[Violation],
    ) -> AcknowledgedReport | None:
        if not histories:
            return None
        wanted: list[WantedMessages] = []
        queues: dict[tuple[int, int], KnownQueue] = {}
        all_kept = True
        for shard, each in judged.items():
            topics = {number: topic_hash(name) for number, name in self._names(shard, replayed).items()}
            log = logs[each.reference]
            # If the reference log is damaged, another replica may have the messages that it lacks.
            whole = log.is_read and not log.wrong
            others = [logs[replica.number] for replica in self._by_shard[shard]]
            wanted += [
                WantedMessages(one.replica.number, topics, each.committed, one.end)
                for one in ([log] if whole else others)
            ]
            told, begins = replayed[each.reference], self._begins(log, replayed[each.reference])
            times = Counter(topics.values())
            for topic, queue in told.ends:
                if topic in topics:
                    # Where the log has lost its beginning, messages of an earlier topic of that name may be gone.
                    is_one = times[topics[topic]] == 1 or log.replica.base is None
                    begin = begins.get((topic, queue), 0) if is_one else _NOTHING_KEPT
                    queues[topics[topic], queue] = KnownQueue(shard, begin)
            all_kept &= log.replica.base is None
        found = self._engine.acknowledged(histories, wanted, queues, all_kept=all_kept)
        violations += self._judged_missing(found, judged, logs)
        self._not_judged += [
            f"{path} has no whole line, so the logs are not compared with it"
            for path in histories
            if not has_a_line(path)
        ]
        half = tuple(str(path) for path in histories if ends_in_half_a_line(path))
        return AcknowledgedReport(tuple(map(str, histories)), found.acknowledged, found.in_tail, found.dropped, half)

    def _begins(self, log: JoinedLog, replayed: Replayed) -> Mapping[tuple[int, int], int]:
        """Return the first kept offset of each queue whose first messages were removed, by topic and queue.
        Messages that retention removed during the validation, before they were read, count as removed."""
        if log.is_read or not log.replica.is_running:
            return replayed.begins
        try:
            now = State.decode(self._snapshot_now(log.replica).state)
        except LedgerError:
            return replayed.begins
        return {**replayed.begins, **{(topic, queue): end for topic, queue, end in now.ends()}}

    def _judged_missing(
        self, found: AcknowledgedFound, judged: Mapping[int, Judged], logs: Mapping[int, JoinedLog]
    ) -> list[Violation]:
        """Return the violations. If a message may be in an unreadable part of a log, the violation about this
        missing message is left out."""
        left_out = Counter(found.left_out)
        kept = found.violations
        if not all(logs[each.reference].is_read for each in judged.values()):
            kept = [each for each in kept if each.kind is not ViolationKind.ACKNOWLEDGED_MISSING]
            missing = len(found.violations) - len(kept) + left_out.pop(ViolationKind.ACKNOWLEDGED_MISSING.value, 0)
            if missing:
                self._not_judged.append(
                    f"{missing:,} acknowledged messages were not found in the parts of logs that could be read"
                )
        self._left_out += left_out
        return kept

    # -- names

    def _names(self, shard: int, replayed: Mapping[int, Replayed]) -> dict[int, str]:
        """Return the names of topics by id, from all replicas. A topic has the same id in all shards."""
        names: dict[int, str] = {}
        for each in sorted(replayed.values(), key=lambda each: self._plan.replicas[each.replica].shard == shard):
            names.update(each.topics)
        return names

    def _shard_report(self, report: ShardReport) -> ShardReport:
        notes = dict.fromkeys([*self._notes[report.shard], *report.notes])
        return replace(report, notes=tuple(notes))

    # -- messages of lost entries

    def _contents(
        self,
        known: Iterable[LostEntries],
        logs: Mapping[int, JoinedLog],
        judged: Mapping[int, Judged],
        outlines: Iterable[SpanFacts],
    ) -> Contents:
        """Return the messages of entries that replicas have lost, as the other replicas know them. `known` are the
        entries of violations; the entries of the breaks in the spans come beside."""
        facts = list(outlines)
        lost: dict[int, list[LostEntries]] = defaultdict(list)
        for each in known:
            lost[logs[each.replica].replica.shard].append(each)
        for span in facts:
            number = span.span.replica
            lost[logs[number].replica.shard] += [
                LostEntries(number, each.index, each.last_index) for each in span.breaks
            ]
        contents: dict[LostEntries, tuple[QueueExtent, ...]] = {}
        for shard, some in lost.items():
            reference = judged[shard].reference
            trusted = sorted(
                (log for log in logs.values() if log.replica.shard == shard),
                key=lambda log: (log.replica.number != reference, bool(log.wrong)),
            )
            contents.update(contents_of(some, trusted, facts, partial(self._rows, logs)))
        return contents

    def _rows(self, logs: Mapping[int, JoinedLog], facts: SpanFacts) -> list[Rows]:
        """Read a span again, and return the headers of its whole entries."""
        log = logs[facts.span.replica]
        access = access_to(log.replica.segments[0].path)
        return [entries.rows for _, entries in entries_in(log.replica, facts.span, access, log.end)]


def _counted(replicas: Iterable[LogReplica], outlines: Iterable[SpanFacts]) -> dict[int, tuple[int, int, int]]:
    counted = {replica.number: (0, 0, 0) for replica in replicas}
    for facts in outlines:
        messages, units, keys = counted[facts.span.replica]
        counted[facts.span.replica] = (messages + facts.messages, units + facts.units, keys + facts.keys)
    return counted


def _path(replica: LogReplica, position: int) -> str | None:
    return next((each.path for each in replica.segments if each.base <= position < each.base + each.length), None)


def _lost_entries(
    violations: Iterable[Violation], logs: Iterable[JoinedLog], judged: Mapping[int, Judged]
) -> list[LostEntries | None]:
    """Return for each violation the entries that it says are lost, or None."""
    by_place = {(log.replica.source, log.replica.shard): log for log in logs}
    found = []
    for each in violations:
        log = by_place.get((each.source, each.shard))
        found.append(lost_in(log, each, judged[each.shard].report.last_index) if log is not None else None)
    return found
