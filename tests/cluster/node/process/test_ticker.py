"""The ticker: all shards of a node tick together, and a shard that is added later begins with the next heartbeat."""

from __future__ import annotations

import asyncio

import pytest

from cluster.node.process.ticker import Ticker
from cluster.node.process.vital import Vital

BEAT = 3


class Ticking:
    """Counts ticks, and sets an event at a number of ticks."""

    def __init__(self) -> None:
        self.count = 0
        self._waited_for = (0, asyncio.Event())

    def __call__(self) -> None:
        self.count += 1
        if self.count == self._waited_for[0]:
            self._waited_for[1].set()

    async def comes_to(self, count: int) -> None:
        self._waited_for = (count, asyncio.Event())
        async with asyncio.timeout(10):
            await self._waited_for[1].wait()


@pytest.mark.parametrize("ticks_before", [1, 2, 3, 4])
async def test_who_comes_later_begins_with_the_others_next_beat(ticks_before: int) -> None:
    ticker, first, second = Ticker(Vital(), 1, BEAT), Ticking(), Ticking()
    ticker.add(first)
    try:
        await first.comes_to(ticks_before)
        ticker.add(second)
        await second.comes_to(1)
        assert first.count % BEAT == 1, "as the first one's first"
        assert ticks_before < first.count <= ticks_before + BEAT
    finally:
        await ticker.stop()


async def test_who_leaves_is_not_ticked_any_more() -> None:
    ticker, stays, leaves, never = Ticker(Vital(), 1, BEAT), Ticking(), Ticking(), Ticking()
    ticker.add(stays)
    ticker.add(leaves)
    try:
        await leaves.comes_to(1)
        ticker.add(never)
        ticker.remove(leaves)
        ticker.remove(never)
        await stays.comes_to(2 * BEAT)
        assert (leaves.count, never.count) == (1, 0)
    finally:
        await ticker.stop()
