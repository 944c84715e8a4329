"""The simulated event loop: asyncio works on it, time is virtual, and events run in the order of scheduling."""

from __future__ import annotations

import asyncio

import pytest

from chaos.sim.engine.loop import RanDryError, SimLoop


def run(coroutine) -> object:  # type: ignore[no-untyped-def]
    loop = SimLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def test_an_hour_of_sleep_takes_no_time_and_shows_on_the_clock() -> None:
    async def sleeper() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert run(sleeper()) == 3600


def test_what_is_due_at_one_moment_runs_in_the_order_it_was_scheduled() -> None:
    loop = SimLoop()
    order: list[str] = []
    loop.call_later(1.0, order.append, "second, for it was scheduled first of those at 1.0")
    loop.call_at(1.0, order.append, "third")
    loop.call_later(0.5, order.append, "first")
    loop.run_until(0.7)
    assert order == ["first"]
    loop.run_until(1.0)
    assert order[1:] == ["second, for it was scheduled first of those at 1.0", "third"]


def test_run_until_stops_before_what_is_due_later_even_behind_something_cancelled() -> None:
    loop = SimLoop()
    ran: list[str] = []
    loop.call_later(1.0, ran.append, "cancelled").cancel()
    loop.call_later(5.0, ran.append, "later")
    loop.run_until(2.0)
    assert (ran, loop.time()) == ([], 2.0)


def test_timeouts_queues_shards_and_shields_work() -> None:
    async def everything() -> list[object]:
        seen: list[object] = []
        queue: asyncio.Queue[int] = asyncio.Queue(1)

        async def produce() -> None:
            for number in range(3):
                await queue.put(number)
                await asyncio.sleep(1)

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            seen += [await queue.get() for _ in range(3)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.sleep(100)), 5)
        seen += await asyncio.gather(asyncio.sleep(2, "a"), asyncio.sleep(1, "b"))
        return [*seen, asyncio.get_running_loop().time()]

    assert run(everything()) == [0, 1, 2, "a", "b", 3 + 10 + 5 + 2]


def test_waiting_for_what_nobody_brings_is_told() -> None:
    with pytest.raises(RanDryError):
        run(asyncio.Event().wait())


def test_an_exception_that_nobody_handles_is_kept_and_ends_the_run() -> None:
    loop = SimLoop()
    ran: list[str] = []
    loop.call_later(1.0, lambda: 1 // 0)
    loop.call_later(2.0, ran.append, "too late")
    loop.run_until(10.0)
    assert [type(error) for error in loop.errors] == [ZeroDivisionError]
    assert ran == []


def test_a_task_that_failed_and_was_never_asked_is_a_failed_run() -> None:
    async def fails() -> None:
        raise LookupError

    async def main() -> None:
        task = asyncio.create_task(fails())
        del task
        await asyncio.sleep(1)

    loop = SimLoop()
    with pytest.raises(LookupError):
        loop.run_until_complete(main())


def test_the_callback_after_each_event() -> None:
    loop = SimLoop()
    seen: list[float] = []
    loop.after_event = lambda: seen.append(loop.time())
    loop.call_later(1.0, lambda: None)
    loop.call_later(2.0, lambda: None)
    loop.run_until(3.0)
    assert seen == [1.0, 2.0]


def test_tasks_are_named_by_their_own_loop() -> None:
    """asyncio numbers tasks over the whole process, so two runs in one process would differ."""

    async def name() -> str:
        task = asyncio.create_task(asyncio.sleep(0))
        await task
        return task.get_name()

    assert run(name()) == run(name())


def test_closing_ends_the_tasks_under_way() -> None:
    ended = []

    async def forever() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            ended.append(True)

    loop = SimLoop()
    task = loop.create_task(forever())
    loop.run_until(1.0)
    loop.close()
    assert ended == [True]
    assert task.cancelled()
