"""Finds out which messages were in entries that a replica has lost, from the other replicas of the shard.

    node 2   entries 20 to 23 damaged        what was there?
    node 1   entry 20: orders:0:41, entry 21: orders:1:17 to 19, ...

An entry has the same index on all replicas. If another replica has the entry whole, its header names the topic, the
queue and the offsets. Only the spans with these entries are read again, and at most `MOST_SPANS` of them, so that a
validation of a badly damaged cluster does not read everything twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.naming import topic_name
from ledger.validation.spans.entries import Rows
from ledger.validation.spans.joining import JoinedLog
from ledger.validation.spans.span_reader import SpanFacts
from ledger.words import counted
from store import EntryKind

# The kinds of violations that say that a replica has lost entries.
LOSSES = frozenset(
    (
        ViolationKind.DAMAGED_ENTRY,
        ViolationKind.UNKNOWN_ENTRY,
        ViolationKind.MISSING_ENTRIES,
        ViolationKind.MISSING_SEGMENT,
        ViolationKind.DAMAGED_BATCH,
        ViolationKind.LOG_CUT,
        ViolationKind.NOT_BLANK,
    )
)
# The most spans that are read again in one validation, and the most queues that one violation names.
MOST_SPANS = 64
_NAMED = 8

# Reads the headers of the whole entries of a span.
ReadRows = Callable[[SpanFacts], Iterable[Rows]]


@dataclass(frozen=True, slots=True)
class LostEntries:
    """Entries that the replica with this number has lost."""

    replica: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class QueueExtent:
    """Offsets of one queue: from `first` to `last`, both included."""

    topic_id: int
    queue: int
    first: int
    last: int


# The messages of the lost entries; no messages if the entries have none.
Contents = Mapping[LostEntries, tuple[QueueExtent, ...]]


def lost_in(log: JoinedLog, violation: Violation, longest: int) -> LostEntries | None:
    """Return the entries that a violation of this log is about, or None if their indexes are not known. `longest` is
    the last index of the longest replica.
    """
    if violation.kind not in LOSSES or violation.index is None:
        return None
    last = violation.last_index
    if last is None and violation.kind is ViolationKind.NOT_BLANK:
        return None
    if last is None and violation.kind is ViolationKind.DAMAGED_BATCH:
        last = violation.index
    if last is None:
        begin = violation.end if violation.end is not None else violation.position
        following = [index for index, position in log.course if begin is not None and position >= begin]
        last = min((index for index in following if index > violation.index), default=longest + 1) - 1
    return LostEntries(log.replica.number, violation.index, last) if last >= violation.index else None


def contents_of(
    lost: Sequence[LostEntries], logs: Sequence[JoinedLog], outlines: Iterable[SpanFacts], rows: ReadRows
) -> Contents:
    """Return the messages of lost entries, as other replicas know them. The result has no value for lost entries of
    which no other replica knows anything. `logs` are the replicas of one shard, the most trustworthy one first.
    """
    by_replica: dict[int, list[SpanFacts]] = defaultdict(list)
    for facts in outlines:
        by_replica[facts.span.replica].append(facts)
    found = {each: _Found() for each in lost}
    left = MOST_SPANS
    for log in logs:
        for facts in sorted(by_replica[log.replica.number], key=lambda facts: facts.span.begin):
            wanted = [each for each in lost if each.replica != log.replica.number and found[each].lacks(each, facts)]
            if not wanted or left == 0:
                continue
            left -= 1
            for some in rows(facts):
                for each in wanted:
                    found[each].take(each, some)
    return {each: told.extents() for each, told in found.items() if told.known}


class _Found:
    """What is known of some lost entries."""

    def __init__(self) -> None:
        # The first and the last offset, by topic id and queue.
        self._offsets: dict[tuple[int, int], tuple[int, int]] = {}
        # Ranges of indexes that are known, both ends included.
        self.known: list[tuple[int, int]] = []

    def lacks(self, lost: LostEntries, facts: SpanFacts) -> bool:
        """Return whether the span may have lost entries that are not known yet."""
        first, last = max(lost.first, facts.first_index), min(lost.last, facts.last_index)
        is_there = first <= last and facts.entries > 0
        return is_there and not any(low <= first and last <= high for low, high in self.known)

    def take(self, lost: LostEntries, rows: Rows) -> None:
        """Take the headers of a run of entries in the order of their indexes."""
        indexes = rows["index"].astype(np.int64)
        mine = (indexes >= lost.first) & (indexes <= lost.last)
        for low, high in self.known:
            mine &= (indexes < low) | (indexes > high)
        if not mine.any():
            return
        self.known.append((int(indexes[mine].min()), int(indexes[mine].max())))
        batches = rows[mine & (rows["kind"] == EntryKind.BATCH) & (rows["count"] > 0)]
        queues = batches["topic_id"].astype(np.int64) << 32 | batches["queue"].astype(np.int64)
        for number in np.unique(queues).tolist():
            of = batches[queues == number]
            begin, end = int(of["base_offset"].min()), int((of["base_offset"] + of["count"]).max()) - 1
            first, last = self._offsets.get((number >> 32, number & 0xFFFFFFFF), (begin, end))
            self._offsets[number >> 32, number & 0xFFFFFFFF] = min(first, begin), max(last, end)

    def extents(self) -> tuple[QueueExtent, ...]:
        return tuple(QueueExtent(*key, *offsets) for key, offsets in sorted(self._offsets.items()))


def with_contents(violation: Violation, extents: Sequence[QueueExtent], names: Mapping[int, str]) -> Violation:
    """Return the violation with the messages that were in the lost entries: the first queue in the columns, and all
    queues in words."""
    if not extents:
        return replace(violation, contents="no messages")
    words = ", ".join(_words(each, names) for each in extents[:_NAMED])
    more = len(extents) - _NAMED
    first = extents[0]
    return replace(
        violation,
        topic=topic_name(names, first.topic_id),
        queue=first.queue,
        offset=first.first,
        last_offset=first.last,
        contents=f"{words} and {counted(more, 'more queue')}" if more > 0 else words,
    )


def _words(extent: QueueExtent, names: Mapping[int, str]) -> str:
    name = f"{topic_name(names, extent.topic_id)}:{extent.queue}:{extent.first}"
    return name if extent.last == extent.first else f"{name} to {extent.last}"
