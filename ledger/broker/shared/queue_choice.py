"""The messages of one queue that a shared group can lease in this turn of the leader, in the order of their offsets.

    window of the group                        | never handed out
    | leased  free  settled  free  leased      | wanted  unwanted  wanted  ...        end of the queue
              ^ again, first                     ^ then these; unwanted messages are skipped

A message is unwanted if it has another tag, or does not match the filter of the group.
`take` hands out the next ones. A message that was handed out too often is in `dead` and not handed out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ledger.broker.broker_replica import BrokerReplica
from ledger.broker.fetch.queue_sizes import shares
from ledger.broker.shared.filter_matches import FilterMatches
from ledger.broker.shared.lease_clock import are_free
from ledger.broker.shared.members import SharedTopic
from ledger.state import TopicQueueId
from ledger.state.group_modes import GroupMode
from ledger.state.lease_table import MAX_OPEN_OFFSETS
from ledger.state.lease_window import MAX_WINDOW, LeaseWindow
from store.index.consume_queue import Units

# Units of one queue that a turn reads, so that a turn does not block the event loop.
MAX_SCANNED = 16_384
_UNITS_AT_ONCE = 4096

Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Messages [first, first + size) that a receive gets, and how often each was handed out before."""

    first: int
    size: int
    attempts: Sequence[int]


@dataclass(slots=True)
class ByteBudget:
    """The bytes that a receive can still get. The first message is handed out even if it is larger."""

    left: float
    is_untouched: bool = True

    def fitting(self, sizes: NDArray[np.float64]) -> int:
        """Return how many of the first messages fit, and take them from the budget."""
        fitting = int(np.searchsorted(np.cumsum(sizes), self.left, "right"))
        if self.is_untouched and len(sizes):
            fitting = max(1, fitting)
        self.left -= float(sizes[:fitting].sum())
        self.is_untouched = self.is_untouched and not fitting
        return fitting


@dataclass(slots=True)
class GroupRoom:
    """How many offsets the windows of one group can still take in this turn, all queues together."""

    left: int


class Choice(Protocol):
    """An interface: the messages of one queue that can be leased now."""

    # Ranges (first, size) that the entry of this turn settles, because nobody shall receive them.
    skips: list[tuple[int, int]]
    # Offsets of messages that were handed out too often.
    dead: list[int]
    # True: the queue has more messages, and the window has no room for them.
    is_full: bool

    @property
    def available(self) -> int:
        """About how many messages can be taken."""

    def take(self, most: int, budget: ByteBudget) -> list[Chosen]:
        """Return the next messages, at most `most`, and within the budget."""


@dataclass(frozen=True, slots=True)
class ChoiceFacts:
    """What a choice in one queue needs to know."""

    replica: BrokerReplica
    queue: TopicQueueId
    mode: GroupMode
    topic: SharedTopic
    window: LeaseWindow
    # The lease time of this turn.
    now_ms: int
    room: GroupRoom
    # The results of the group's filter for messages after the window. None: the group has no filter.
    matches: FilterMatches | None = None

    @property
    def end(self) -> int:
        """The end of the queue."""
        return self.replica.state.next_offset(*self.queue)

    @property
    def first(self) -> int:
        """The first offset that the log still has."""
        return self.replica.queues.get(*self.queue).first_offset

    def reach(self) -> int:
        """Return the offset before which the window of the group can reach in this turn."""
        reach = reach_of(self.replica, self.window, self.first)
        return min(reach, max(self.window.end, self.first) + max(0, self.room.left))

    @property
    def wants_some(self) -> bool:
        """Whether the group does not want all messages."""
        return self.topic.tag_hashes is not None or self.matches is not None

    def known(self, end: int) -> int:
        """Return the offset before which it is known what the filter says, at most `end`."""
        return end if self.matches is None else min(end, max(self.matches.end, self.window.end))

    def units(self, first: int, most: int) -> Units:
        return self.replica.queues.get(*self.queue).read(first, most)

    def wanted(self, first: int, units: Units) -> NDArray[np.bool_]:
        """Return which of these messages the group wants, by their tags and its filter. They are behind the window,
        begin at the offset `first`, and are before `known`."""
        hashes = self.topic.tag_hashes
        wanted = np.ones(len(units), np.bool_) if hashes is None else has_tags(units, hashes)
        return wanted if self.matches is None else wanted & self.matches.of(first, len(units))


@dataclass(slots=True)
class _Again:
    """Messages that were handed out before and may be leased again."""

    offsets: Offsets
    attempts: Offsets


