"""The ticker: all shards of a node tick together, and a shard that is added later begins with the next heartbeat."""

from __future__ import annotations

import asyncio
import time

import pytest

from cluster.node.process.ticker import Ticker, stride_of
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


async def test_the_ticker_tells_how_late_the_loop_wakes_it() -> None:
    lags: list[float] = []
    ticker, ticking = Ticker(Vital(), 1, BEAT, on_lag=lags.append), Ticking()
    ticker.add(ticking)
    asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(time.sleep, 0.05))
    try:
        await ticking.comes_to(2)
        assert lags[0] > 0.02, "the loop was held up while the ticker slept"
        assert len(lags) == 2, "once for each tick"
        assert min(lags) >= 0
    finally:
        await ticker.stop()


async def test_with_a_stride_the_ticker_wakes_seldom_and_misses_no_tick() -> None:
    wakes: list[float] = []
    ticker, first, second = Ticker(Vital(), 1, BEAT, 2, wakes.append), Ticking(), Ticking()
    ticker.add(first)
    try:
        await first.comes_to(8)
        ticker.add(second)
        assert len(wakes) == 4, "two ticks at each wake"
        await second.comes_to(1)
        assert first.count % BEAT == 1, "as the first one's first"
    finally:
        await ticker.stop()


@pytest.mark.parametrize(
    ("heartbeat", "election", "stride"), [(2, 10, 2), (1, 2, 1), (1, 10, 1), (3, 12, 2), (20, 40, 8), (2, 4, 1)]
)
def test_the_stride_leaves_five_wakes_for_an_election_timeout(heartbeat: int, election: int, stride: int) -> None:
    assert stride_of(heartbeat, election) == stride
