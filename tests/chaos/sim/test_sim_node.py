"""The life of a simulated process: nothing of it runs after its death, and after a pause all due callbacks run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from random import Random

import pytest

from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.node_life import Life
from chaos.sim.stack.node_worker import SLOWEST_S, SimWorker
from store.disk.memory_disk import Killed


class Process:
    """Counts once a second, and remembers that its coroutine was closed."""

    def __init__(self, loop: SimLoop) -> None:
        self.events = 0
        self.life = Life(loop, self._after_event)
        self.ticks: list[float] = []
        self.cleaned = False
        self.life.deliver(lambda: self.life.create_task(self._run()))

    def _after_event(self) -> None:
        self.events += 1

    async def _run(self) -> None:
        try:
            while True:
                await asyncio.sleep(1)
                self.ticks.append(self.life.time())
        finally:
            self.cleaned = True
            await asyncio.sleep(0)
            self.ticks.append(-1)


def _noting(came: list[tuple[int, float]], number: int, loop: SimLoop) -> Callable[[], None]:
    return lambda: came.append((number, loop.time()))


@pytest.fixture
def loop() -> SimLoop:
    return SimLoop()


@pytest.fixture
def process(loop: SimLoop) -> Iterator[Process]:
    process = Process(loop)
    yield process
    process.life.end()
    process.life.bury()


def test_it_runs_on_its_own_loop_and_every_event_is_told(loop: SimLoop, process: Process) -> None:
    loop.run_until(3.5)
    assert process.ticks == pytest.approx([1, 2, 3])
    assert process.events > 6


def test_nothing_of_it_runs_behind_its_death(loop: SimLoop, process: Process) -> None:
    loop.run_until(2.5)
    process.life.end()
    events = process.events
    process.life.call_soon(process.ticks.append, 0.0)
    process.life.deliver(process.ticks.append, 0.0)
    loop.run_until(10)
    assert process.ticks == pytest.approx([1, 2])
    assert process.cleaned  # its coroutine was taken down, and what that tried to do reached nobody
    assert process.events == events
    assert not loop.errors


def test_a_task_that_begins_while_its_process_is_taken_down_never_runs(loop: SimLoop, process: Process) -> None:
    """For example, the `stop` of a client begins a task in a `finally`."""
    began: list[asyncio.Task[None]] = []

    async def rest() -> None:
        process.ticks.append(-1)

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            began.append(asyncio.create_task(rest()))

    process.life.deliver(lambda: process.life.create_task(work()))
    loop.run_until(0.5)
    process.life.end()
    loop.run_until(1)
    assert inspect.getcoroutinestate(began[0].get_coro()) == inspect.CORO_CLOSED  # type: ignore[arg-type]
    assert process.ticks == []


def test_a_process_that_dies_in_an_event_ends_quietly(loop: SimLoop, process: Process) -> None:

    def die() -> None:
        process.life.end()
        raise Killed

    process.life.call_later(1.5, die)
    loop.run_until(5)
    assert len(process.ticks) == 1
    assert not loop.errors


def test_an_error_that_nobody_handles_is_no_quiet_end(loop: SimLoop, process: Process) -> None:

    def fail() -> None:
        raise ValueError("a bug")

    process.life.call_later(1.5, fail)
    loop.run_until(5)
    assert [str(error) for error in loop.errors] == ["a bug"]


def test_a_pause_keeps_everything_back_in_order(loop: SimLoop, process: Process) -> None:
    came = list[tuple[int, float]]()
    for number in range(3):
        process.life.call_later(1.2 + number, _noting(came, number, loop))
    loop.run_until(1.5)
    process.life.pause()
    loop.run_until(6)
    assert [number for number, _ in came] == [0]
    process.life.deliver(lambda: came.append((9, loop.time())))
    process.life.go_on()
    loop.run_until(7.5)
    assert [number for number, _ in came] == [0, 1, 2, 9]
    assert all(at == pytest.approx(6) for _, at in came[1:])
    assert process.ticks == pytest.approx([1, 6, 7])


def test_what_is_cancelled_in_the_burst_does_not_come(loop: SimLoop, process: Process) -> None:
    came = list[int]()
    second = process.life.call_later(2, came.append, 2)
    process.life.call_later(1, second.cancel)
    process.life.pause()
    loop.run_until(3)
    process.life.go_on()
    loop.run_until(4)
    assert came == []


def test_its_clock_may_run_wrong(loop: SimLoop, process: Process) -> None:
    loop.run_until(10.5)
    process.life.run_at_rate(2.0)
    loop.run_until(15.5)
    assert process.life.time() == pytest.approx(20.5)
    assert len(process.ticks) == pytest.approx(20, abs=1)


def test_work_that_a_slow_disk_began_ends_within_a_bounded_time_and_what_waits_is_quick_once_that_is_well(
    loop: SimLoop, process: Process
) -> None:
    mean_ms, ended = 1e6, list[float]()
    worker = SimWorker(process.life, Random(1), lambda: mean_ms)
    for _ in range(3):
        worker.run(lambda: None, lambda error: ended.append(loop.time()))
    loop.run_until(1)
    mean_ms = 1.0
    loop.run_until(30)
    assert ended[0] == pytest.approx(SLOWEST_S)
    assert len(ended) == 3
    assert ended[2] < SLOWEST_S + 0.1
