"""Retention chooses the log start from the age of the entries, the size of the log and the use of the disk.

    |  segment  |  segment  |  segment  |  in use
    start       candidate   candidate   candidate            end
                ^ the entries before it are too old, or too many, or the disk is too full: the log begins here

The choice is a pure function of the log (`Situation`) and the settings (`RetentionLimits`). A candidate is a possible
log start for which a snapshot is stored. The log can begin only at a candidate. Retention removes whole segments of
applied entries, and never the segment in use.

A clock can jump, so a clock does not tell the age of an entry with certainty. Retention counts only time that the
append times in the log prove. If the gap between two neighbouring entries is longer than the limit, the cause can
be a quiet time or a jump of the clock. Retention does not count a time without messages that is longer than the
limit of age."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

# Index of an entry in the log -> its append time in ms since 1970. It never decreases along the log.
TimeOf = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """The limits of age and size up to which retention keeps messages. The value 0 turns a limit off. A ratio is
    the used bytes of the disk divided by all its bytes."""

    age_ms: int = 0
    size_bytes: int = 0
    # Age counts only in this hour of the day (UTC); None: in every hour.
    cleaning_hour: int | None = None
    # From this use of the disk on, age counts in every hour.
    clean_ratio: float = 0.0
    # From this use of the disk on, the oldest segments are removed, whatever their age.
    force_ratio: float = 0.0
    # From this use of the disk on, new data is refused.
    refuse_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class TrimPoint:
    """A possible log start: the log begins after entry `index`, at byte `position`."""

    index: int
    position: int


@dataclass(frozen=True, slots=True)
class DiskUse:
    """How full the disk is. `ratio` is the used bytes divided by all bytes, and `total` is the number of all bytes."""

    ratio: float = 0.0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts about the leader's log and disk from which retention decides. The candidates are sorted by index,
    and the position of each candidate is at least `start` and less than `end`."""

    start: int
    end: int
    candidates: Sequence[TrimPoint]
    # Index of an entry -> its proven age in ms. It never increases along the log.
    age_ms: Callable[[int], int]
    # Hour of the day (UTC).
    hour: int
    disk: DiskUse
    # The log has a hold.
    held: bool = False
    # A learner still needs the entries after this index; None: no learner does.
    needed: int | None = None


class TrimReason(Enum):
    """The reason why retention moves the log start."""

    AGE = "entries are older than the retention time"
    SIZE = "the log is larger than its limit"
    DISK = "the disk is too full"


@dataclass(frozen=True, slots=True)
class TrimDecision:
    """The decision that the log begins at `to`."""

    to: TrimPoint
    why: TrimReason


def choose(limits: RetentionLimits, seen: Situation) -> TrimDecision | None:
    """Return the latest log start that one of the limits requires, or None if the log start stays."""
    if seen.held:
        return None
    spared = [each for each in seen.candidates if seen.needed is None or each.index <= seen.needed]
    wanted = (
        (TrimReason.AGE, _too_old(limits, seen, spared)),
        (TrimReason.SIZE, _too_much(limits, seen, spared)),
        (TrimReason.DISK, _in_the_way(limits, seen)),
    )
    moves = [TrimDecision(to, why) for why, to in wanted if to is not None]
    return max(moves, key=lambda move: move.to.index, default=None)


def must_refuse(limits: RetentionLimits, disk: DiskUse) -> bool:
    """Return True if the disk is so full that the node refuses new data."""
    return _exceeds(disk.ratio, limits.refuse_ratio)


def newest_before(candidates: Sequence[TrimPoint], position: int) -> TrimPoint | None:
    """Return the last candidate that keeps the log from `position` on, or None if there is no such candidate."""
    return next((each for each in reversed(candidates) if each.position <= position), None)


def time_passed_ms(time_of: TimeOf, first: int, last: int, longest_ms: int) -> int:
    """Return the time in ms from entry `first` to entry `last`. A gap of more than `longest_ms` between two
    neighbouring entries does not count.

    The function does not read the entries of a range in which at most `longest_ms` have passed."""
    passed = time_of(last) - time_of(first)
    if passed <= longest_ms:
        return passed
    if last - first == 1:
        return 0
    middle = (first + last) // 2
    return time_passed_ms(time_of, first, middle, longest_ms) + time_passed_ms(time_of, middle, last, longest_ms)


def _too_old(limits: RetentionLimits, seen: Situation, candidates: Sequence[TrimPoint]) -> TrimPoint | None:
    is_time = limits.cleaning_hour in (None, seen.hour) or _exceeds(seen.disk.ratio, limits.clean_ratio)
    if not limits.age_ms or not is_time:
        return None
    old = bisect_left(candidates, True, key=lambda each: seen.age_ms(each.index) < limits.age_ms)
    return candidates[old - 1] if old else None


def _too_much(limits: RetentionLimits, seen: Situation, candidates: Sequence[TrimPoint]) -> TrimPoint | None:
    if not limits.size_bytes or seen.end - seen.start <= limits.size_bytes:
        return None
    return newest_before(candidates, seen.end - limits.size_bytes)


def _in_the_way(limits: RetentionLimits, seen: Situation) -> TrimPoint | None:
    """Return the first candidate that frees enough of the disk, or the last candidate if no candidate frees enough.
    Entries that a learner needs can be removed too, because the learner then receives a snapshot."""
    if not _exceeds(seen.disk.ratio, limits.force_ratio) or not seen.candidates:
        return None
    excess = (seen.disk.ratio - limits.force_ratio) * seen.disk.total
    enough = (each for each in seen.candidates if each.position - seen.start >= excess)
    return next(enough, seen.candidates[-1])


def _exceeds(ratio: float, bound: float) -> bool:
    return bound > 0 and ratio >= bound
