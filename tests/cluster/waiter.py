"""Waiting until something is so, with a deadline: the only way in which tests of running nodes wait."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 20.0
_POLL_S = 0.01


async def eventually(condition: Callable[[], T | Awaitable[T]], what: str, *, deadline_s: float = DEADLINE_S) -> T:
    """The first true value of `condition()`; a failed test, which names `what`, when there is none in time."""
    deadline = time.monotonic() + deadline_s
    while True:
        found = condition()
        value: T = await found if inspect.isawaitable(found) else found  # type: ignore[assignment]
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {deadline_s:g} s: {what} (the last answer was {value!r})")
        await asyncio.sleep(_POLL_S)
