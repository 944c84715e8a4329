"""The interface of an engine, which reads spans and combines their results; and the functions that engines run.

    read spans ─> outlines ─> (join) ─> replay each replica, compare windows, look at ends of indexes ─> violations
                                        read the windows that differ once more, entry by entry
                                        read what clients were told, and the messages

Pure functions make all judgements, from the facts that were collected about each span of a log. An engine only decides
in which process the judging functions run. The engine in a single process and the engine on Spark find the same
violations, because both engines run the same functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ledger.validation.judging.acknowledged import KnownQueue, Messages, messages_in
from ledger.validation.judging.bound import Bound
from ledger.validation.judging.contents import LOSSES, QueueExtent, with_contents
from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.judging.windows import DivergedRange, Said, said_in
from ledger.validation.naming import rendered, topic_name
from ledger.validation.replay.index_ends import IndexEnds, IndexEndsFound
from ledger.validation.replay.replay import PlacedMisfit, Replayed
from ledger.validation.sources.access import Access
from ledger.validation.sources.errors import SegmentGoneError, SourceError
from ledger.validation.sources.replica import LogReplica, ReplicaSpan
from ledger.validation.spans.batches import batches_of
from ledger.validation.spans.block import SpanBlock
from ledger.validation.spans.entries import Entries
from ledger.validation.spans.span_reader import SpanFacts, runs_in
from ledger.validation.spans.span_steps import SpanSteps

# Takes how many spans and bytes are behind, and how many things were found wrong in them.
OnProgress = Callable[[int, int, int], None]
# Of those in which replicas differ: so many are read entry by entry, and held, at a time.
WINDOWS_AT_ONCE = 64


def no_progress(_spans: int, _bytes: int, _wrong: int) -> None:
    """Ignore reports of progress."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The replicas and the spans that an engine reads."""

    replicas: tuple[LogReplica, ...]
    spans: tuple[ReplicaSpan, ...]
    # For each shard: the indexes at which the replay reports the state, ascending.
    cuts: Mapping[int, tuple[int, ...]]

    @property
    def total_bytes(self) -> int:
        return sum(span.end - span.begin for span in self.spans)


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The bounds of one replica's log, known after its spans were joined."""

    # The present start of the log. A running node may have removed the indexes of what lies before.
    begin: int
    # The end of the log: entries that begin there or later are no part of it.
    end: int
    # The names of topics, by id.
    names: Mapping[int, str]
    # Positions of entries with a correct chain after an entry that says a wrong chain.
    excused: frozenset[int] = frozenset()
    # The messages of entries that this replica has lost, by the first and the last index of the entries.
    lost: Mapping[tuple[int, int], tuple[QueueExtent, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WantedMessages:
    """The messages of one replica that are compared with the histories."""

    replica: int
    # Hashes of names by topic id.
    topics: Mapping[int, int]
    committed: int
    end: int


@dataclass(slots=True)
class AcknowledgedFound:
    violations: list[Violation]
    acknowledged: int
    # How many violations are not in `violations`, by kind.
    left_out: Counter[str]
    in_tail: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Violations:
    """The first violations, and the number of all violations."""

    first: tuple[Violation, ...]
    # The number of all violations, by kind.
    counts: Mapping[str, int]
    # How many violations were written to the file one by one.
    written: int


class Engine(Protocol):
    @property
    def name(self) -> str:
        """The name of the engine in reports."""

    def read(self, plan: ReadPlan) -> list[SpanFacts]:
        """Read all spans. Return the outlines of the spans. An outline has only the facts that are needed to join
        spans: no windows, no steps, and no faults inside the span."""

    def read_again(self, spans: Sequence[ReplicaSpan]) -> list[SpanFacts]:
        """Read spans again after the joining has found where their first entry begins. The new facts replace the
        earlier facts of the spans with the same numbers."""

    def replay(self, ends: Mapping[int, int]) -> tuple[list[Replayed], list[Violation], list[str]]:
        """Replay each replica up to the end of its log, given in `ends` by replica.

        Return the replays, the violations of snapshots, and a sentence for each snapshot that could not be judged."""

    def differing_windows(self) -> dict[int, set[int]]:
        """Return for each shard the windows in which replicas differ."""

    def divergences(self, windows: Mapping[int, set[int]], ends: Mapping[int, int]) -> dict[int, list[DivergedRange]]:
        """Read `windows` again, and return the divergences of the replicas by shard."""

    def index_ends(self, known: Sequence[IndexEnds]) -> list[IndexEndsFound]:
        """Return the result of `check_index_ends` for each replica in `known`."""

    def acknowledged(
        self,
        histories: Sequence[Path],
        wanted: Sequence[WantedMessages],
        queues: Mapping[tuple[int, int], KnownQueue],
        *,
        all_kept: bool,
    ) -> AcknowledgedFound:
        """Compare the messages of the logs with the histories that clients wrote. Raises HistoryError."""

    def violations(
        self,
        bounds: Mapping[int, LogBounds],
        others: Sequence[Violation],
        left_out: Mapping[str, int],
        out: Path | None,
    ) -> Violations:
        """Return the violations that were found inside spans, together with the violations in `others`. `left_out`
        counts, by kind, the violations that are missing in `others`. With `out`, also write violations as Parquet
        into that directory. Raises LedgerError if the violations cannot be written."""


# -- what engines run


def outline_of(facts: SpanFacts) -> SpanFacts:
    """Return the facts of a span that are needed to join it with its neighbours, and to name lost messages."""
    losses = [each for each in facts.breaks if each.kind in LOSSES]
    return replace(
        facts, windows=[], steps=SpanSteps(), breaks=losses, misfits=[], wrong_positions=[], wrong_units=[],
        wrong_keys=[], bound=Bound(),
    )  # fmt: skip


def left_out_of(facts: SpanFacts, replica: LogReplica, bounds: LogBounds) -> Counter[str]:
    """Return, by kind, how many violations of a span `violations_in` does not yield because there were too many."""
    return facts.bound.left_out(_end_of(replica, bounds))


def _end_of(replica: LogReplica, bounds: LogBounds) -> int:
    """Return the position where violations end: the end of the log, or of a running replica's settled bytes."""
    return min(bounds.end, replica.settled) if replica.is_running else bounds.end


def violations_in(facts: SpanFacts, replica: LogReplica, bounds: LogBounds) -> Iterator[Violation]:
    """Yield the violations that are found in a span without looking at other spans."""
    end = _end_of(replica, bounds)
    path = replica.segments[facts.span.segment].path
    for each in facts.breaks:
        if each.position < end and not (each.kind is ViolationKind.CHAIN_BROKEN and each.position in bounds.excused):
            found = Violation(
                each.kind, replica.shard, replica.source, rendered(each.reason, bounds.names), index=each.index,
                position=each.position, last_index=each.last_index, end=each.end, path=path,
            )  # fmt: skip
            extents = bounds.lost.get((each.index, each.last_index)) if each.kind in LOSSES else None
            yield found if extents is None else with_contents(found, extents, bounds.names)
    for told in facts.misfits:
        if told.position < end:
            yield misfit_violation(replica, told, bounds.names, path)
    for positions in facts.wrong_positions:
        yield Violation(
            ViolationKind.POSITION_WRONG, replica.shard, replica.source, positions.reason, index=positions.index,
            position=positions.position, last_index=positions.last_index, end=positions.end, path=positions.path,
        )  # fmt: skip
    for units in facts.wrong_units:
        reason = f"the unit of offset {units.offset} is not what the log gives for entry {units.index}"
        yield Violation(
            ViolationKind.UNIT_WRONG, replica.shard, replica.source, reason, index=units.index,
            position=units.position, last_index=units.last_index, end=units.end,
            topic=topic_name(bounds.names, units.topic_id), queue=units.queue, offset=units.offset, path=units.path,
        )  # fmt: skip
    for keys in (each for each in facts.wrong_keys if each.log_position >= bounds.begin):
        what = {ViolationKind.KEY_MISSING: "are missing", ViolationKind.KEY_WRONG: "are not those that the log gives"}
        reason = f"the keys of entry {keys.index} {what.get(keys.kind, '')}"
        if keys.kind is ViolationKind.KEY_SURPLUS:
            reason = "entries are of batches that the log does not have, or that have no keys"
        yield Violation(
            keys.kind, replica.shard, replica.source, reason, index=keys.index, position=keys.position, end=keys.end,
            path=keys.path,
        )  # fmt: skip


def misfit_violation(replica: LogReplica, told: PlacedMisfit, names: Mapping[int, str], path: str | None) -> Violation:
    return Violation(
        told.kind, replica.shard, replica.source, rendered(told.reason, names), index=told.index,
        position=told.position or None, topic=topic_name(names, told.topic_id), queue=told.queue,
        offset=told.offset, path=path,
    )  # fmt: skip


def entries_in(replica: LogReplica, span: ReplicaSpan, access: Access, end: int) -> Iterator[tuple[SpanBlock, Entries]]:
    """Read the entries of a span again, up to the end of the log. Entries that cannot be read are skipped: the first
    reading reported them, or retention has removed them."""
    try:
        block = SpanBlock.read(access, replica.segments[span.segment], span.begin, span.end, replica.largest_entry)
        for piece in runs_in(block, span.begin if span.is_exact else None):
            if isinstance(piece, Entries) and piece.header(0).position < end:
                yield block, piece
    except (SourceError, SegmentGoneError):
        return


def said_of(replica: LogReplica, span: ReplicaSpan, access: Access, windows: Iterable[int], end: int) -> list[Said]:
    import numpy as np

    chosen = np.array(sorted(windows), np.int64)
    return [said_in(entries, replica.number, chosen) for _, entries in entries_in(replica, span, access, end)]


def messages_of(replica: LogReplica, span: ReplicaSpan, access: Access, wanted: WantedMessages) -> Iterator[Messages]:
    for block, entries in entries_in(replica, span, access, wanted.end):
        facts, _ = batches_of(block, entries)
        yield messages_in(block, facts, wanted.topics, replica, wanted.committed)
