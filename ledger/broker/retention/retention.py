"""Retention: where the log is to begin, given what is in it, how full the disk is, and what must stay.

    |  segment  |  segment  |  segment  |  in use
    start       candidate   candidate   candidate            end
                ^ older than it need be, or more than may be kept, or no room: up to here it goes

A pure function of what is seen (`Situation`) and what is set (`Bounds`). It only ever chooses among the places for
which a base is kept, so what goes is whole segments that are applied, and never the one in use.

How old an entry is says no clock for certain: one may have jumped. Time counts only as far as the log itself shows that
it passed: a gap between two neighbours that is longer than the bound may be a quiet time or a jump, and is left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

TimeOf = Callable[[int], int]
"""The append time of an entry that is here, in ms since 1970; never falls from one to the next."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is set. 0 turns each off."""

    age_ms: int = 0
    size_bytes: int = 0
    cleaning_hour: int | None = None
    """Only in this hour of the day (UTC) does age count; None: at any time."""
    clean_ratio: float = 0.0
    """From this use of the disk on the hour does not matter,"""
    force_ratio: float = 0.0
    """and from this one on the oldest segments go, however young."""
    refuse_ratio: float = 0.0
    """From this one on nothing is taken any more."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The log may begin behind entry `index`; what stays then begins at `position`."""

    index: int
    position: int


@dataclass(frozen=True, slots=True)
class DiskUse:
    """How full the disk is, and of how many bytes."""

    ratio: float = 0.0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Situation:
    """What is seen, on the leader. start <= candidates' positions < end, ascending."""

    start: int
    end: int
    candidates: Sequence[Candidate]
    age_ms: Callable[[int], int]
    """How long ago, for certain, an entry was appended; never rises from one to the next."""
    hour: int
    disk: DiskUse
    held: bool = False
    """Somebody holds the log as it is."""
    needed: int | None = None
    """A learner is being given what comes behind this entry; None: nobody is."""


class Why(Enum):
    AGE = "it is older than it need be"
    SIZE = "the log is larger than it may be"
    DISK = "the disk is too full"


@dataclass(frozen=True, slots=True)
class Move:
    """The log is to begin behind the candidate."""

    to: Candidate
    why: Why


def choose(bounds: Bounds, seen: Situation) -> Move | None:
    """The move that lets go of most of what any of the bounds wants to go; None: all stays."""
    if seen.held:
        return None
    spared = [each for each in seen.candidates if seen.needed is None or each.index <= seen.needed]
    wanted = (
        (Why.AGE, _too_old(bounds, seen, spared)),
        (Why.SIZE, _too_much(bounds, seen, spared)),
        (Why.DISK, _in_the_way(bounds, seen)),
    )
    moves = [Move(to, why) for why, to in wanted if to is not None]
    return max(moves, key=lambda move: move.to.index, default=None)


def must_refuse(bounds: Bounds, disk: DiskUse) -> bool:
    """Whether the disk is so full that nothing more is taken."""
    return _exceeds(disk.ratio, bounds.refuse_ratio)


def newest_before(candidates: Sequence[Candidate], position: int) -> Candidate | None:
    """The last one at which all from `position` on stays."""
    return next((each for each in reversed(candidates) if each.position <= position), None)


def time_passed_ms(time_of: TimeOf, first: int, last: int, longest_ms: int) -> int:
    """From entry `first` to entry `last`, without gaps between neighbours that are longer than `longest_ms`.

    Looks only where there may be such a gap: O(log n) entries for each."""
    passed = time_of(last) - time_of(first)
    if passed <= longest_ms:
        return passed
    if last - first == 1:
        return 0
    middle = (first + last) // 2
    return time_passed_ms(time_of, first, middle, longest_ms) + time_passed_ms(time_of, middle, last, longest_ms)


def _too_old(bounds: Bounds, seen: Situation, candidates: Sequence[Candidate]) -> Candidate | None:
    is_time = bounds.cleaning_hour in (None, seen.hour) or _exceeds(seen.disk.ratio, bounds.clean_ratio)
    if not bounds.age_ms or not is_time:
        return None
    old = bisect_left(candidates, True, key=lambda each: seen.age_ms(each.index) < bounds.age_ms)
    return candidates[old - 1] if old else None


def _too_much(bounds: Bounds, seen: Situation, candidates: Sequence[Candidate]) -> Candidate | None:
    if not bounds.size_bytes or seen.end - seen.start <= bounds.size_bytes:
        return None
    return newest_before(candidates, seen.end - bounds.size_bytes)


def _in_the_way(bounds: Bounds, seen: Situation) -> Candidate | None:
    """The first candidate that makes room enough, the last one where none does. A learner is not spared: it is given a
    base, and a full disk is worse for everybody."""
    if not _exceeds(seen.disk.ratio, bounds.force_ratio) or not seen.candidates:
        return None
    excess = (seen.disk.ratio - bounds.force_ratio) * seen.disk.total
    enough = (each for each in seen.candidates if each.position - seen.start >= excess)
    return next(enough, seen.candidates[-1])


def _exceeds(ratio: float, bound: float) -> bool:
    return bound > 0 and ratio >= bound
