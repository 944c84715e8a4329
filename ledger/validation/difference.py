"""Where replicas of one log part.

    A  1 2 3 4 5 6 7        A is a prefix of C; B parts from both at 6
    B  1 2 3 4 5 6'
    C  1 2 3 4 5 6 7 8      a fork in what is committed, if B calls 6' committed, and A or C their 6

Equal chains at an index mean equal bytes up to there, so comparing (term, CRC, chain) entry by entry is comparing the
logs. A tail that nobody calls committed may differ: Raft replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from ledger.validation.sources.place import LogPlace
from store import Flaw, FlawKind, FoundEntry, Header

OnProgress = Callable[[int, int], None]
"""Takes the number of a replica and the bytes of it that are behind."""
_PROGRESS_ENTRIES = 512


@dataclass(frozen=True, slots=True)
class Divergence:
    """Two replicas, and the entries of the first index at which they differ."""

    first: int
    second: int
    """Which of the replicas, counted from 0."""
    ours: Header
    theirs: Header
    is_committed: bool
    """Both replicas call that index committed: each has what the other can never have."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Everything that `shorter` has is in `longer`; where they end at the same entry, they are the same."""

    shorter: int
    longer: int
    is_same: bool
    overlap: bool
    """Whether they have any index in common, without which nothing was compared."""


@dataclass(slots=True)
class Replica:
    """One log as it is read."""

    place: LogPlace
    first_index: int | None = None
    last_index: int = 0
    known_commit: int = 0
    flaws: list[Flaw] = field(default_factory=list)
    """That keep it from being compared as a whole; the first few."""


@dataclass(slots=True)
class Comparison:
    replicas: list[Replica]
    divergences: list[Divergence] = field(default_factory=list)
    prefixes: list[Prefix] = field(default_factory=list)

    @property
    def is_forked(self) -> bool:
        return any(divergence.is_committed for divergence in self.divergences)

    @property
    def is_unreadable(self) -> bool:
        return any(replica.flaws for replica in self.replicas)


MAX_FLAWS = 16
_Key = tuple[int, int, int]


def compare(places: Sequence[LogPlace], on_progress: OnProgress = lambda _replica, _bytes: None) -> Comparison:
    """Reads all of them, side by side. Raises `StoreError` where a file cannot be read at all."""
    replicas = [Replica(place) for place in places]
    streams = [_headers(number, replica, on_progress) for number, replica in enumerate(replicas)]
    heads = [next(stream, None) for stream in streams]
    parted: dict[tuple[int, int], tuple[Header, Header]] = {}
    compared: set[tuple[int, int]] = set()
    while any(head is not None for head in heads):
        index = min(head.index for head in heads if head is not None)
        here = [(number, head) for number, head in enumerate(heads) if head is not None and head.index == index]
        _compare_at(replicas, here, parted, compared)
        for number, _ in here:
            heads[number] = next(streams[number], None)
    return _concluded(replicas, parted, compared)


def _compare_at(
    replicas: list[Replica],
    here: list[tuple[int, Header]],
    parted: dict[tuple[int, int], tuple[Header, Header]],
    compared: set[tuple[int, int]],
) -> None:
    """The entries of one index, of those replicas that have it."""
    for (first, ours), (second, theirs) in combinations(here, 2):
        if not replicas[first].place.may_be_of(replicas[second].place):
            continue
        compared.add((first, second))
        if _key(ours) != _key(theirs):
            parted.setdefault((first, second), (ours, theirs))


def _key(header: Header) -> _Key:
    return header.term, header.crc, header.chain


def _headers(number: int, replica: Replica, on_progress: OnProgress) -> Iterator[Header]:
    reader = replica.place.reader()
    begin = replica.place.segments[0].base if replica.place.segments else 0
    last = 0
    replica.flaws += [flaw for flaw in replica.place.flaws if flaw.kind is not FlawKind.TORN]
    for each in reader:
        if not isinstance(each, FoundEntry):
            if each.kind is not FlawKind.TORN and len(replica.flaws) < MAX_FLAWS:
                replica.flaws.append(each)
            continue
        header = each.header
        if header.index <= last:
            continue  # a stale entry behind a flaw, which was told
        last = header.index
        if replica.first_index is None:
            replica.first_index = last
        replica.last_index, replica.known_commit = last, reader.known_commit
        if last % _PROGRESS_ENTRIES == 0:
            on_progress(number, reader.position - begin)
        yield header
    replica.known_commit = max(replica.known_commit, reader.known_commit)
    on_progress(number, replica.place.total_bytes)


def _concluded(
    replicas: list[Replica],
    parted: dict[tuple[int, int], tuple[Header, Header]],
    compared: set[tuple[int, int]],
) -> Comparison:
    comparison = Comparison(replicas)
    for first, second in combinations(range(len(replicas)), 2):
        a, b = replicas[first], replicas[second]
        if not a.place.may_be_of(b.place):
            continue
        if (first, second) in parted:
            ours, theirs = parted[first, second]
            is_committed = min(a.known_commit, b.known_commit) >= ours.index
            comparison.divergences.append(Divergence(first, second, ours, theirs, is_committed))
        else:
            shorter, longer = (first, second) if a.last_index <= b.last_index else (second, first)
            same = a.last_index == b.last_index
            comparison.prefixes.append(Prefix(shorter, longer, same, (first, second) in compared))
    return comparison
