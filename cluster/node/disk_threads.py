"""The helper threads of one shard: one fsyncs votes, one flushes the log, one prepares the next segment.

The event loop never waits for an fsync. In `sync` mode many writes share one: whoever asks while a flush runs is
served by the next, which covers all that was written before it began. In `async` mode a write is held as soon as the
page cache has it (or the buffer, where writes are staged), and the log is flushed by a schedule.

Votes have a thread and an fsync of their own, in both modes, so an election never waits for a segment.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Literal

from cluster.node.flush_schedule import FlushSchedule
from cluster.node.runtime import Runtime
from cluster.node.workers import Worker
from store import CommitLog, StoreError, Vote, VoteFile

log = logging.getLogger("ledgermq.node.disk")

MOST_STAGED_BYTES = 4 << 20
"""What waits in memory is written to the files at once when it is more than this."""


class DiskThreads:
    """Implements `raft.driver.Disk` over real files. Call `start` in the loop's thread, `stop` at the end."""

    def __init__(
        self,
        log: CommitLog,
        votes: VoteFile,
        runtime: Runtime,
        *,
        flush: Literal["async", "sync"],
        schedule: FlushSchedule,
        stages: bool,
        forget_suspicion: Callable[[], None],
        on_failure: Callable[[StoreError], None],
        on_flush: Callable[[float], None],
    ) -> None:
        self._log = log
        self._votes = votes
        self._sync = flush == "sync"
        self._schedule = schedule
        self._stages = stages
        self._forget_suspicion = forget_suspicion
        self._on_failure = on_failure
        self._on_flush = on_flush
        self._vital = runtime.vital
        self._monotonic_ms = runtime.monotonic_ms
        self._vote_thread = runtime.worker("votes")
        self._flush_thread = runtime.worker("flush")
        self._segment_thread = runtime.worker("segments")
        self._waiting: list[Callable[[], None]] = []
        """Whom the next flush serves."""
        self._owed = 0
        """How many wait for a flush, this one or the next: what is written meanwhile counts not before them."""
        self._flushing = False
        self._flush_began_ms = runtime.monotonic_ms()
        """The one that is under way, or the last one."""
        self._writing_out = False
        self._preparing = False
        self._told_full = False
        self._stopping = False
        self._upkeep: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._upkeep = [self._vital.spawn(self._keep_up(), "flush and prepare segments")]
        if self._stages:
            self._upkeep.append(self._vital.spawn(self._keep_writing_out(), "write out what is staged"))

    async def stop(self) -> None:
        """Waits for what is under way; nothing is answered any more. The log is not flushed by this: the shard does so
        before its clean mark."""
        self._stopping = True
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        for thread in (self._vote_thread, self._flush_thread, self._segment_thread):
            await thread.stop()

    def save_vote(self, term: int, voted_for: int, done: Callable[[], None]) -> None:
        vote = Vote(term, voted_for, self._votes.vote.incarnation)
        self._on(self._vote_thread, lambda: self._votes.save(vote), done)

    @property
    def flushing_ms(self) -> float:
        """For how long a flush is under way that somebody waits for; 0 where there is none."""
        return self._monotonic_ms() - self._flush_began_ms if self._flushing and self._owed else 0.0

    def persist(self, done: Callable[[], None]) -> None:
        if self._stages and self._log.segments.staged_bytes > MOST_STAGED_BYTES:
            self._write_out()
        if self._sync or self._owed:
            self.flush(done)
        else:
            done()

    def flush(self, done: Callable[[], None]) -> None:
        self._owed += 1
        self._waiting.append(done)
        self._flush()

    def trusted(self, done: Callable[[], None] = lambda: None) -> None:
        """Once all that made it trusted is on the disk."""
        self.flush(lambda: self._on(self._vote_thread, self._forget_suspicion, done))

    def tidy(self) -> None:
        self._on(self._segment_thread, self._log.segments.remove_dropped, lambda: None)

    async def beside(self, work: Callable[[], object]) -> None:
        """Does it on the thread that prepares segments; returns when that is over, with or without success: it can be
        done without. Whoever waited may have gone by then: a node that stops does not wait for it here."""
        over = asyncio.Event()

        def failed(failure: StoreError) -> None:
            over.set()
            if failure.retriable:
                log.debug("it is done another time: %s", failure)
            else:
                self._on_failure(failure)

        self._on(self._segment_thread, work, over.set, failed)
        await over.wait()

    def _flush(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._flush_began_ms = self._monotonic_ms()
            served, self._waiting = self._waiting, []
            started = time.perf_counter()
            self._on(
                self._flush_thread,
                self._log.sync,
                lambda: self._flushed(served, started),
                lambda failure: self._not_flushed(served, failure),
            )

    def _flushed(self, served: list[Callable[[], None]], started: float) -> None:
        self._flushing = False
        self._on_flush(time.perf_counter() - started)
        self._owed -= len(served)
        for done in served:
            done()
        if self._waiting:
            self._flush()

    def _not_flushed(self, served: list[Callable[[], None]], failure: StoreError) -> None:
        """What can be tried again is, by the schedule."""
        if failure.retriable:
            self._flushing = False
            self._waiting = [*served, *self._waiting]
        self._on_failure(failure)

    async def _keep_up(self) -> None:
        """Flushes by the schedule, and has the next segment ready before it is needed."""
        while True:
            self._prepare_next()
            await asyncio.sleep(self._schedule.interval_ms / 1000)
            since_ms = self._monotonic_ms() - self._flush_began_ms
            due = self._log.segments.dirty and self._schedule.is_due(self._log.segments.dirty_bytes, since_ms)
            if due or self._waiting:
                self._flush()

    async def _keep_writing_out(self) -> None:
        while True:
            await asyncio.sleep(self._schedule.write_out_ms / 1000)
            if self._log.segments.staged_bytes:
                self._write_out()

    def _write_out(self) -> None:
        if not self._writing_out:
            self._writing_out = True
            self._on(self._flush_thread, self._log.write_out, self._written_out)

    def _written_out(self) -> None:
        self._writing_out = False

    def _prepare_next(self) -> None:
        if not self._preparing and not self._log.next_is_prepared:
            self._preparing = True
            self._on(self._segment_thread, self._log.prepare_next, self._prepared, self._not_prepared)

    def _prepared(self) -> None:
        self._preparing = self._told_full = False

    def _not_prepared(self, failure: StoreError) -> None:
        """Without room for the next segment, the one in use can still be filled; it is tried again until then."""
        self._preparing = False
        if not failure.retriable:
            self._on_failure(failure)
        elif not self._told_full:
            self._told_full = True
            log.warning("no room for the next segment, writes will end with this one: %s", failure)

    def _on(
        self,
        thread: Worker,
        work: Callable[[], object],
        then: Callable[[], None],
        failed: Callable[[StoreError], None] | None = None,
    ) -> None:
        """Runs `work` on the thread and `then` back in the loop; a failure of the disk goes to `failed`, which is
        `on_failure` where nothing else is said. Behind `stop` nothing begins: what ends then may have led to more."""
        if self._stopping:
            return

        def report(error: BaseException | None) -> None:
            if isinstance(error, StoreError):
                (failed or self._on_failure)(error)
            elif error is not None:
                raise error
            else:
                then()

        thread.run(work, self._vital.event(report))
