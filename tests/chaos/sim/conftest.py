"""What several tests of the simulator share: a fixture that makes worlds, and a run to the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.stack.stack_world import StackWorld

NewStackWorld = Callable[[Options], StackWorld]
# How long a world may take to settle after its faults.
SETTLE_MS = 20_000


@pytest.fixture
def new_world() -> Iterator[NewStackWorld]:
    """Yield a function that makes stack worlds. The fixture closes them, also if the test fails. Python would end the
    tasks of an open world at some time in a later test, and pytest would report their exceptions there."""
    with ExitStack() as worlds:
        yield lambda options: worlds.enter_context(closing(StackWorld(options)))


def missing_after(world: StackWorld, *events: FaultEvent, settle_ms: int = SETTLE_MS) -> list[str]:
    """Run the world with these faults, and return what is missing `settle_ms` after their end."""
    world.start_workload()
    for event in events:
        world.loop.call_at(event.at_ms / 1000, world.fire, event)
    world.loop.run_until(world.options.duration_ms / 1000)
    world.stop_faults()
    missing = world.settle(settle_ms)
    assert [str(violation) for violation in world.violations()] == []
    return missing
