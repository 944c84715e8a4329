"""Computes the rates of several rounds, and their ratios to the rates of other message systems. This module does
only computation: it reads no files and starts no processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.peers.awaiting import AwaitedRun, Crowd, middle
from bench.peers.load import MessageDifferences
from bench.peers.peer import WAYS, Description, How, Way

SIZES = (128, 1024)
FIRST_COUNT = 2_000
_MOST_GROWTH = 10


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """One kind of measurement: the way of sending or consuming, and the size of the messages."""

    way: Way
    size: int


CASES = [Case(way, size) for way in WAYS for size in SIZES]


@dataclass(frozen=True, slots=True)
class PeerRun:
    """The result of one measurement: how many messages a load process sent or consumed, and in how many seconds."""

    case: Case
    messages: int
    seconds: float
    compared: MessageDifferences | None = None

    @property
    def per_s(self) -> float:
        return self.messages / self.seconds


@dataclass(slots=True)
class ClientRates:
    """All measured runs of one client in all rounds."""

    client: str
    how: How
    runs: list[PeerRun] = field(default_factory=list)
    awaited: list[AwaitedRun] = field(default_factory=list)

    def awaited_by(self, crowd: Crowd) -> list[AwaitedRun]:
        return [run for run in self.awaited if run.crowd == crowd]

    def of(self, case: Case) -> list[float]:
        return [run.per_s for run in self.runs if run.case == case]

    @property
    def consumed(self) -> int:
        return sum(run.messages for run in self.runs if run.compared)

    @property
    def compared(self) -> MessageDifferences:
        """Return the sums over all rounds: of missing messages, of messages that were never sent, and of messages
        that came twice."""
        each = [run.compared for run in self.runs if run.compared]
        return MessageDifferences(
            sum(one.missing for one in each), sum(one.strange for one in each), sum(one.twice for one in each)
        )


@dataclass(frozen=True, slots=True)
class PeerMeasurement:
    """The results of measuring one peer with all its clients."""

    name: str
    description: Description
    rates: list[ClientRates]
    # The machine's load average when the measurements began.
    load: float

    # Failures of runs that were then repeated.
    failures: list[str]


@dataclass(frozen=True, slots=True)
class Against:
    """The measurements of a peer, and the measurements of ledgermq just before and just after the peer."""

    peer: PeerMeasurement
    ours: tuple[PeerMeasurement, PeerMeasurement]

    def mine(self, case: Case) -> float:
        """Return the median of ledgermq's rates from before and after the peer."""
        return median([rate for each in self.ours for rates in each.rates for rate in rates.of(case)])

    def awaited(self, client: str, crowd: Crowd) -> tuple[AwaitedRun, AwaitedRun] | None:
        """Return the medians of the peer's client and of ledgermq for this crowd, or None if it was not measured."""
        theirs = next(rates for rates in self.peer.rates if rates.client == client).awaited_by(crowd)
        mine = [run for each in self.ours for rates in each.rates for run in rates.awaited_by(crowd)]
        return (middle(theirs), middle(mine)) if theirs and mine else None

    def theirs(self, client: str, case: Case) -> float:
        return median(next(rates for rates in self.peer.rates if rates.client == client).of(case))

    def ratio(self, client: str, case: Case) -> float:
        """Return the rate of ledgermq divided by the rate of the peer's client."""
        return self.mine(case) / self.theirs(client, case)


def next_count(count: int, seconds: float, wanted_s: float, most: int) -> int | None:
    """Return how many messages the next run should have if a run of `count` messages took `seconds`. Return None if
    the run was long enough.
    """
    if seconds >= wanted_s / 2 or count >= most:
        return None
    return min(most, max(2 * count, min(int(count / seconds * wanted_s), _MOST_GROWTH * count)))


def spread(rates: Sequence[float]) -> float:
    """Return the difference between the largest and the smallest rate, divided by the median rate."""
    return (max(rates) - min(rates)) / median(rates)
