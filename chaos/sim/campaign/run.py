"""Runs one seed: first with faults, then without faults until the cluster has recovered.

    |-- workload and faults ---------------|-- all faults healed, no new sends: settle --|
    0                                 duration      at most SETTLE_MS more (stack world: ten times that while consumers
                                                    still make progress)

The result of a run depends only on the seed, the options that the user fixed, and the schedule of faults.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module

from chaos.sim.campaign.swarm import Options, Wishes, draw
from chaos.sim.engine import schedule as schedules
from chaos.sim.engine.outside_world import OutsideWorld
from chaos.sim.engine.schedule import Schedule
from chaos.sim.reach.counts import RunReach
from chaos.sim.reach.places import probes_of
from chaos.sim.world import World

# Worlds are imported when they are used, because the stack world needs more packages than the protocol world.
WORLDS = {
    "protocol": "chaos.sim.protocol.protocol_world:ProtocolWorld",
    "stack": "chaos.sim.stack.stack_world:StackWorld",
}

SETTLE_MS = 120_000
_LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class SeedReport:
    """The result of one seed. Every field of a report depends only on the input of the run, never on the wall
    clock."""

    seed: int
    passed: bool
    violations: tuple[str, ...]
    # Conditions that were not met when the time to settle was over.
    missing: tuple[str, ...]
    # Fault kinds that were requested by name and never had an effect. Such a run proves nothing.
    void: tuple[str, ...]
    history: int
    simulated_ms: int
    # Number of scheduled fault events, by kind.
    scheduled: Mapping[str, int]
    happened: Mapping[str, int]
    figures: Mapping[str, int]
    # How often the run reached each place (chaos/sim/reach), and when for the first time.
    reached: Mapping[str, int] = field(default_factory=dict)
    first_reached_ms: Mapping[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return bool(self.violations or self.missing)

    @property
    def reason(self) -> str:
        """The reason why the run did not pass, in one line, or "" if the run passed."""
        if self.violations:
            return self.violations[0]
        if self.missing:
            return f"did not settle in time: {'; '.join(self.missing)}"
        return f"requested faults never had an effect: {', '.join(self.void)}" if self.void else ""


MakeWorld = Callable[[Options], World]


def run(seed: int, wishes: Wishes, schedule: Schedule | None = None, make_world: MakeWorld | None = None) -> SeedReport:
    """Run a seed. If `schedule` is given, for example a shortened schedule, the run uses `schedule` instead of the
    schedule that the seed would draw."""
    options, reach = draw(seed, wishes), RunReach()
    events = schedules.make(options) if schedule is None else schedule
    make = make_world or world_of(wishes.world)
    with _garbage_stays(), probes_of(wishes.world).active(reach.note), OutsideWorld() as outside:
        world = make(options)
        reach.now_s = world.loop.time
        try:
            return _run(world, options, events, reach, outside)
        finally:
            world.close()


@contextmanager
def _garbage_stays() -> Iterator[None]:
    """Switch the garbage collector off during a run. The garbage collector is slow and would run finalizers at
    times that do not depend on the seed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def world_of(name: str) -> MakeWorld:
    """Return the constructor of the world with this name."""
    module, attribute = WORLDS[name].split(":")
    made: MakeWorld = getattr(import_module(module), attribute)
    return made


def _run(world: World, options: Options, events: Schedule, reach: RunReach, outside: OutsideWorld) -> SeedReport:
    loop = world.loop
    world.start_workload()
    for event in events:
        loop.call_at(event.at_ms / 1000, world.fire, event)
    while loop.time() < options.minutes * 60 and not _stopped(world, outside):
        loop.run_until(min(loop.time() + _LOOK_EVERY_S, options.minutes * 60))
    missing: list[str] = []
    if not _stopped(world, outside):
        world.stop_faults()
        missing = world.settle(SETTLE_MS)
    return _report(world, options, events, missing, reach, outside)


def _stopped(world: World, outside: OutsideWorld) -> bool:
    return bool(world.violations() or world.loop.errors or outside.used)


def _report(
    world: World, options: Options, events: Schedule, missing: list[str], reach: RunReach, outside: OutsideWorld
) -> SeedReport:
    violations = [*outside.used, *(str(violation) for violation in world.violations())]
    violations += [f"{type(error).__name__}: {error}" for error in world.loop.errors if not violations]
    happened = {name: count for name, count in sorted(world.happened.items()) if count}

    void = tuple(name for name in options.requested if name not in happened)
    return SeedReport(
        seed=options.seed,
        passed=not (violations or missing or void),
        violations=tuple(violations),
        missing=() if violations else tuple(missing),
        void=() if violations or missing else void,
        history=world.history(),
        simulated_ms=round(world.loop.time() * 1000),
        scheduled=dict(sorted(Counter(event.kind for event in events).items())),
        happened=happened,
        figures=dict(world.figures()),
        reached=dict(sorted(reach.times.items())),
        first_reached_ms=dict(sorted(reach.first_ms.items())),
    )
