"""Schedules of faults, and the options that a seed draws."""

from __future__ import annotations

import pytest

from chaos.sim.campaign.seeds import Seeds
from chaos.sim.campaign.swarm import Wishes, draw
from chaos.sim.engine import schedule as schedules
from chaos.sim.engine.faults import BOTH, KINDS, RATES, FaultEvent
from chaos.sim.engine.targets import one_of


def test_a_seed_always_draws_the_same_and_another_one_something_else() -> None:
    first, again, other = (draw(seed, Wishes()) for seed in (7, 7, 8))
    assert (first, schedules.make(first)) == (again, schedules.make(again))
    assert schedules.make(first) != schedules.make(other)


def test_swarms_leave_faults_out_and_every_fault_is_drawn_by_some() -> None:
    drawn = [{name for name, _ in draw(seed, Wishes(nodes=5)).strengths} for seed in range(60)]
    everything = {name for name, kind in KINDS.items() if "protocol" in kind.worlds}
    assert set.union(*drawn) == everything
    assert all(set.intersection(drawn[i], drawn[i + 1]) != everything for i in range(0, 60, 2))
    assert len({draw(seed, Wishes()).nodes for seed in range(60)}) == 5
    assert {draw(seed, Wishes()).sync for seed in range(60)} == {True, False}


def test_half_of_the_seeds_of_the_stack_have_one_shard_and_others_begin_some_under_load() -> None:
    drawn = [draw(seed, Wishes("stack")) for seed in range(200)]
    shards = [options.shards for options in drawn]
    assert set(shards) == {1, 2, 3, 4}
    assert 80 < shards.count(1) < 120
    adding = [options for options in drawn if "add_group" in dict(options.strengths)]
    assert adding
    assert all((options in adding) == (options.first_shards < options.shards) for options in drawn)
    assert {draw(seed, Wishes()).shards for seed in range(50)} == {1}


def test_how_many_shards_there_are_changes_nothing_else_that_a_seed_draws() -> None:
    one, three = (draw(7, Wishes("stack", shards=shards)) for shards in (1, 3))
    assert (one.nodes, one.sync, one.conditions, one.tick_ms) == (
        three.nodes,
        three.sync,
        three.conditions,
        three.tick_ms,
    )
    of_shards = {(kind, strength) for kind in ("add_group", "move_replicas") for strength in (0.3, 1.0, 3.0)}
    assert set(three.strengths) - set(one.strengths) <= of_shards


def test_an_event_is_about_any_shard_by_its_own_chance() -> None:
    events = [FaultEvent(5, "kill", (("target", "leader"), ("chance", chance))) for chance in range(30)]
    assert {one_of(event, (0, 1, 2)) for event in events} == {0, 1, 2}
    assert {one_of(event, (0,)) for event in events} == {0}


def test_a_schedule_is_ordered_and_survives_its_file() -> None:
    schedule = schedules.make(draw(3, Wishes()))
    assert len(schedule) > 10
    assert [event.at_ms for event in schedule] == sorted(event.at_ms for event in schedule)
    assert schedules.from_json(schedules.to_json(schedule)) == schedule


def test_without_faults_there_is_no_event_and_no_rate() -> None:
    options = draw(5, Wishes(faults=()))
    assert schedules.make(options) == ()
    assert options.conditions.loss == options.conditions.replay == 0


@pytest.mark.parametrize("seed", range(10))
def test_what_is_asked_for_by_name_comes_and_nothing_else_does(seed: int) -> None:
    options = draw(seed, Wishes(minutes=1, faults=("wipe", "power_cut_all", "loss")))
    assert {event.kind for event in schedules.make(options)} == {"wipe", "power_cut_all"}
    assert options.nodes >= 3, "a wiped disk of two would be the end"
    assert options.sync, "all power may be cut only where everything acknowledged is flushed"
    assert options.conditions.loss > 0
    assert options.conditions.duplicate == 0


def test_leaving_an_event_out_leaves_the_others_as_they_are() -> None:
    few, more = draw(4, Wishes(faults=("kill",))), draw(4, Wishes(faults=("kill", "pause")))
    kills = [event for event in schedules.make(more) if event.kind == "kill"]
    assert kills == list(schedules.make(few))


def test_every_fault_says_what_it_is_and_belongs_to_a_world() -> None:
    for kind in KINDS.values():
        assert kind.help
        assert set(kind.worlds) <= set(BOTH)
        assert kind.name not in RATES
    assert FaultEvent(5, "kill", (("target", "leader"), ("for_ms", 20)))["for_ms"] == 20


def test_seeds_as_a_person_writes_them() -> None:
    seeds = Seeds.parse("3..5, 9,11..12")
    assert seeds.without([4, 11]) == [3, 5, 9, 12]
    assert len(seeds) == 6
    assert 12 in seeds
    assert 10 not in seeds


@pytest.mark.parametrize("wrong", ["", "x", "3..", "5..3", "1,,2", "-1"])
def test_what_is_no_seed_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        Seeds.parse(wrong)
