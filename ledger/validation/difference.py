"""`ledgermq log diff`: compares the logs of replicas, two by two.

    A  1 2 3 4 5 6 7        A is a prefix of C; B diverges from A and from C at entry 6
    B  1 2 3 4 5 6'
    C  1 2 3 4 5 6 7 8      a fork, if B knows that 6' is committed, and A or C knows the same of 6; also a fork, if 6
                            and 6' have the same term

The logs are read side by side, one window of indexes after another. `judging/windows.py` finds the divergences in a
window, as it does for `ledgermq validate`. Raft replaces entries that are not committed, so the last entries of two
replicas may differ without a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, groupby

import numpy as np
import xxhash

from ledger.validation.judging.windows import WINDOW, DivergedRange, differ, divergences, said_in, window_sums
from ledger.validation.sources.place import LogPlace
from ledger.validation.spans.entries import Entries
from store import Flaw, FlawKind, FoundEntry, Header
from store.log.entry import MAGIC, ROW, VERSION

# Called with the number of a log and the number of its bytes that are read.
OnProgress = Callable[[int, int], None]
_PROGRESS_ENTRIES = 512


@dataclass(frozen=True, slots=True)
class Prefix:
    """The result for two logs without a divergence: at every index that both logs have, the entries are equal, and
    the log `longer` has more entries."""

    # The numbers of the two logs.
    shorter: int
    longer: int
    # Both logs end with the same entry.
    is_same: bool
    # The logs have an index in common. Without one, nothing was compared.
    overlap: bool


@dataclass(slots=True)
class ComparedLog:
    """One of the compared logs, with the flaws and the commit index that its reader has found."""

    place: LogPlace
    # None: the log has no entries.
    first_index: int | None = None
    last_index: int = 0
    # The largest commit that an entry of the log mentions.
    known_commit: int = 0
    # The first flaws because of which entries cannot be compared, at most MAX_FLAWS.
    flaws: list[Flaw] = field(default_factory=list)


@dataclass(slots=True)
class Comparison:
    """The result for several logs, which are numbered from 0 in the order in which they were given."""

    logs: list[ComparedLog]
    # The first divergence of each two logs.
    divergences: list[DivergedRange] = field(default_factory=list)
    prefixes: list[Prefix] = field(default_factory=list)
    # The entries at which logs diverge, by the number of the log and the index.
    headers: dict[tuple[int, int], Header] = field(default_factory=dict)

    def is_committed(self, divergence: DivergedRange) -> bool:
        """Return True if both logs know that the index of the divergence is committed."""
        one, other = self.logs[divergence.first_replica], self.logs[divergence.second_replica]
        return min(one.known_commit, other.known_commit) >= divergence.index

    def is_fork(self, divergence: DivergedRange) -> bool:
        """Return True if Raft cannot have made the divergence: both logs know that its index is committed, or both have
        an entry of the same term at one index, of which the leader of the term appended at most one."""
        return self.is_committed(divergence) or divergence.same_term_index > 0

    @property
    def is_forked(self) -> bool:
        return any(map(self.is_fork, self.divergences))

    @property
    def is_unreadable(self) -> bool:
        return any(log.flaws for log in self.logs)

    @property
    def has_pairs(self) -> bool:
        """True if two of the logs can be replicas of one shard."""
        return bool(self.divergences or self.prefixes)

    @property
    def is_complete(self) -> bool:
        """True if there are pairs of replicas, and both logs of each pair have an entry at a common index."""
        return self.has_pairs and all(prefix.overlap for prefix in self.prefixes)


@dataclass(frozen=True, slots=True)
class _Window:
    """The entries of one log whose indexes lie in one window."""

    number: int
    headers: dict[int, Header]
    entries: Entries


MAX_FLAWS = 16
_Pair = tuple[int, int]


def compare(places: Sequence[LogPlace], on_progress: OnProgress = lambda _log, _bytes: None) -> Comparison:
    """Read all logs side by side and compare them. Raises `StoreError` if a file cannot be read at all."""
    logs = [ComparedLog(place) for place in places]
    streams = [_windows(number, log, on_progress) for number, log in enumerate(logs)]
    heads = [next(stream, None) for stream in streams]
    comparison, overlapping = Comparison(logs), set[_Pair]()
    while any(head is not None for head in heads):
        window = min(head.number for head in heads if head is not None)
        here = {number: head for number, head in enumerate(heads) if head is not None and head.number == window}
        overlapping |= _overlapping(here)
        _compare_window(comparison, here)
        for number in here:
            heads[number] = next(streams[number], None)
    _conclude(comparison, overlapping)
    return comparison


def _overlapping(here: dict[int, _Window]) -> set[_Pair]:
    return {
        (first, second)
        for first, second in combinations(here, 2)
        if not here[first].headers.keys().isdisjoint(here[second].headers)
    }


def _compare_window(comparison: Comparison, here: dict[int, _Window]) -> None:
    """For each pair of logs that has not diverged in an earlier window, add the divergences in this window."""
    if not differ(each for window in here.values() for each in window_sums(window.entries)):
        return
    diverged = {(each.first_replica, each.second_replica) for each in comparison.divergences}
    said = [said_in(each.entries, number, np.array([each.number])) for number, each in here.items()]
    for found in divergences(np.concatenate(said)):
        first, second = pair = found.first_replica, found.second_replica
        if pair in diverged or not comparison.logs[first].place.may_be_of(comparison.logs[second].place):
            continue
        diverged.add(pair)
        comparison.divergences.append(found)
        for number in pair:
            comparison.headers[number, found.index] = here[number].headers[found.index]


def _windows(number: int, log: ComparedLog, on_progress: OnProgress) -> Iterator[_Window]:
    found = _found(number, log, on_progress)
    for window, entries in groupby(found, key=lambda each: each[0].index // WINDOW):
        headers, digests = zip(*entries, strict=True)
        yield _Window(window, {header.index: header for header in headers}, _columns(headers, digests))


def _columns(headers: Sequence[Header], digests: Sequence[int]) -> Entries:
    rows = [
        (MAGIC, VERSION, each.kind, each.flags, each.size, each.count, each.index, each.term, each.position,
         each.commit, each.append_time_ms, each.base_offset, each.topic_id, each.queue, each.crc, each.chain)
        for each in headers
    ]  # fmt: skip
    count = len(rows)
    return Entries(
        np.zeros(count, np.int64), np.array(rows, ROW), np.array(digests, np.uint64), np.zeros(count, np.uint32)
    )


def _found(number: int, log: ComparedLog, on_progress: OnProgress) -> Iterator[tuple[Header, int]]:
    """Yield each entry's header and the digest of its body, in ascending order of indexes."""
    reader = log.place.reader()
    begin = log.place.segments[0].base if log.place.segments else 0
    last = 0
    log.flaws += [flaw for flaw in log.place.flaws if flaw.kind is not FlawKind.TORN]
    for each in reader:
        if not isinstance(each, FoundEntry):
            if each.kind is not FlawKind.TORN and len(log.flaws) < MAX_FLAWS:
                log.flaws.append(each)
            continue
        header = each.header
        if header.index <= last:
            continue  # an older entry after a flaw; the flaw is reported
        last = header.index
        if log.first_index is None:
            log.first_index = last
        log.last_index, log.known_commit = last, reader.known_commit
        if last % _PROGRESS_ENTRIES == 0:
            on_progress(number, reader.position - begin)
        yield header, xxhash.xxh3_64_intdigest(each.body)
    log.known_commit = max(log.known_commit, reader.known_commit)
    on_progress(number, log.place.total_bytes)


def _conclude(comparison: Comparison, overlapping: set[_Pair]) -> None:
    """Sort the divergences by their logs, and add a `Prefix` for each pair of logs without a divergence."""
    comparison.divergences.sort(key=lambda each: (each.first_replica, each.second_replica))
    diverged = {(each.first_replica, each.second_replica) for each in comparison.divergences}
    for first, second in combinations(range(len(comparison.logs)), 2):
        one, other = comparison.logs[first], comparison.logs[second]
        if (first, second) in diverged or not one.place.may_be_of(other.place):
            continue
        shorter, longer = (first, second) if one.last_index <= other.last_index else (second, first)
        is_same = one.last_index == other.last_index
        comparison.prefixes.append(Prefix(shorter, longer, is_same, (first, second) in overlapping))
