"""The helper threads of a shard, with workers that run their work only when the test tells them to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.node.process.vital import Vital
from cluster.node.replica.disk_threads import DiskThreads, Flushing
from cluster.node.runtime import Runtime
from store import DiskFailedError, NoSpaceError, OutOfFilesError, StoreError, Vote
from tests.cluster.waiter import until


class Worker:
    """Implements `cluster.node.process.workers.Worker`."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], object], Callable[[BaseException | None], None]]] = []

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        self.jobs.append((work, done))

    async def stop(self) -> None:
        """Do nothing, because there is no thread."""

    def work(self) -> None:
        jobs, self.jobs = self.jobs, []
        for work, done in jobs:
            try:
                work()
            except StoreError as error:
                done(error)
            else:
                done(None)


def make(workers: dict[str, Worker], ended: list[BaseException], votes: Any = None) -> DiskThreads:
    runtime = Runtime(
        cast(Any, None), worker=lambda name: workers.setdefault(name, Worker()), vital=Vital(ended.append)
    )
    anything = cast(Any, SimpleNamespace(sync=lambda: None))
    return DiskThreads(
        anything, votes, runtime, Flushing("async", anything),
        forget_suspicion=lambda: None, on_failure=ended.append,
        on_flush=lambda seconds: None,
    )  # fmt: skip


async def test_work_beside_that_ends_after_whoever_waited_has_gone_does_no_harm() -> None:
    """For example, a node is stopped while it writes a checkpoint; it must stop in order."""
    workers, ended, done = dict[str, Worker](), list[BaseException](), list[int]()
    threads = make(workers, ended)
    waits = asyncio.create_task(threads.beside(lambda: done.append(1), "no work was done"))
    await asyncio.sleep(0)
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    workers["segments"].work()
    assert done == [1]
    assert ended == []


async def test_work_beside_is_waited_for() -> None:
    workers, ended = dict[str, Worker](), list[BaseException]()
    waits = asyncio.create_task(make(workers, ended).beside(lambda: None, "no work was done"))
    await asyncio.sleep(0)
    assert not waits.done()
    workers["segments"].work()
    await waits


async def test_work_beside_that_fails_is_named_once_until_it_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    workers, ended, disk_is_full = dict[str, Worker](), list[BaseException](), True
    threads = make(workers, ended)
    caplog.set_level(logging.DEBUG, "ledgermq.node.disk")

    def write() -> None:
        if disk_is_full:
            raise NoSpaceError(Path("/data/checkpoint"))

    async def do(what: str) -> None:
        waits = asyncio.create_task(threads.beside(write, what))
        await asyncio.sleep(0)
        workers["segments"].work()
        await waits

    def warnings() -> list[str]:
        found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        caplog.clear()
        return found

    for _ in range(3):
        await do("no checkpoint was written")
    await do("the scrub could not read")
    assert [text.partition(": ")[0] for text in warnings()] == ["no checkpoint was written", "the scrub could not read"]
    disk_is_full = False
    await do("no checkpoint was written")
    disk_is_full = True
    await do("no checkpoint was written")
    await do("the scrub could not read")
    assert [text.partition(": ")[0] for text in warnings()] == ["no checkpoint was written"]
    assert ended == []


async def test_a_failure_beside_that_is_not_retriable_is_the_shard_s() -> None:
    workers, ended = dict[str, Worker](), list[BaseException]()
    failure = DiskFailedError(Path("/data"), "I/O error")

    def fail() -> None:
        raise failure

    waits = asyncio.create_task(make(workers, ended).beside(fail, "no work was done"))
    await asyncio.sleep(0)
    workers["segments"].work()
    await waits
    assert ended == [failure]


class Votes:
    """Stands for the vote file."""

    def __init__(self) -> None:
        self.vote = Vote(0, 0, bytes(16))
        self.saved: list[tuple[int, int]] = []
        self.failure: StoreError | None = None

    def save(self, vote: Vote) -> None:
        if self.failure is not None:
            raise self.failure
        self.saved.append((vote.term, vote.voted_for))


