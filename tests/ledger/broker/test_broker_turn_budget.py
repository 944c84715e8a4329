"""Tests the budget of work in one turn of the event loop: its limit, its order, and cancelled requests."""

from __future__ import annotations

import asyncio

from ledger.broker.turn_budget import TurnBudget


async def test_parts_over_the_budget_wait_for_later_turns_in_order() -> None:
    turns, done = TurnBudget(10), list[int]()

    async def request(number: int) -> None:
        await turns.spend(5)
        done.append(number)

    tasks = [asyncio.create_task(request(number)) for number in range(9)]
    sizes = []
    while len(done) < 9:
        before = len(done)
        await asyncio.sleep(0)
        sizes.append(len(done) - before)
    assert done == list(range(9))
    assert max(sizes) == 2
    await asyncio.gather(*tasks)


async def test_a_part_within_the_budget_costs_no_turn() -> None:
    turns = TurnBudget(10)
    request = turns.spend(3)
    try:
        request.send(None)
    except StopIteration:
        return
    raise AssertionError("it waited")


async def test_a_part_larger_than_the_budget_is_granted_alone() -> None:
    turns = TurnBudget(10)
    await turns.spend(1000)
    later = asyncio.create_task(turns.spend(1000))
    await asyncio.wait_for(later, 10)


async def test_a_cancelled_request_takes_nothing_from_the_others() -> None:
    turns = TurnBudget(1)
    earlier = [asyncio.create_task(turns.spend(1)) for _ in range(5)]
    first, second = asyncio.create_task(turns.spend(100)), asyncio.create_task(turns.spend(1))
    await asyncio.sleep(0)
    assert not earlier[-1].done()
    first.cancel()
    await asyncio.wait_for(second, 10)
    assert first.cancelled()


async def test_what_was_charged_after_the_work_counts_for_the_rest_of_the_turn() -> None:
    turns = TurnBudget(10)
    await turns.spend(1)
    turns.charge(50)
    later = turns.spend(1)
    later.send(None)  # it waits: a part that is granted at once raises StopIteration
    later.close()
