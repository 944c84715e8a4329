"""Messages that are sent again with their ids, by other producers, while nodes die and networks break.

The account of the load knows one message for both sends, so a second copy in the log breaks *exactly once*, and a wrong
place in an answer breaks *acknowledged is committed*.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.sim.campaign.swarm import Options, Wishes, draw
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.stack.stack_world import StackWorld
from ledger.state.message_ids import MessageIds
from tests.chaos.sim.conftest import NewStackWorld

pytestmark = pytest.mark.long

SETTLE_MS = 60_000
FAULTS = (
    FaultEvent(6_000, "kill", (("target", "leader"), ("down_ms", 2_000))),
    FaultEvent(10_000, "isolate", (("target", "leader"), ("for_ms", 3_000))),
    FaultEvent(15_000, "kill_all", (("down_ms", 1_000),)),
)


def options(seed: int) -> Options:
    drawn = draw(seed, Wishes(world="stack", minutes=0.4, nodes=3, shards=2, faults=()))
    return replace(drawn, authentication=False, old_programs=(), timed_share=0.0, producers=3, named_share=1.0)


def violations_after(world: StackWorld) -> list[str]:
    """Run the world with the faults, and return what is wrong or missing at its end."""
    world.start_workload()
    for event in FAULTS:
        world.loop.call_at(event.at_ms / 1000, world.fire, event)
    world.loop.run_until(world.options.duration_ms / 1000)
    world.stop_faults()
    missing = world.settle(SETTLE_MS)
    return [str(violation) for violation in world.violations()] + missing


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_message_with_an_id_is_stored_once(new_world: NewStackWorld, seed: int) -> None:
    assert violations_after(new_world(options(seed))) == []


def test_a_shard_that_forgets_ids_is_found(new_world: NewStackWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageIds, "remember", lambda *_: None)
    assert any("exactly once" in each for each in violations_after(new_world(options(1))))