async def test_of_votes_that_wait_for_the_disk_only_the_newest_is_saved() -> None:
    """A peer can cause many votes while the disk saves one. The core needs the newest."""
    workers, ended, votes, done = dict[str, Worker](), list[BaseException](), Votes(), list[int]()
    threads = make(workers, ended, votes)
    for term in range(1, 1001):
        threads.save_vote(term, 2, partial(done.append, term))
    assert len(workers["votes"].jobs) == 1
    workers["votes"].work()
    workers["votes"].work()
    assert (votes.saved, done) == ([(1, 2), (1000, 2)], [1, 1000])
    threads.save_vote(1001, 3, partial(done.append, 1001))
    workers["votes"].work()
    assert (votes.saved[2:], done[2:]) == ([(1001, 3)], [1001])
    assert workers["votes"].jobs == []
    assert ended == []


async def test_a_vote_that_the_disk_refuses_is_reported_and_the_next_one_is_tried() -> None:
    workers, ended, votes, done = dict[str, Worker](), list[BaseException](), Votes(), list[int]()
    threads = make(workers, ended, votes)
    votes.failure = DiskFailedError(Path("/data/vote"), "I/O error")
    for term in (1, 2):
        threads.save_vote(term, 2, partial(done.append, term))
    workers["votes"].work()
    votes.failure = None
    workers["votes"].work()
    assert [type(error) for error in ended] == [DiskFailedError]
    assert (votes.saved, done) == ([(2, 2)], [2])


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


class Segments:
    """Segment files before the log start, whose removal can fail."""

    def __init__(self) -> None:
        self.has_dropped = True
        self.dirty = False
        self.dirty_bytes = 0
        self.attempts = 0
        self.failures: list[StoreError] = []
        self.during: Callable[[], object] = lambda: None

    def remove_dropped(self) -> None:
        self.attempts += 1
        if self.failures:
            raise self.failures.pop()
        self.has_dropped = False
        self.during()


def make_tidying(workers: dict[str, Worker], ended: list[BaseException]) -> tuple[DiskThreads, Segments]:
    runtime = Runtime(
        cast(Any, None),
        worker=lambda name: workers.setdefault(name, Worker()),
        vital=Vital(ended.append),
        shared_wait_s=lambda seconds: seconds,
    )
    segments = Segments()
    files: Any = SimpleNamespace(sync=lambda: None, next_is_prepared=True, segments=segments)
    schedule: Any = SimpleNamespace(interval_ms=1, is_due=lambda size, ms: False)
    threads = DiskThreads(
        files, cast(Any, None), runtime, Flushing("async", schedule),
        forget_suspicion=lambda: None, on_failure=ended.append,
        on_flush=lambda seconds: None,
    )  # fmt: skip
    return threads, segments


async def test_segment_files_that_could_not_be_removed_are_removed_later(caplog: pytest.LogCaptureFixture) -> None:
    workers, ended = dict[str, Worker](), list[BaseException]()
    threads, segments = make_tidying(workers, ended)
    segments.failures = [OutOfFilesError(Path("/data/log"))] * 3
    threads.start()
    threads.tidy()
    while segments.has_dropped:
        await until(lambda: bool(workers["segments"].jobs), "the removal is tried")
        workers["segments"].work()
    await asyncio.sleep(0.02)
    await threads.stop()
    assert (segments.attempts, workers["segments"].jobs, ended) == (4, [], [])
    assert [record.levelno for record in caplog.records] == [logging.WARNING], "it is told once"


async def test_only_one_removal_of_segment_files_runs_and_another_follows_if_the_log_start_moved_meanwhile() -> None:
    workers, ended = dict[str, Worker](), list[BaseException]()
    threads, segments = make_tidying(workers, ended)
    threads.tidy()
    threads.tidy()
    assert len(workers["segments"].jobs) == 1

    def moved() -> None:
        segments.has_dropped, segments.during = True, lambda: None
        threads.tidy()

    segments.during = moved
    workers["segments"].work()
    assert segments.has_dropped
    workers["segments"].work()
    assert (segments.has_dropped, segments.attempts, workers["segments"].jobs) == (False, 2, [])


async def test_a_removal_of_segment_files_on_a_disk_that_has_failed_is_the_shard_s_and_is_not_repeated() -> None:
    workers, ended = dict[str, Worker](), list[BaseException]()
    threads, segments = make_tidying(workers, ended)
    failure = DiskFailedError(Path("/data/log"), "I/O error")
    segments.failures = [failure]
    threads.start()
    threads.tidy()
    workers["segments"].work()
    await asyncio.sleep(0.02)
    await threads.stop()
    assert (segments.attempts, workers["segments"].jobs, ended) == (1, [], [failure])
