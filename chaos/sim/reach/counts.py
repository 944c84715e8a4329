"""Counts the places that a run reached, adds up the runs of a campaign, and says which places are missing."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.sim.campaign.swarm import Wishes
from chaos.sim.reach.place import NEVER, Place

# How many of the first seeds that reached a place are kept, to replay it.
FIRST_SEEDS = 3
# A shorter run reaches fewer places, and `Place.protocol` and `Place.stack` say nothing about it.
LEAST_MINUTES = 1.0


class RunReach:
    """The places that one run reached: how often, and when for the first time."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.first_ms: dict[str, int] = {}
        # The simulated time. The world sets it as soon as it has a clock.
        self.now_s: Callable[[], float] = lambda: 0.0

    def note(self, place: str) -> None:
        self.times[place] += 1
        if place not in self.first_ms:
            self.first_ms[place] = round(self.now_s() * 1000)


@dataclass(frozen=True, slots=True, order=True)
class FirstSeed:
    """A seed that reached a place, and the simulated time (ms) at which it got there first."""

    seed: int
    at_ms: int

    def __str__(self) -> str:
        return f"{self.seed} ({self.at_ms / 1000:.1f} s)"


@dataclass(slots=True)
class CampaignReach:
    """The places that the runs of a campaign reached."""

    times: Counter[str] = field(default_factory=Counter)
    # The number of seeds that reached each place.
    seeds: Counter[str] = field(default_factory=Counter)
    # The smallest of these seeds, ascending, so that they do not depend on the number of worker processes.
    first: dict[str, list[FirstSeed]] = field(default_factory=dict)

    def add(self, seed: int, times: Mapping[str, int], first_ms: Mapping[str, int]) -> None:
        """Add what the run of a seed reached."""
        self.times.update(times)
        self.seeds.update(times.keys())
        for place, at_ms in first_ms.items():
            first = self.first.setdefault(place, [])
            insort(first, FirstSeed(seed, at_ms))
            del first[FIRST_SEEDS:]


def due(places: Sequence[Place], wishes: Wishes) -> dict[str, int]:
    """Return for each place how many seeds of this campaign must reach it. A campaign that chooses faults, nodes or
    shards, or whose runs are short, need not reach any place."""
    chooses = (wishes.nodes, wishes.shards, wishes.faults) != (None, None, None) or wishes.accepted_loss
    if chooses or wishes.minutes < LEAST_MINUTES:
        return {}
    return {place.name: seeds for place in places if (seeds := place.seeds(wishes.world)) != NEVER}
