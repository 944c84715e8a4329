"""Consumer groups in the stack world: production members with faults, on production nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chaos.sim.campaign.swarm import Options, Wishes, draw
from chaos.sim.consumers.consumption_plan import GroupPlan, Style, draw_groups
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.stack.stack_world import StackWorld
from tests.chaos.sim.conftest import NewStackWorld, missing_after

pytestmark = pytest.mark.long

SETTLE_MS = 60_000


def options() -> Options:
    drawn = draw(1, Wishes(world="stack", minutes=0.3, nodes=3, faults=()))
    return replace(drawn, sync=True, staged=False, largest_batch=2, flush_ms=10.0, queues=3)


def plan(**changes: Any) -> GroupPlan:
    values: dict[str, Any] = {
        "seed": 1, "name": "g", "topics": ("t0",), "style": Style.PULL, "members": 3, "strategy": "average",
        "tags": None, "start": "earliest", "session_timeout_ms": 1_500, "release_timeout_ms": 5_000,
        "max_attempts": 3, "concurrency": 3,
    }  # fmt: skip
    return GroupPlan(**(values | changes))


NewWorldOf = Callable[[GroupPlan], StackWorld]


@pytest.fixture
def world_of(monkeypatch: pytest.MonkeyPatch, new_world: NewStackWorld) -> NewWorldOf:
    """Return a function that makes a world with one consumer group."""

    def make(group: GroupPlan) -> StackWorld:
        monkeypatch.setattr("chaos.sim.consumers.consumption.draw_groups", lambda *_: [group])
        return new_world(options())

    return make


def counts_of(world: StackWorld, *events: FaultEvent) -> Counter[str]:
    """Run the world with these faults to its end. The run must pass. Returns the figures of the consumers."""
    missing = missing_after(world, *events, settle_ms=SETTLE_MS)
    assert not world.loop.errors
    assert missing == []
    counts = world.consumption.figures()
    return Counter({name.removeprefix("consumers_"): count for name, count in counts.items()})


def often(kind: str, for_ms: int = 0) -> list[FaultEvent]:
    arguments = (("for_ms", for_ms),) if for_ms else ()
    return [FaultEvent(at, kind, (*arguments, ("chance", at))) for at in range(5_000, 17_000, 2_000)]


@pytest.mark.parametrize("style", Style)
def test_without_faults_everything_is_handed_out_once_and_what_fails_for_ever_is_given_up(
    world_of: NewWorldOf, style: Style
) -> None:
    world = world_of(plan(style=style))
    counts = counts_of(world)
    of_topic = sum(len(world.consumption.truth.records("t0", queue)) for queue in world.consumption.truth.queues("t0"))
    assert counts["handed"] > of_topic > 50  # some more than once: they failed
    assert counts["dead_letters"] > 0
    assert counts["handed_again"] == counts["fenced"] == counts["missing"] == 0


def test_the_messages_of_members_that_are_disturbed_come_again_and_none_is_lost(
    world_of: NewWorldOf,
) -> None:
    events = [*often("member_crash", 500), *often("member_pause", 3_000), *often("member_cut", 3_000)]
    world = world_of(plan(style=Style.CONCURRENT, concurrency=1))
    counts = counts_of(world, *events)
    assert all(world.happened[kind] > 2 for kind in ("member_crash", "member_pause", "member_cut"))
    assert counts["handed_again"] > 0
    assert counts["rebalances"] > 3


def test_members_that_come_and_go_in_order_have_nothing_handed_out_twice(world_of: NewWorldOf) -> None:
    world = world_of(plan(style=Style.ORDERLY))
    counts = counts_of(world, *often("member_join"), *often("member_leave"))
    assert world.happened["member_leave"] > 2
    assert counts["rebalances"] > 3  # who joins while another one leaves is assigned with that
    assert counts["handed_again"] == counts["again_unfinished"]


def test_what_a_reset_goes_back_over_comes_again(world_of: NewWorldOf) -> None:
    world = world_of(plan(style=Style.ITERATE))
    counts = counts_of(world, *often("offsets_reset"))
    assert world.happened["offsets_reset"] > 0
    assert counts["again_reset"] > 0


def test_seeds_with_and_without_consumer_groups_are_drawn() -> None:
    shards = Counter(len(draw_groups(draw(seed, Wishes(world="stack")), 2)) for seed in range(200))
    assert set(shards) == {0, 1, 2}
    assert shards[0] > 50
    asked = Wishes(world="stack", faults=("member_crash",))
    assert all(draw_groups(draw(seed, asked), 2) for seed in range(20))
