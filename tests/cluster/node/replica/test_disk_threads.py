"""The helper threads of a shard, with workers that run their work only when the test tells them to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from cluster.node.process.vital import Vital
from cluster.node.replica.disk_threads import DiskThreads, Flushing
from cluster.node.runtime import Runtime


class Worker:
    """Implements `cluster.node.process.workers.Worker`."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], object], Callable[[BaseException | None], None]]] = []

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        self.jobs.append((work, done))

    async def stop(self) -> None:
        """Do nothing, because there is no thread."""

    def work(self) -> None:
        for work, done in self.jobs:
            work()
            done(None)
        self.jobs.clear()


def make(workers: dict[str, Worker], ended: list[BaseException]) -> DiskThreads:
    runtime = Runtime(
        cast(Any, None), worker=lambda name: workers.setdefault(name, Worker()), vital=Vital(ended.append)
    )
    anything = cast(Any, SimpleNamespace(sync=lambda: None))
    return DiskThreads(
        anything, anything, runtime, Flushing("async", anything),
        forget_suspicion=lambda: None, on_failure=ended.append,
        on_flush=lambda seconds: None,
    )  # fmt: skip


async def test_work_beside_that_ends_after_whoever_waited_has_gone_does_no_harm() -> None:
    """For example, a node is stopped while it writes a checkpoint; it must stop in order."""
    workers, ended, done = dict[str, Worker](), list[BaseException](), list[int]()
    threads = make(workers, ended)
    waits = asyncio.create_task(threads.beside(lambda: done.append(1)))
    await asyncio.sleep(0)
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    workers["segments"].work()
    assert done == [1]
    assert ended == []


async def test_work_beside_is_waited_for() -> None:
    workers, ended = dict[str, Worker](), list[BaseException]()
    waits = asyncio.create_task(make(workers, ended).beside(lambda: None))
    await asyncio.sleep(0)
    assert not waits.done()
    workers["segments"].work()
    await waits


async def test_a_flush_that_ends_while_the_node_stops_begins_nothing() -> None:
    """The helper thread for further work may have ended already."""
    workers, ended = dict[str, Worker](), list[BaseException]()
    threads = make(workers, ended)
    threads.trusted()
    assert len(workers["flush"].jobs) == 1
    await threads.stop()
    workers["flush"].work()
    assert workers["votes"].jobs == []
    assert ended == []