@dataclass(slots=True)
class QueueChoice:
    """The choice for groups without an order by key. Implements `Choice`."""

    facts: ChoiceFacts
    skips: list[tuple[int, int]] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    is_full: bool = False
    _again: _Again = field(init=False)
    _fresh: int = field(init=False)
    _fresh_end: int = field(init=False)
    _scanned: int = 0

    def __post_init__(self) -> None:
        facts, window = self.facts, self.facts.window
        if window.begin < facts.first:
            self.skips.append((window.begin, facts.first - window.begin))
        offsets, attempts = free_messages(facts)
        is_dead = attempts >= facts.mode.max_attempts
        self.dead = offsets[is_dead].tolist()
        self._again = _Again(offsets[~is_dead], attempts[~is_dead])
        self._fresh = max(window.end, facts.first)
        reach = min(facts.end, facts.reach())
        self.is_full = self._fresh >= reach < facts.end
        self._fresh_end = facts.known(reach)

    @property
    def available(self) -> int:
        return len(self._again.offsets) + max(0, self._fresh_end - self._fresh)

    def take(self, most: int, budget: ByteBudget) -> list[Chosen]:
        chosen = self._take_again(most, budget)
        if not len(self._again.offsets):
            chosen += self._take_fresh(most - sum(each.size for each in chosen), budget)
        return chosen

    def _take_again(self, most: int, budget: ByteBudget) -> list[Chosen]:
        again = self._again
        some = again.offsets[:most]
        if not len(some):
            return []
        sizes = message_sizes(self.facts, some)
        fitting = budget.fitting(sizes)
        chosen = list(ranges(some[:fitting], again.attempts[:fitting]))
        self._again = _Again(again.offsets[fitting:], again.attempts[fitting:])
        return chosen

    def _take_fresh(self, most: int, budget: ByteBudget) -> list[Chosen]:
        chosen: list[Chosen] = []
        while most > 0 and self._fresh < self._fresh_end and self._scanned < MAX_SCANNED:
            left = min(self._fresh_end - self._fresh, self.facts.room.left)
            if left <= 0:
                break
            units = self.facts.units(self._fresh, min(_UNITS_AT_ONCE, left, self._most(most)))
            wanted = np.flatnonzero(self.facts.wanted(self._fresh, units))[:most]
            fitting = budget.fitting(shares(self.facts.replica.log, units[wanted]))
            is_cut_short = fitting < len(wanted)
            passed = int(wanted[fitting]) if is_cut_short else len(units)
            if len(wanted) == most and not is_cut_short:
                passed = int(wanted[-1]) + 1
            taken = wanted[:fitting]
            chosen += ranges(taken + self._fresh, np.zeros(len(taken), np.int64))
            self.skips += gaps(taken, passed, self._fresh)
            most -= fitting
            self._fresh += passed
            self._scanned += passed
            self.facts.room.left -= passed
            if is_cut_short or not passed:
                break
        return chosen

    def _most(self, most: int) -> int:
        """Return how many units are read for `most` messages."""
        return _UNITS_AT_ONCE if self.facts.wants_some else most


def has_tags(units: Units, hashes: Iterable[int]) -> NDArray[np.bool_]:
    """Return which of these messages have one of the tags."""
    return np.isin(units["tag_hash"], np.fromiter(hashes, np.int64))


def reach_of(replica: BrokerReplica, window: LeaseWindow, first: int) -> int:
    """Return the offset before which a window can reach now. `first` is the first offset that the log still has."""
    room = MAX_OPEN_OFFSETS - replica.state.shared.leases.open_offsets + len(window)
    return max(window.begin, first) + min(MAX_WINDOW, room)


def free_messages(facts: ChoiceFacts) -> tuple[Offsets, Offsets]:
    """Return the offsets of the messages in the window that may be leased now, and how often each was handed out."""
    slots = facts.window.slots
    free = np.flatnonzero((slots["is_settled"] == 0) & are_free(slots, facts.now_ms))
    offsets = free + facts.window.begin
    there = offsets >= facts.first
    return offsets[there], slots["attempts"][free[there]].astype(np.int64)


def message_sizes(facts: ChoiceFacts, offsets: Offsets) -> NDArray[np.float64]:
    """Return about how many bytes each of these messages has. The offsets ascend."""
    first, span = int(offsets[0]), int(offsets[-1] - offsets[0]) + 1
    if span <= _UNITS_AT_ONCE:
        units = facts.units(first, span)[offsets - first]
    else:
        units = np.concatenate([facts.units(offset, 1) for offset in offsets.tolist()])
    return shares(facts.replica.log, units)


def ranges(offsets: Offsets, attempts: Offsets) -> Iterator[Chosen]:
    """Yield the runs of neighbouring offsets."""
    if not len(offsets):
        return
    cuts = np.flatnonzero(np.diff(offsets) != 1) + 1
    for some, counts in zip(np.split(offsets, cuts), np.split(attempts, cuts), strict=True):
        yield Chosen(int(some[0]), len(some), counts.tolist())


def gaps(taken: NDArray[np.intp], passed: int, first: int) -> Iterable[tuple[int, int]]:
    """Yield the ranges (first, size) of the places 0 to `passed` - 1 that are not in `taken`. Place 0 is the offset
    `first`."""
    left = np.ones(passed, np.bool_)
    left[taken] = False
    places = np.flatnonzero(left)
    if not len(places):
        return
    for some in np.split(places, np.flatnonzero(np.diff(places) != 1) + 1):
        yield first + int(some[0]), len(some)
