"""Tests that many look-ups at the same time, which every user may ask for, leave turns of the event loop to others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from ledger.broker.consumer_groups.claims import QueueClaims
from ledger.broker.consumer_groups.summaries import lags, summaries
from ledger.broker.transactions.listing import list_open
from ledger.broker.turn_budget import TurnBudget
from ledger.state.commands import ClaimedQueue, ClaimQueues
from tests.ledger.broker.shared.leader import ORDERS, LeasingLeader
from tests.ledger.broker.transactions.half_leader import HalfLeader

CALLERS = 10
QUEUES = 300


async def turns_of(works: list[Awaitable[Any]]) -> int:
    """Return in how many turns of the event loop all works are done, if they run at the same time."""
    work = asyncio.gather(*works)
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


async def test_summaries_and_lags_of_all_callers_share_the_turns() -> None:
    leader = LeasingLeader(queues=QUEUES)
    claimed = tuple(ClaimedQueue(ORDERS, queue, 1, 0) for queue in range(QUEUES))
    await QueueClaims(leader.replica).claim(ClaimQueues("mine", claimed))
    turns = TurnBudget(1)
    assert (await summaries(leader.replica, turns))["mine"].queues == QUEUES
    assert len(await lags(leader.replica, "mine", turns)) == QUEUES
    assert await turns_of([summaries(leader.replica, turns) for _ in range(CALLERS)]) >= CALLERS * 3
    assert await turns_of([lags(leader.replica, "mine", turns) for _ in range(CALLERS)]) >= CALLERS * 3


async def test_lists_of_transactions_of_all_callers_share_the_turns() -> None:
    leader = HalfLeader()
    driver: Any = leader.replica.driver
    driver.read_index = lambda settle: settle(True)
    leader.half()
    turns = TurnBudget(1)
    lists = [list_open(leader.replica, "", None, 0, lambda topic_id: True, turns) for _ in range(CALLERS)]
    assert await turns_of(list(lists)) >= CALLERS
