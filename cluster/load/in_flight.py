"""Runs a bounded number of tasks that process a shared list of items.

This module needs nothing but the standard library, because the load processes of bench/peers import it. Load processes
for other message systems run where only the clients of these systems are installed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def keep_in_flight(work: Callable[[T], Awaitable[object]], items: Iterable[T], in_flight: int) -> None:
    """Await `work` for every item, with at most `in_flight` items at a time. Raises the first error that `work`
    raises."""
    left = iter(items)

    async def turns() -> None:
        for item in left:
            await work(item)

    await all_of(turns() for _ in range(in_flight))


async def all_of(works: Iterable[Awaitable[object]]) -> None:
    """Await all awaitables in `works` at the same time. If one work fails, cancel the other works and raise its
    error."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(_awaited(work))
    except BaseExceptionGroup as several:
        raise _first(several) from None


async def _awaited(work: Awaitable[object]) -> None:
    await work


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
