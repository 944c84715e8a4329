"""Finds where the pictures of a report mark violations. For each violation, this module finds an index and a position
in each log that the violation concerns.

    position
       |            x     a violation without a position lies on the log's curve at its index;
       |        ....      so does a violation whose position is in another file, such as a snapshot
       |    ....
       +------------ index

A picture of a log has entry indexes on one axis and byte positions on the other, so a mark needs an index and a
position. If a violation has only an index or only a position, the curve of its log gives the missing value. Violations
without an index and without a position are in no picture; the report counts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.report.report import ReplicaReport, ShardReport

# Kinds whose position is one of the log, and not of the file beside it.
_IN_LOG = frozenset(
    {
        ViolationKind.DAMAGED_ENTRY, ViolationKind.UNKNOWN_ENTRY, ViolationKind.MISSING_ENTRIES,
        ViolationKind.MISSING_SEGMENT, ViolationKind.NOT_BLANK, ViolationKind.OUT_OF_PLACE, ViolationKind.TERM_FALLS,
        ViolationKind.CHAIN_BROKEN, ViolationKind.LOG_CUT, ViolationKind.DAMAGED_BATCH, ViolationKind.REPLICAS_DIFFER,
        ViolationKind.FORKED_TERM, ViolationKind.OFFSET_HOLE, ViolationKind.SEQUENCE_GAP,
        ViolationKind.SEQUENCE_REPEATED, ViolationKind.EPOCH_FENCED, ViolationKind.UNKNOWN_QUEUE,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark that shows a violation in the picture of one replica."""

    kind: ViolationKind
    index: float
    position: float
    # Of a run of entries; else `index`.
    last_index: float


def marks_of(replica: ReplicaReport, violations: Iterable[Violation]) -> list[Mark]:
    """Return the marks of all violations that concern this replica, a pair of replicas with this replica, or the
    whole shard."""
    found = (_mark(replica, each) for each in violations if is_of(replica, each))
    return [mark for mark in found if mark is not None]


def is_of(replica: ReplicaReport, violation: Violation) -> bool:
    return not violation.source or replica.source in (violation.source, *violation.source.split(" and "))


def _mark(replica: ReplicaReport, violation: Violation) -> Mark | None:
    position = violation.position if violation.kind in _IN_LOG else None
    if not replica.course or (violation.index is None and position is None):
        return None
    indexes, positions = zip(*sorted(replica.course), strict=True)
    index = float(violation.index if violation.index is not None else np.interp(position or 0, positions, indexes))
    at = float(position if position is not None else np.interp(index, indexes, positions))
    return Mark(violation.kind, index, at, float(max(index, violation.last_index or 0)))


def without_place(shard: ShardReport, violations: Sequence[Violation]) -> Counter[str]:
    """Return, by kind, how many violations are in no picture of the shard."""
    return Counter(
        each.kind.value for each in violations if not any(marks_of(replica, [each]) for replica in shard.replicas)
    )
