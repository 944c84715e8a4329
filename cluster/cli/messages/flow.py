"""Limits the number and the rate of messages that a command sends. The messages come in lists."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import TypeVar

from cluster.load.pace import Pace

T = TypeVar("T")


async def in_turns(lists: Iterator[list[T]]) -> AsyncIterator[list[T]]:
    """Yield the lists, and give the event loop a turn after each."""
    for items in lists:
        yield items
        await asyncio.sleep(0)


async def limited(lists: AsyncIterator[list[T]], count: int) -> AsyncIterator[list[T]]:
    """Yield the first `count` items."""
    left = count
    if left == 0:
        return
    async for items in lists:
        yield items[:left]
        left -= len(items)
        if left <= 0:
            return


async def paced(lists: AsyncIterator[list[T]], rate: float) -> AsyncIterator[list[T]]:
    """Yield `rate` items a second. After a pause, the items that are late come at once."""
    pace = Pace(rate, time.perf_counter_ns())
    passed = 0
    async for items in lists:
        taken = 0
        while taken < len(items):
            due = pace.due_by(time.perf_counter_ns()) - passed
            if due <= 0:
                await asyncio.sleep((pace.due_ns(passed) - time.perf_counter_ns()) / 1e9)
                continue
            yield items[taken : taken + due]
            passed += min(due, len(items) - taken)
            taken += due
