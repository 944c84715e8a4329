"""When what goes wrong: a tuple of fault events, made ahead of the run from its seed alone.

Leaving events out of a schedule changes nothing about the others, so a failing one can be shortened.

Must not know: worlds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.faults import KINDS, FaultEvent, FaultKind

Schedule = tuple[FaultEvent, ...]

# At the start: so that a cluster has come up before anything breaks.
QUIET_MS = 3_000

LEAST_OF_REQUESTED = 3


def make(options: Options) -> Schedule:
    """All faults of a run, in order of time. Each kind that was asked for by name comes a few times at least."""
    events: list[FaultEvent] = []
    for name, strength in options.strengths:
        # Of its own chance, so that adding a kind to the table leaves the others where they are.
        random = options.chance(f"schedule/{name}")
        found = list(_of_kind(KINDS[name], strength, random, options.duration_ms))
        if name in options.requested:
            missing = range(LEAST_OF_REQUESTED - len(found))
            found += [KINDS[name].draw(random, random.randint(QUIET_MS, options.duration_ms)) for _ in missing]
        events += found
    return tuple(sorted(events, key=lambda event: event.at_ms))


def _of_kind(kind: FaultKind, strength: float, random: Random, duration_ms: int) -> Iterable[FaultEvent]:
    """At random moments, as often as its strength says on average."""
    at = float(QUIET_MS)
    while True:
        at += random.expovariate(strength / kind.every_ms)
        if at >= duration_ms:
            return
        yield kind.draw(random, round(at))


def to_json(schedule: Schedule) -> str:
    """One event a line."""
    return "".join(json.dumps([event.at_ms, event.kind, dict(event.arguments)]) + "\n" for event in schedule)


def from_json(text: str) -> Schedule:
    """What `to_json` wrote."""
    events = [json.loads(line) for line in text.splitlines() if line.strip()]
    return tuple(FaultEvent(at_ms, kind, tuple(arguments.items())) for at_ms, kind, arguments in events)
