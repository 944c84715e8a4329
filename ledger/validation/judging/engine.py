"""An engine: who reads spans, and brings together what belongs together.

    read spans ─> outlines ─> (join) ─> replay each replica, compare windows, look at ends of indexes ─> violations
                                        read the windows that differ once more, entry by entry
                                        read what clients were told, and the messages

All judgement is in pure functions of what spans say; an engine only decides where they run. So the one of a single
process and the one on Spark say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ledger.validation.judging.acknowledged import KnownQueue, Messages, messages_in
from ledger.validation.judging.bound import Bound
from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.judging.windows import Divergence, Said, said_in
from ledger.validation.replay.index_ends import IndexEnds, IndexEndsFound
from ledger.validation.replay.replay import Replayed
from ledger.validation.sources.access import Access, SegmentGoneError, SourceError
from ledger.validation.sources.replica import LogReplica, ReplicaSpan
from ledger.validation.spans.batches import batches_of
from ledger.validation.spans.block import SpanBlock
from ledger.validation.spans.entries import Entries
from ledger.validation.spans.span_reader import SpanFacts, runs_in

# Takes how many spans and bytes are behind, and how many things were found wrong in them.
OnProgress = Callable[[int, int, int], None]
# Of those in which replicas differ: so many are read entry by entry, and held, at a time.
WINDOWS_AT_ONCE = 64


def no_progress(_spans: int, _bytes: int, _wrong: int) -> None:
    """For whom nobody watches."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What is to be read."""

    replicas: tuple[LogReplica, ...]
    spans: tuple[ReplicaSpan, ...]
    # By shard: the indexes at which states are to be told, ascending.
    cuts: Mapping[int, tuple[int, ...]]

    @property
    def total_bytes(self) -> int:
        return sum(span.end - span.begin for span in self.spans)


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Of one replica, once its spans were joined."""

    # Where its log begins by now: the indexes of what lies before may be gone, of a node that runs.
    begin: int
    # Where its log ends: what begins there or behind is no part of it.
    end: int
    # Of topics, by id.
    names: Mapping[int, str]
    # Positions of entries whose chain is right, and continues the right one of an entry that says a wrong one.
    excused: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class WantedMessages:
    """Messages that are to be laid over the histories: those of one replica."""

    replica: int
    # Hashes of names by topic id.
    topics: Mapping[int, int]
    committed: int
    end: int


@dataclass(slots=True)
class AcknowledgedFound:
    violations: list[Violation]
    acknowledged: int
    # How many are not in `violations`, by kind.
    left_out: Counter[str]
    in_tail: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Violations:
    """All that there are, of which the first ones are here."""

    first: tuple[Violation, ...]
    # Of all, by kind.
    counts: Mapping[str, int]
    # How many were told one by one.
    written: int


class Engine(Protocol):
    @property
    def name(self) -> str:
        """As a report calls it."""

    def read(self, plan: ReadPlan) -> list[SpanFacts]:
        """Reads all spans. Returns what joins them: without windows, steps and what is wrong within."""

    def read_again(self, spans: Sequence[ReplicaSpan]) -> list[SpanFacts]:
        """Spans whose beginning is known better now: they take the place of those with their numbers."""

    def replay(self, ends: Mapping[int, int]) -> tuple[list[Replayed], list[Violation], list[str]]:
        """The replay of each replica, up to the end of its log, what is wrong with its snapshots, and why some could
        not be judged. `ends`: by replica."""

    def differing_windows(self) -> dict[int, set[int]]:
        """By shard."""

    def divergences(self, windows: Mapping[int, set[int]], ends: Mapping[int, int]) -> dict[int, list[Divergence]]:
        """By shard: where replicas part, within these windows. Reads them once more."""

    def index_ends(self, known: Sequence[IndexEnds]) -> list[IndexEndsFound]:
        """What `check_index_ends` says of each."""

    def acknowledged(
        self,
        histories: Sequence[Path],
        wanted: Sequence[WantedMessages],
        queues: Mapping[tuple[int, int], KnownQueue],
        *,
        all_kept: bool,
    ) -> AcknowledgedFound:
        """Raises HistoryError."""

    def violations(
        self,
        bounds: Mapping[int, LogBounds],
        others: Sequence[Violation],
        left_out: Mapping[str, int],
        out: Path | None,
    ) -> Violations:
        """What is wrong within spans, and these `others`, of whose kinds so many were left out; what is told one by one
        as Parquet in the directory `out`, if any. Raises LedgerError where that cannot be written."""


# -- what engines run


def outline_of(facts: SpanFacts) -> SpanFacts:
    """What is needed of a span to join it."""
    return replace(
        facts, windows=[], steps=[], breaks=[], misfits=[], wrong_positions=[], wrong_units=[], wrong_keys=[],
        bound=Bound(),
    )  # fmt: skip


def left_out_of(facts: SpanFacts, replica: LogReplica, bounds: LogBounds) -> Counter[str]:
    """How many violations of a span are not in `violations_in`, since they were too many."""
    return facts.bound.left_out(_end_of(replica, bounds))


def _end_of(replica: LogReplica, bounds: LogBounds) -> int:
    """Where violations end; of a replica that runs, where bytes may still be replaced."""
    return min(bounds.end, replica.settled) if replica.is_running else bounds.end


def violations_in(facts: SpanFacts, replica: LogReplica, bounds: LogBounds) -> Iterator[Violation]:
    """What is wrong within a span."""
    end = _end_of(replica, bounds)
    path = replica.segments[facts.span.segment].path
    for each in facts.breaks:
        if each.position < end and not (each.kind is ViolationKind.CHAIN_BROKEN and each.position in bounds.excused):
            yield Violation(
                each.kind, replica.shard, replica.source, each.reason, index=each.index, position=each.position,
                last_index=each.last_index, end=each.end, path=path,
            )  # fmt: skip
    for told in facts.misfits:
        if told.position < end:
            yield misfit_violation(replica, told.kind, told.reason, told, bounds.names, path)
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


def misfit_violation(
    replica: LogReplica, kind: ViolationKind, reason: str, told: object, names: Mapping[int, str], path: str | None
) -> Violation:
    from ledger.validation.replay.replay import PlacedMisfit

    assert isinstance(told, PlacedMisfit)
    return Violation(
        kind, replica.shard, replica.source, reason, index=told.index, position=told.position or None,
        topic=topic_name(names, told.topic_id), queue=told.queue, offset=told.offset, path=path,
    )  # fmt: skip


def topic_name(names: Mapping[int, str], topic_id: int) -> str:
    return names.get(topic_id, f"id {topic_id}")


def entries_in(replica: LogReplica, span: ReplicaSpan, access: Access, end: int) -> Iterator[tuple[SpanBlock, Entries]]:
    """The entries of a span once more, up to the end of the log. What cannot be read any more is passed over: it was
    told when it was read first, or is gone by retention."""
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
