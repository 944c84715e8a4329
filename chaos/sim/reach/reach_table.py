"""What `ledgermq sim` prints about reached places: a summary after each campaign, and the table of --reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from chaos.sim.reach.counts import CampaignReach
from chaos.sim.reach.place import NEVER, RARE, Place

# A line names at most so many places that were not reached.
MOST_NAMED = 12
HEAD = ("place", "times", "seeds", "first seeds (time of the run)", "due after")


def summary(places: Sequence[Place], world: str, reach: CampaignReach) -> Iterator[tuple[str, str]]:
    """Yield a row for each subject: how many of the places that the world can reach were reached."""
    possible = [place for place in places if place.seeds(world) != NEVER]
    for subject in dict.fromkeys(place.subject for place in possible):
        names = [place.name for place in possible if place.subject == subject]
        yield f"reached: {subject}", f"{sum(reach.times[name] > 0 for name in names)} of {len(names)} places"


def not_reached(places: Sequence[Place], world: str, reach: CampaignReach) -> str:
    """Return a line about the places that the world can reach and the campaign did not reach, or ""."""
    missing = [place.name for place in places if place.seeds(world) != NEVER and not reach.times[place.name]]
    if len(missing) > MOST_NAMED:
        return f"{len(missing)} places were not reached; --reach names them"
    return f"not reached ({len(missing)}): {'; '.join(missing)}" if missing else ""


def rows(places: Sequence[Place], world: str, reach: CampaignReach) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the whole table. The columns are those of HEAD."""
    for place in places:
        name = place.name
        first = ", ".join(map(str, reach.first.get(name, ())))
        yield name, f"{reach.times[name]:,}", f"{reach.seeds[name]:,}", first, _due(place.seeds(world))


def as_json(places: Sequence[Place], world: str, reach: CampaignReach) -> dict[str, Any]:
    """Return for each place that the world can reach how often it was reached, and the first seeds."""
    return {
        place.name: {
            "times": reach.times[place.name],
            "seeds": reach.seeds[place.name],
            "first": [{"seed": each.seed, "at_ms": each.at_ms} for each in reach.first.get(place.name, ())],
        }
        for place in places
        if place.seeds(world) != NEVER
    }


def _due(seeds: int) -> str:
    if seeds == NEVER:
        return "not in this world"
    return "rare" if seeds >= RARE else f"{seeds:,} seeds"
