"""Finds where replicas diverge: for `ledgermq validate`, and for `ledgermq log diff`.

    indexes   0 ............. 4,095 | 4,096 .......... 8,191 | ...
    node 1    4,095 entries, 5f0c.. | 4,096 entries, 91aa..  |        equal: nothing more is looked at
    node 2    4,095 entries, 5f0c.. | 4,096 entries, 0d3e..  |        differs: its entries are read once more

A window is a range of 4,096 indexes. First, replicas are compared by two numbers for each window: the number of
entries, and the sum of their hashes. Only if one of the two numbers differs are the entries of the window compared one
by one. A sum does not depend on the order in which its parts are added, so several machines can compute the parts of a
sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledger.validation.naming import Sentence, TopicText
from ledger.validation.spans.entries import Entries
from store import EntryKind

WINDOW = 4096
_ODD = tuple(
    np.uint64(number)
    for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5, 0xFF51AFD7ED558CCD)
)


@dataclass(frozen=True, slots=True)
class WindowSum:
    """The number of entries of one replica in one window, and the sum of their hashes."""

    window: int
    entries: int
    # The sum modulo 2**64 of the hash of each entry: (index, term, CRC, chain, digest of the body).
    sum: int

    def __add__(self, other: WindowSum) -> WindowSum:
        assert self.window == other.window
        return WindowSum(self.window, self.entries + other.entries, (self.sum + other.sum) & (1 << 64) - 1)


def window_sums(entries: Entries) -> list[WindowSum]:
    """Return the sums of all windows of `entries`, which have ascending indexes."""
    windows = (entries.rows["index"] // np.uint64(WINDOW)).astype(np.int64)
    edges = np.flatnonzero(np.diff(windows, prepend=-1))
    sums = np.add.reduceat(hashes_of(entries), edges)
    counts = np.diff(np.append(edges, len(windows)))
    return [
        WindowSum(window, count, each)
        for window, count, each in zip(windows[edges].tolist(), counts.tolist(), sums.tolist(), strict=True)
    ]


def hashes_of(entries: Entries) -> npt.NDArray[np.uint64]:
    """Return the hash of each entry: a hash of all that must be the same in all replicas."""
    rows = entries.rows
    both = (rows["crc"].astype(np.uint64) << np.uint64(32)) | rows["chain"]
    mixed = entries.digests * _ODD[0]
    mixed ^= both * _ODD[1]
    mixed ^= rows["term"] * _ODD[2]
    mixed += rows["index"] * _ODD[3]
    mixed ^= mixed >> np.uint64(29)
    mixed *= _ODD[4]
    mixed ^= mixed >> np.uint64(32)
    return mixed


def differing(by_replica: Mapping[int, Iterable[WindowSum]]) -> set[int]:
    """Return the windows in which the replicas of one shard do not have the same entries.

    A replica without an entry in a window is not compared in this window.
    """
    summed: dict[int, dict[int, WindowSum]] = defaultdict(dict)
    for replica, sums in by_replica.items():
        for each in sums:
            there = summed[each.window].get(replica)
            summed[each.window][replica] = each if there is None else there + each
    return {window for window, there in summed.items() if differ(there.values())}


def differ(sums: Iterable[WindowSum]) -> bool:
    """Return whether the sums of several replicas for one window differ."""
    return len({(each.entries, each.sum) for each in sums}) > 1


# -- entry by entry

# One entry of one replica, as a row that is compared with other replicas.
SAID = np.dtype(
    [("index", "<u8"), ("replica", "<u4"), ("hash", "<u8"), ("position", "<u8"), ("term", "<u8"), ("crc", "<u4"),
     ("chain", "<u4"), ("digest", "<u8"), ("size", "<u4"), ("kind", "u1"), ("topic_id", "<u4"), ("queue", "<u4"),
     ("base_offset", "<i8"), ("count", "<u4"), ("commit", "<u8")]
)  # fmt: skip
Said = npt.NDArray[np.void]
_COPIED = (
    "index", "position", "term", "crc", "chain", "size", "kind", "topic_id", "queue", "base_offset", "count", "commit",
)  # fmt: skip


def said_in(entries: Entries, replica: int, windows: npt.NDArray[np.int64]) -> Said:
    """Return one row for each entry whose index is in one of `windows`. A row has the columns of `SAID`: the values
    that the header of the entry states."""
    chosen = np.isin((entries.rows["index"] // np.uint64(WINDOW)).astype(np.int64), windows)
    said = np.empty(int(chosen.sum()), SAID)
    for name in _COPIED:
        said[name] = entries.rows[name][chosen]
    said["replica"], said["hash"], said["digest"] = replica, hashes_of(entries)[chosen], entries.digests[chosen]
    return said


@dataclass(frozen=True, slots=True)
class DivergedRange:
    """A range of indexes in which two replicas have different entries at each index that both replicas have."""

    first_replica: int
    second_replica: int
    index: int
    last_index: int
    # The entry of the first replica at `index`, in words.
    ours: Sentence
    # The entry of the second replica at `index`, in words.
    theirs: Sentence
    # The position of the first replica's entry at `index`.
    position: int
    # The largest term of the second replica in this range; `first_last_term` is that of the first replica.
    last_term: int
    first_last_term: int
    # The first index of the range at which both entries have the same term, or 0. A term has one leader, which appends
    # one entry at each index, so one of the two entries was never appended by a leader.
    same_term_index: int = 0
    # The term of the first entry of each replica, in the windows that were read, that calls `index` committed, or 0.
    first_commit_term: int = 0
    second_commit_term: int = 0


def divergences(said: Said) -> list[DivergedRange]:
    """Compare each two replicas of one shard and return their divergences.

    If `said` has entries of a window, it must have the entries of all replicas in this window. Divergences of
    neighbouring windows are not merged; `joined` does that.
    """
    found: list[DivergedRange] = []
    replicas = np.unique(said["replica"]).tolist()
    own = {replica: _of(said, replica) for replica in replicas}
    for at, first in enumerate(replicas):
        for second in replicas[at + 1 :]:
            found += _between(first, own[first], second, own[second])
    return found


def _of(said: Said, replica: int) -> Said:
    mine = said[said["replica"] == replica]
    mine = mine[np.argsort(mine["index"], kind="stable")]
    first: Said = mine[np.append(True, np.diff(mine["index"].astype(np.int64)) > 0)] if len(mine) else mine
    return first


def _between(first: int, ours: Said, second: int, theirs: Said) -> list[DivergedRange]:
    _, at, also = np.intersect1d(ours["index"], theirs["index"], assume_unique=True, return_indices=True)
    apart = ours["hash"][at] != theirs["hash"][also]
    places = np.flatnonzero(apart)
    if not len(places):
        return []
    indexes = ours["index"][at][places].astype(np.int64)
    edges = np.flatnonzero(np.diff(places, prepend=-2) != 1)
    ends = np.append(edges[1:], len(places))
    found = []
    for edge, end in zip(edges.tolist(), ends.tolist(), strict=True):
        here = places[edge:end]
        one, other = ours[at[here[0]]], theirs[also[here[0]]]
        same = np.flatnonzero(ours["term"][at[here]] == theirs["term"][also[here]])
        found.append(
            DivergedRange(
                first,
                second,
                int(indexes[edge]),
                int(indexes[end - 1]),
                in_words(one),
                in_words(other),
                int(one["position"]),
                int(theirs["term"][also[here]].max()),
                int(ours["term"][at[here]].max()),
                int(indexes[edge + same[0]]) if len(same) else 0,
                _commit_term(ours, int(indexes[edge])),
                _commit_term(theirs, int(indexes[edge])),
            )
        )
    return found


def _commit_term(said: Said, index: int) -> int:
    """Return the term of the first entry that calls `index` committed, or 0 if no entry does."""
    telling = np.flatnonzero(said["commit"] >= np.uint64(index))
    return int(said["term"][telling[0]]) if len(telling) else 0


def joined(parts: Iterable[DivergedRange]) -> list[DivergedRange]:
    """Merge divergences of the same two replicas whose ranges touch. Return all divergences, sorted by index."""
    found: dict[tuple[int, int], list[DivergedRange]] = defaultdict(list)
    for part in sorted(parts, key=lambda each: each.index):
        there = found[part.first_replica, part.second_replica]
        if there and there[-1].last_index + 1 >= part.index:
            one = there[-1]
            there[-1] = DivergedRange(
                one.first_replica, one.second_replica, one.index, max(one.last_index, part.last_index), one.ours,
                one.theirs, one.position, max(one.last_term, part.last_term),
                max(one.first_last_term, part.first_last_term), one.same_term_index or part.same_term_index,
                one.first_commit_term or part.first_commit_term, one.second_commit_term or part.second_commit_term,
            )  # fmt: skip
        else:
            there.append(part)
    return sorted((each for parts in found.values() for each in parts), key=lambda each: each.index)


def in_words(said: np.void) -> TopicText:
    """Return a description of an entry, for a message about two different entries."""
    kind = EntryKind(int(said["kind"])).name.lower()
    place = f"term {said['term']}, {kind}, {said['size']} bytes at {said['position']}, "
    sums = f"CRC {int(said['crc']):#010x}, chain {int(said['chain']):#010x}, body {int(said['digest']):016x}"
    if kind != "batch":
        return TopicText((place, sums))
    messages = f" queue {said['queue']} offset {said['base_offset']} count {said['count']}, "
    return TopicText((place, int(said["topic_id"]), messages, sums))
