"""Shrinking a schedule removes the events that are not needed for the failure, and keeps the others."""

from __future__ import annotations

from chaos.sim.campaign.shrink import RunBudget, shrink
from chaos.sim.engine.faults import FaultEvent

WHOLE = tuple(FaultEvent(at, "kill" if at % 7 else "wipe") for at in range(1, 101))


def at(schedule: tuple[FaultEvent, ...]) -> list[int]:
    return [event.at_ms for event in schedule]


def test_only_what_the_failure_needs_remains_in_its_order() -> None:
    needed = {13, 14, 77}
    short = shrink(WHOLE, lambda part: needed <= set(at(part)))
    assert at(short) == [13, 14, 77]


def test_a_failure_that_needs_no_fault_at_all_is_found_with_one_run() -> None:
    budget = RunBudget()
    assert shrink(WHOLE, lambda part: True, budget) == ()
    assert budget.runs == RunBudget().runs - 1


def test_no_single_event_of_the_result_can_go() -> None:
    def fails(part: tuple[FaultEvent, ...]) -> bool:
        return sum(event.kind == "wipe" for event in part) >= 3

    short = shrink(WHOLE, fails)
    assert fails(short)
    assert not any(fails(short[:i] + short[i + 1 :]) for i in range(len(short)))


def test_a_spent_budget_gives_what_was_found_so_far() -> None:
    runs = []

    def fails(part: tuple[FaultEvent, ...]) -> bool:
        runs.append(part)
        return {20, 90} <= set(at(part))

    short = shrink(WHOLE, fails, RunBudget(6))
    assert len(runs) == 6
    assert {20, 90} <= set(at(short))
