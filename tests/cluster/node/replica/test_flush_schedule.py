"""Flushes of a log that no request waits for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cluster.node.replica.disk_threads import DiskThreads, Flushing
from cluster.node.replica.flush_schedule import FlushSchedule
from cluster.node.runtime import Runtime
from store import CommitLog, EntryDraft, EntryKind, LogSettings, PosixDisk, StoreError, VoteFile, Writing
from store.directory.vote_file import INCARNATION_BYTES
from tests.cluster.waiter import until

PAGE = 4096
NEVER_MS = 600_000


@pytest.mark.parametrize(
    ("dirty_bytes", "since_ms", "is_due"),
    [(4 * PAGE, 0, True), (4 * PAGE - 1, 0, False), (4 * PAGE - 1, 9_999, False), (1, 10_000, True), (0, 10_000, True)],
)
def test_enough_pages_or_a_long_time(dirty_bytes: int, since_ms: float, is_due: bool) -> None:
    schedule = FlushSchedule(interval_ms=500, pages=4, thorough_ms=10_000, write_out_ms=200)
    assert schedule.is_due(dirty_bytes, since_ms) == is_due


def test_without_a_least_number_of_pages_every_interval_flushes() -> None:
    assert FlushSchedule(interval_ms=500, pages=0, thorough_ms=10_000, write_out_ms=200).is_due(1, 0)


class Flushed:
    """The disk threads of a node, with their own log, and an event for the first flush."""

    def __init__(self, directory: Path, schedule: FlushSchedule, writing: Writing) -> None:
        disk = PosixDisk()
        self.log = CommitLog.open(disk, directory / "log", LogSettings(segment_bytes=1 << 20, writing=writing))
        self.log.prepare_next()  # which flushes what is there
        self.log.sync()
        self.event = asyncio.Event()
        votes = VoteFile.open(disk, directory / "vote", new_incarnation=bytes(INCARNATION_BYTES))
        self.threads = DiskThreads(
            self.log,
            votes,
            Runtime(make_transport=lambda *_: pytest.fail("nobody is called")),
            Flushing("async", schedule, stages=writing.mode == "staged"),
            forget_suspicion=_nothing,
            on_failure=_fail,
            on_flush=lambda _: self.event.set(),
        )

    def append(self, size: int) -> None:
        self.log.append([EntryDraft(EntryKind.BATCH, bytes(size))], term=1, commit=0, now_ms=1)


def _nothing() -> None:
    pass


def _fail(failure: StoreError) -> None:
    raise failure


@pytest.mark.parametrize(
    ("schedule", "size"),
    [
        (FlushSchedule(10, pages=4, thorough_ms=NEVER_MS, write_out_ms=NEVER_MS), 4 * PAGE),
        (FlushSchedule(10, pages=4, thorough_ms=50, write_out_ms=NEVER_MS), 1),
    ],
    ids=["many pages", "a long time"],
)
async def test_the_log_is_flushed_by_itself(tmp_path: Path, schedule: FlushSchedule, size: int) -> None:
    flushed = Flushed(tmp_path, schedule, Writing())
    flushed.append(size)
    flushed.threads.start()
    await asyncio.wait_for(flushed.event.wait(), 10)
    assert not flushed.log.segments.dirty
    await flushed.threads.stop()


async def test_a_few_bytes_wait_for_the_thorough_flush(tmp_path: Path) -> None:
    flushed = Flushed(tmp_path, FlushSchedule(5, pages=4, thorough_ms=NEVER_MS, write_out_ms=NEVER_MS), Writing())
    flushed.threads.start()
    flushed.append(1)
    await asyncio.sleep(0.05)  # ten intervals
    assert flushed.log.segments.dirty
    assert not flushed.event.is_set()
    flushed.append(4 * PAGE)
    await asyncio.wait_for(flushed.event.wait(), 10)
    await flushed.threads.stop()


async def test_what_is_staged_is_written_out_long_before_it_is_flushed(tmp_path: Path) -> None:
    flushed = Flushed(tmp_path, FlushSchedule(NEVER_MS, 4, NEVER_MS, write_out_ms=10), Writing("staged"))
    flushed.append(100)
    assert flushed.log.segments.staged_bytes > 0
    flushed.threads.start()
    await until(lambda: flushed.log.segments.staged_bytes == 0, "all of it is in the file")
    assert flushed.log.segments.dirty
    assert not flushed.event.is_set()
    await flushed.threads.stop()
