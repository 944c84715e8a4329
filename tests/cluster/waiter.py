"""Waits for a condition, with a deadline. Tests of running nodes wait only in this way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 20.0
_POLL_S = 0.01


async def eventually(condition: Callable[[], Awaitable[T | None]], what: str, *, deadline_s: float = DEADLINE_S) -> T:
    """Return the first true value of `await condition()`. If there is none before the deadline, fail the test with
    a message that names `what`."""
    deadline = time.monotonic() + deadline_s
    while not (value := await condition()):
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s: {what} (the last answer was {value!r})"
        await asyncio.sleep(_POLL_S)
    return value


async def until(condition: Callable[[], T | None], what: str, *, deadline_s: float = DEADLINE_S) -> T:
    """Return the first true value of `condition()`, a function that is not awaited. Otherwise like `eventually`."""

    async def asked() -> T | None:
        return condition()

    return await eventually(asked, what, deadline_s=deadline_s)


def blocking_eventually(condition: Callable[[], T], what: str, *, deadline_s: float = DEADLINE_S) -> T:
    """Return the first true value of `condition()`, in a test without an event loop. Otherwise like `eventually`."""
    deadline = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s: {what} (the last answer was {value!r})"
        time.sleep(_POLL_S)
    return value
