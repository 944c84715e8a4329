"""Finds the shortest schedule of faults that still makes a run fail (delta debugging, Zeller's ddmin).

The search first tries to remove large parts of the schedule, then smaller parts, until no single event can be removed.
The search itself runs no simulation: the caller passes a function that says whether a schedule fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from chaos.sim.engine.schedule import Schedule

Fails = Callable[[Schedule], bool]


@dataclass(slots=True)
class RunBudget:
    """The number of runs that the search is still allowed to make."""

    runs: int = 300


def shrink(schedule: Schedule, fails: Fails, budget: RunBudget | None = None) -> Schedule:
    """Return a shortened schedule that still makes the run fail. If the budget is large enough, no single event of
    the returned schedule can be removed."""
    budget = budget or RunBudget()
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


def _without_a_part(schedule: Schedule, parts: int, fails: Fails, budget: RunBudget) -> Schedule | None:
    """Divide the schedule into `parts` equal parts, and return the schedule without one of these parts if the
    shortened schedule still fails. If no shortened schedule fails, return None. Later parts are removed first,
    because events after the failure cannot be the cause of the failure."""
    bounds = [len(schedule) * i // parts for i in range(parts + 1)]
    for begin, end in reversed([*pairwise(bounds)]):
        shorter = schedule[:begin] + schedule[end:]
        if _try(shorter, fails, budget):
            return shorter
    return None


def _try(schedule: Schedule, fails: Fails, budget: RunBudget) -> bool:
    if budget.runs <= 0:
        return False
    budget.runs -= 1
    return fails(schedule)
