"""Where violations lie in the pictures: each at an index and a position of each log that it is of. Pure.

    position
       |            x     a violation that knows its index only lies on the log's course there;
       |        ....      so does one whose position is in another file, as that of a snapshot
       |    ....
       +------------ index

A picture of a log is entries against bytes, so a violation needs both; what it does not say itself, the course of its
log does. What has neither is in no picture, and counted.
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
        ViolationKind.OFFSET_HOLE, ViolationKind.SEQUENCE_GAP, ViolationKind.SEQUENCE_REPEATED,
        ViolationKind.EPOCH_FENCED, ViolationKind.UNKNOWN_QUEUE,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mark:
    """A violation in the picture of one replica."""

    kind: ViolationKind
    index: float
    position: float
    # Of a run of entries; else `index`.
    last_index: float


def marks_of(replica: ReplicaReport, violations: Iterable[Violation]) -> list[Mark]:
    """Those of this replica, of it and another one, and of its whole shard, that have a place."""
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
    """How many, by kind, no picture of the shard has."""
    return Counter(
        each.kind.value for each in violations if not any(marks_of(replica, [each]) for replica in shard.replicas)
    )
