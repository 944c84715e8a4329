"""A bounded number of tasks that share a list of work.

This module needs nothing but the standard library: the load processes of bench/peers import it in an environment that
has only the clients of other systems.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def keep_in_flight(work: Callable[[T], Awaitable[object]], items: Iterable[T], in_flight: int) -> None:
    """Await `work` for every item, at most `in_flight` items at a time. Raises the first error."""
    left = iter(items)

    async def turns() -> None:
        for item in left:
            await work(item)

    await all_of(turns() for _ in range(in_flight))


async def all_of(works: Iterable[Awaitable[object]]) -> None:
    """Await all works at the same time. If one of them fails, cancel the others and raise its error."""
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
