"""Tests the limit for one answer of a stream, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from chaos.sim.engine.loop import SimLoop
from ledger.broker.rpc.two_way_stream import StalledError, StallLimit

LIMIT_S = 10.0


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    loop = SimLoop()
    try:
        loop.run_until_complete(coroutine)
    finally:
        loop.close()


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_an_answer_that_is_not_accepted_ends_after_the_limit() -> None:
    async def answers() -> None:
        limit = StallLimit(LIMIT_S)
        for seconds in (9.9, 0.0, 9.9, 3.0):  # each is within the limit
            with limit:
                await asyncio.sleep(seconds)
        began_s = now_s()
        with pytest.raises(StalledError), limit:
            await asyncio.Future()
        assert now_s() - began_s == pytest.approx(LIMIT_S)

    run(answers())


def test_time_between_answers_does_not_count() -> None:
    async def answers() -> None:
        limit = StallLimit(LIMIT_S)
        for _ in range(5):
            with limit:
                await asyncio.sleep(1)
            await asyncio.sleep(7 * LIMIT_S)
        with limit:
            await asyncio.sleep(LIMIT_S - 0.1)

    run(answers())


def test_after_a_stalled_answer_the_limit_serves_the_next_one() -> None:
    async def answers() -> None:
        limit = StallLimit(LIMIT_S)
        for _ in range(2):
            with pytest.raises(StalledError), limit:
                await asyncio.Future()
        with limit:
            await asyncio.sleep(LIMIT_S - 0.1)
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()

    run(answers())


@pytest.mark.parametrize("after_s", [3.0, LIMIT_S])
def test_a_task_that_is_cancelled_stays_cancelled(after_s: float) -> None:
    """Also at the moment at which the answer reaches its limit."""

    async def answer() -> None:
        with StallLimit(LIMIT_S):
            await asyncio.Future()

    async def cancels() -> None:
        task = asyncio.create_task(answer())
        await asyncio.sleep(after_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    run(cancels())


def test_an_error_of_the_answer_is_told_as_it_is() -> None:
    async def answer() -> None:
        limit = StallLimit(LIMIT_S)
        with pytest.raises(ValueError, match="of gRPC"), limit:
            raise ValueError("of gRPC")

    run(answer())
