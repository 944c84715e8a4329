"""The report: what a validation found, as values, for whoever shows it.

Everything that is ever shown of a validation is here, plain and complete: the text, the JSON, the table of violations
and the page are only ways to show it. The first violations are here; where there are more, they are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ledger.validation.judging.violation import Violation, ViolationKind

VALID, VIOLATED, NOT_JUDGED = 0, 1, 2
"""Exit statuses."""
SHOWN = 100
"""Violations of each kind that a report carries: no kind hides another."""
COURSE_POINTS = 64


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """One replica of a shard, as it was when the validation began."""

    source: str
    node: int | None
    is_running: bool
    first_index: int | None
    """None: it has no entries."""
    last_index: int
    end: int
    """Position behind its last entry."""
    known_commit: int
    entries: int
    messages: int
    bytes: int
    """Of its log, with blank space; of a running node up to its last entry."""
    behind: int
    """Entries that the longest replica of the same branch has behind its last one."""
    lacks_committed: int
    """How many of these are committed."""
    parts_at: int | None
    """The first index at which it differs from the shard's reference; None: it is a prefix of it, or the same."""
    units: int
    """ConsumeQueue units that are what the log gives."""
    keys: int
    """Entries of the key index that are."""
    has_indexes: bool
    """Whether units and keys could be looked at."""
    state: str | None
    """Digest of the replayed state at `ShardReport.state_index`."""
    terms: tuple[tuple[int, int], ...]
    """(term, its first index), as the log goes through them."""
    course: tuple[tuple[int, int], ...]
    """(index, position) of some entries, at most `COURSE_POINTS` from the first one to the last: how the log grows."""


@dataclass(frozen=True, slots=True)
class ShardReport:
    shard: int
    replicas: tuple[ReplicaReport, ...]
    reference: str
    """The source that has the most of what is committed, whole; the others are compared with it where they differ."""
    committed: int
    """Index up to which the shard's log is surely committed."""
    last_index: int
    """The largest of any replica."""
    voters: tuple[int, ...]
    state_index: int | None
    """The largest index at which the states of all replicas were told."""
    notes: tuple[str, ...]
    """What is worth knowing, and no violation: differences in the tail, torn ends, indexes that lag."""


@dataclass(frozen=True, slots=True)
class AcknowledgedReport:
    """Of the histories."""

    histories: tuple[str, ...]
    acknowledged: int
    """Messages that clients were told are committed."""
    in_tail: int
    """Found, but behind what the sources given prove committed."""
    dropped: int
    """Of offsets that the log does not keep any more."""


@dataclass(frozen=True, slots=True)
class Report:
    sources: tuple[str, ...]
    engine: str
    """`plain`, or the Spark master."""
    shards: tuple[ShardReport, ...]
    acknowledged: AcknowledgedReport | None
    violations: tuple[Violation, ...]
    """The first ones of each kind, by shard, kind and place."""
    counts: tuple[tuple[str, int], ...]
    """Of all violations, by kind."""
    written: int
    """How many of them are told one by one, in the file of violations: of each kind no more than `bound.MAX_TOLD` in a
    span. The others are counted."""
    not_judged: tuple[str, ...]
    """What could not be judged, and why: one sentence each. A report with any is never valid."""
    bytes: int
    """That were read: less than the files have where some of their space was never written."""
    seconds: float

    @property
    def violation_count(self) -> int:
        return sum(count for _, count in self.counts)

    @property
    def status(self) -> int:
        """What could not be read might hold anything: that comes first, and hides no violation, which is told too."""
        if self.not_judged:
            return NOT_JUDGED
        return VIOLATED if self.counts else VALID

    @property
    def verdict(self) -> str:
        return {VALID: "valid", VIOLATED: "violated", NOT_JUDGED: "could not be judged"}[self.status]

    def fields(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "verdict": self.verdict,
            "status": self.status,
            **{name: value for name, value in asdict(self).items() if name not in ("violations", "counts")},
            "violation_count": self.violation_count,
            "counts": dict(self.counts),
            "violations": [violation.fields() for violation in self.violations],
        }


def first_of_each_kind(violations: Iterable[Violation], most: int = SHOWN) -> list[Violation]:
    """At most so many of each kind: by default those that a report carries."""
    shown: dict[ViolationKind, list[Violation]] = defaultdict(list)
    for violation in sorted(violations, key=lambda violation: violation.order):
        if len(shown[violation.kind]) < most:
            shown[violation.kind].append(violation)
    return sorted((each for kind in shown.values() for each in kind), key=lambda violation: violation.order)
