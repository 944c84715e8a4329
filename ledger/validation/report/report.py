"""The report of a validation, as values. Text, JSON, page and Parquet file are made from the report. The report has
the first violations of each kind, and the number of all violations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ledger.validation.judging.violation import Violation, ViolationKind

# The exit statuses.
VALID, VIOLATED, NOT_JUDGED = 0, 1, 2
# The most violations of each kind that a report has.
SHOWN = 100
COURSE_POINTS = 64


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """One replica of a shard, as it was at the start of the validation."""

    source: str
    node: int | None
    is_running: bool
    # None: the replica has no entries.
    first_index: int | None
    last_index: int
    # The position after the last entry.
    end: int
    known_commit: int
    entries: int
    messages: int
    # The size of the log in bytes, with blank space. For a running node: up to its last entry.
    bytes: int
    # The number of entries that the longest replica has and this replica lacks.
    behind: int
    # The number of these entries that are committed.
    lacks_committed: int
    # The first index at which the replica diverges from the reference of the shard; None: it does not diverge.
    parts_at: int | None
    # The number of ConsumeQueue units that agree with the log.
    units: int
    # The number of entries of the key index that agree with the log.
    keys: int
    # Whether units and keys could be read.
    has_indexes: bool
    # The digest of the replayed state at `ShardReport.state_index`.
    state: str | None
    # The terms of the log, each with its first index.
    terms: tuple[tuple[int, int], ...]
    # Index and position of at most `COURSE_POINTS` entries, from the first to the last.
    course: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ShardReport:
    shard: int
    replicas: tuple[ReplicaReport, ...]
    # The source with which other replicas are compared: a whole log with the most committed entries.
    reference: str
    # The index up to which the log of the shard is known to be committed.
    committed: int
    # The largest index of any replica.
    last_index: int
    voters: tuple[int, ...]
    # The largest index at which the states of all replicas are known; None: there is none.
    state_index: int | None
    # Observations that are not violations: divergences in the tail, torn ends, indexes that lag, replicas that are
    # behind and have the same digest as the others.
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AcknowledgedReport:
    """The result of the comparison with the histories of clients."""

    histories: tuple[str, ...]
    # The number of messages whose sends were acknowledged.
    acknowledged: int
    # The number of acknowledged messages found after the index that the sources prove committed.
    in_tail: int
    # The number of acknowledged messages that retention has removed.
    dropped: int
    # The histories that end in the middle of a line. The operations of these lines are not judged.
    half_lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ValidationReport:
    sources: tuple[str, ...]
    # `plain`, or the Spark master.
    engine: str
    shards: tuple[ShardReport, ...]
    acknowledged: AcknowledgedReport | None
    # The first violations of each kind, sorted by kind (the worst first), shard and place.
    violations: tuple[Violation, ...]
    # The number of all violations, by kind.
    counts: tuple[tuple[str, int], ...]
    # How many of them are told one by one, in the file of violations: of each kind no more than `bound.MAX_TOLD` in a
    # span. The others are counted.
    written: int
    # Why something could not be judged, one sentence each. If there is one, the verdict is not "valid".
    not_judged: tuple[str, ...]
    # That were read: less than the files have where some of their space was never written.
    bytes: int
    seconds: float

    @property
    def violation_count(self) -> int:
        return sum(count for _, count in self.counts)

    @property
    def status(self) -> int:
        """The exit status: NOT_JUDGED if a source could not be judged; otherwise VIOLATED or VALID."""
        if self.not_judged:
            return NOT_JUDGED
        return VIOLATED if self.counts else VALID

    @property
    def verdict(self) -> str:
        return {VALID: "valid", VIOLATED: "violated", NOT_JUDGED: "could not be judged"}[self.status]

    def fields(self) -> dict[str, Any]:
        """Return the report as the fields of a JSON object."""
        return {
            "verdict": self.verdict,
            "status": self.status,
            **{name: value for name, value in asdict(self).items() if name not in ("violations", "counts")},
            "violation_count": self.violation_count,
            "counts": dict(self.counts),
            "violations": [violation.fields() for violation in self.violations],
        }


def some_of_each_kind(violations: Sequence[Violation], most: int) -> list[Violation]:
    """Return `most` of the violations in the same order, so that no kind hides another kind: each kind has its first
    violation, and the kinds share the rest of the places evenly. If there are more kinds than places, one of each."""
    turns: dict[ViolationKind, int] = defaultdict(int)
    ranked = []
    for number, violation in enumerate(violations):
        ranked.append((turns[violation.kind], number))
        turns[violation.kind] += 1
    chosen = sorted(ranked)[: max(most, len(turns))]
    return [violations[number] for number in sorted(number for _, number in chosen)]


def first_of_each_kind(violations: Iterable[Violation], most: int = SHOWN) -> list[Violation]:
    """Return the first violations of each kind, at most `most` of each, sorted by place."""
    shown: dict[ViolationKind, list[Violation]] = defaultdict(list)
    for violation in sorted(violations, key=lambda violation: violation.order):
        if len(shown[violation.kind]) < most:
            shown[violation.kind].append(violation)
    return sorted((each for kind in shown.values() for each in kind), key=lambda violation: violation.order)
