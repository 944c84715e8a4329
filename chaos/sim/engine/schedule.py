"""Chooses the fault events of a run at random from its seed. A schedule is a tuple of fault events. They are chosen at
random, within the options of the run, before the run starts.

The events of a schedule do not depend on each other, so the schedule of a failed run can be shortened by removing
events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.faults import KINDS, FaultEvent, FaultKind

Schedule = tuple[FaultEvent, ...]

# No fault occurs in this time at the start, so that the cluster can form.
QUIET_MS = 3_000

LEAST_OF_REQUESTED = 3


def make(options: Options) -> Schedule:
    """Choose all fault events of a run at random, and order them by time. Each fault kind that the user named has
    at least LEAST_OF_REQUESTED events."""
    events: list[FaultEvent] = []
    for name, strength in options.strengths:
        # Each kind has its own random stream, so a new kind does not change the events of the others.
        random = options.chance(f"schedule/{name}")
        found = list(_of_kind(KINDS[name], strength, random, options.duration_ms))
        if name in options.requested:
            missing = range(LEAST_OF_REQUESTED - len(found))
            found += [KINDS[name].draw(random, random.randint(QUIET_MS, options.duration_ms)) for _ in missing]
        events += found
    return tuple(sorted(events, key=lambda event: event.at_ms))


def _of_kind(kind: FaultKind, strength: float, random: Random, duration_ms: int) -> Iterable[FaultEvent]:
    """Draw the fault events of one kind, at random times. The mean time between two events is `kind.every_ms /
    strength` milliseconds."""
    at = float(QUIET_MS)
    while True:
        at += random.expovariate(strength / kind.every_ms)
        if at >= duration_ms:
            return
        yield kind.draw(random, round(at))


def to_json(schedule: Schedule) -> str:
    """Return the schedule as text, one event per line."""
    return "".join(json.dumps([event.at_ms, event.kind, dict(event.arguments)]) + "\n" for event in schedule)


def from_json(text: str) -> Schedule:
    """Read a schedule from a text that `to_json` made, and return the schedule."""
    events = [json.loads(line) for line in text.splitlines() if line.strip()]
    return tuple(FaultEvent(at_ms, kind, tuple(arguments.items())) for at_ms, kind, arguments in events)
