"""The shortest schedule that still fails: events are left out for as long as the run fails without them.

The one idea (delta debugging, Zeller's ddmin): try to do without large parts first, then without smaller ones, until no
single event can go. Pure: whether a schedule fails is asked of the caller.

Must not know: what a run is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from chaos.sim.engine.schedule import Schedule

Fails = Callable[[Schedule], bool]


@dataclass(slots=True)
class Budget:
    """How many runs may be spent on it."""

    runs: int = 300


def shrink(schedule: Schedule, fails: Fails, budget: Budget | None = None) -> Schedule:
    """A part of a failing schedule, in its order, that fails too. Where the budget allows, no event of it can go."""
    budget = budget or Budget()
    if _try((), fails, budget):
        return ()
    parts = 2
    while len(schedule) >= 2 and budget.runs > 0:
        shorter = _without_a_part(schedule, parts, fails, budget)
        if shorter is not None:
            schedule, parts = shorter, max(parts - 1, 2)
        elif parts >= len(schedule):
            break
        else:
            parts = min(2 * parts, len(schedule))
    return schedule


def _without_a_part(schedule: Schedule, parts: int, fails: Fails, budget: Budget) -> Schedule | None:
    """The schedule without one of so many equal parts, where it still fails then. The last ones go first: what comes
    after the failure has no part in it."""
    bounds = [len(schedule) * i // parts for i in range(parts + 1)]
    for begin, end in reversed([*pairwise(bounds)]):
        shorter = schedule[:begin] + schedule[end:]
        if _try(shorter, fails, budget):
            return shorter
    return None


def _try(schedule: Schedule, fails: Fails, budget: Budget) -> bool:
    if budget.runs <= 0:
        return False
    budget.runs -= 1
    return fails(schedule)
