"""Leaves out cuts of a log that were none: the log ends with damaged bytes, and these are a violation already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.spans.joining import JoinedLog

# Faults that leave bytes behind, so that a log which ends with such a fault was not cut.
_DAMAGE = (ViolationKind.DAMAGED_ENTRY, ViolationKind.UNKNOWN_ENTRY, ViolationKind.NOT_BLANK)


def without_false_cuts(violations: Iterable[Violation], logs: Iterable[JoinedLog]) -> list[Violation]:
    """Leave out that a log was cut if damaged bytes are at its end. The damage is then about all entries that the
    clean mark or the checkpoint says the log had."""
    left = list(violations)
    for log in logs:
        place = (log.replica.source, log.replica.shard)
        mine = [each for each in left if (each.source, each.shard) == place]
        cuts = [each for each in mine if each.kind is ViolationKind.LOG_CUT]
        damage = [each for each in mine if each.kind in _DAMAGE and (each.position or 0) >= log.end]
        if cuts and damage:
            last, at_end = max(each.last_index or 0 for each in cuts), damage[-1]
            first = at_end.index or min(each.index or last for each in cuts)
            whole = replace(at_end, index=first, last_index=last)
            left = [whole if each is at_end else each for each in left if each not in cuts]
    return left
