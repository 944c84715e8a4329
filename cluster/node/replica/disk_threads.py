"""The helper threads of one shard: one thread fsyncs votes, one flushes the log, and one prepares the next segment.

The event loop never waits for an fsync. In `sync` mode many writes share one flush. A write that arrives while a flush
runs waits for the next flush, which covers all bytes written before that flush began. In `async` mode, this node's
copy of a write counts for the majority as soon as the bytes of the write are in the page cache. On a node that stages
its writes, the node's copy of a write counts as soon as the bytes of the write are in the buffer. In `async` mode a
schedule decides when the log is flushed.

Votes have their own thread and are fsynced in both modes, so an election never waits for a flush of the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cluster.node.process.workers import Worker
from cluster.node.replica.flush_schedule import FlushSchedule
from cluster.node.runtime import Runtime
from store import CommitLog, StoreError, Vote, VoteFile

log = logging.getLogger("ledgermq.node.disk")

# With more staged bytes than this, the buffers are written to the files at once, before the next interval.
MOST_STAGED_BYTES = 4 << 20

NOT_TIDIED = "segment files before the log start could not be removed, so they still use space; the node tries again"

CAUGHT_UP = "this replica has caught up, so it is no suspect any more"

# What is called when a flush has succeeded, and what is called if it fails for good.
_Waiter = tuple[Callable[[], None], Callable[[StoreError], None]]


@dataclass(frozen=True, slots=True)
class Flushing:
    """The settings that say when this node's copies of entries count for the majority, and when the log is flushed."""

    # `sync`: an entry counts as held once it is flushed; `async`: once it is written.
    mode: Literal["async", "sync"]
    schedule: FlushSchedule
    # Whether appends are staged in buffers of this process (`write = "staged"`).
    stages: bool = False


class DiskThreads:
    """Implements `raft.interfaces.DriverDisk` over real files, from `start` to `stop`. Call the methods of
    `DiskThreads` in the event loop. `DiskThreads` calls all callbacks in the event loop."""

    def __init__(
        self,
        log: CommitLog,
        votes: VoteFile,
        runtime: Runtime,
        flushing: Flushing,
        *,
        forget_suspicion: Callable[[], None],
        on_failure: Callable[[StoreError], None],
        on_flush: Callable[[float], None],
        on_vote: Callable[[int, int], None] = lambda term, voted_for: None,
        on_trusted: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`forget_suspicion` removes the suspect mark from the disk, on a helper thread. `on_vote` is called with each
        term and vote that is saved. `on_trusted` is called with the reason when the replica is no suspect any more."""
        self._log = log
        self._votes = votes
        self._sync = flushing.mode == "sync"
        self._schedule = flushing.schedule
        self._stages = flushing.stages
        self._forget_suspicion = forget_suspicion
        self._on_failure = on_failure
        self._on_flush = on_flush
        self._on_vote = on_vote
        self._on_trusted = on_trusted
        self._vital = runtime.vital
        self._monotonic_ms = runtime.monotonic_ms
        self._shared_wait_s = runtime.shared_wait_s
        self._vote_thread = runtime.worker("votes")
        self._flush_thread = runtime.worker("flush")
        self._segment_thread = runtime.worker("segments")
        # The callbacks that the next flush serves.
        self._waiting: list[_Waiter] = []
        # The vote to be saved next, with its callback. A newer vote replaces it, so no queue of votes can grow.
        self._next_vote: tuple[Vote, Callable[[], None]] | None = None
        self._saving_vote = False
        # The number of callbacks that wait for the running or the next flush. While it is not 0, later writes wait for
        # a flush too, so that writes are reported as held in their order.
        self._owed = 0
        self._flushing = False
        # When the running flush, or else the last flush, began.
        self._flush_began_ms = runtime.monotonic_ms()
        self._writing_out = False
        self._preparing = False
        self._tidying = False
        self._told_full = False
        # The kinds of work beside the event loop whose last failure was logged as a warning.
        self._told_failed: set[str] = set()
        self._stopping = False
        self._upkeep: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._upkeep = [self._vital.spawn(self._keep_up(), "flush and prepare segments")]
        if self._stages:
            self._upkeep.append(self._vital.spawn(self._keep_writing_out(), "write out what is staged"))

    async def stop(self) -> None:
        """Wait until the threads have finished their running work. After `stop` no callback is called. `stop` does
        not flush the log: the shard flushes the log before it writes the clean mark."""
        self._stopping = True
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        for thread in (self._vote_thread, self._flush_thread, self._segment_thread):
            await thread.stop()

    def save_vote(self, term: int, voted_for: int, done: Callable[[], None]) -> None:
        self._on_vote(term, voted_for)
        self._next_vote = Vote(term, voted_for, self._votes.vote.incarnation), done
        if not self._saving_vote:
            self._save_next_vote()

    def _save_next_vote(self) -> None:
        if self._next_vote is None:
            return
        (vote, done), self._next_vote, self._saving_vote = self._next_vote, None, True

        def saved() -> None:
            self._saving_vote = False
            done()
            if not self._saving_vote:  # `done` may have begun to save another vote
                self._save_next_vote()

        def not_saved(failure: StoreError) -> None:
            self._saving_vote = False
            self._on_failure(failure)
            if not self._saving_vote:
                self._save_next_vote()

        self._on(self._vote_thread, lambda: self._votes.save(vote), saved, not_saved)

    @property
    def flushing_ms(self) -> float:
        """Return the duration in ms of the running flush for which a callback waits. Return 0 if no callback waits
        for a flush."""
        return self._monotonic_ms() - self._flush_began_ms if self._flushing and self._owed else 0.0

    def persist(self, done: Callable[[], None]) -> None:
        if self._stages and self._log.segments.staged_bytes > MOST_STAGED_BYTES:
            self._write_out()
        if self._sync or self._owed:
            self.flush(done)
        else:
            done()

    def flush(self, done: Callable[[], None], failed: Callable[[StoreError], None] = lambda _: None) -> None:
        """As `raft.interfaces.DriverDisk`. Call `failed` instead of `done` if a flush fails so that the node must be
        restarted."""
        self._owed += 1
        self._waiting.append((done, failed))
        self._flush()

    def trusted(self) -> None:
        """Flush the log, then durably remove the mark that this node is a suspect."""
        self.flush(lambda: self.remove_suspect_mark(CAUGHT_UP))

    def remove_suspect_mark(
        self,
        why: str,
        done: Callable[[], None] = lambda: None,
        failed: Callable[[StoreError], None] = lambda _: None,
    ) -> None:
        """Durably remove the mark that this node is a suspect, then call `done`, or `failed` if the disk refuses it.
        `why` is a sentence for the events of the node. The caller must have flushed the log: a mark that is removed
        earlier would hide a loss."""

        def forgotten() -> None:
            self._on_trusted(why)
            done()

        def refused(failure: StoreError) -> None:
            self._on_failure(failure)
            failed(failure)

        self._on(self._vote_thread, self._forget_suspicion, forgotten, refused)

    def tidy(self) -> None:
        if not self._tidying:
            self._tidying = True
            self._on(self._segment_thread, self._log.segments.remove_dropped, self._tidied, self._not_tidied)

    async def beside(self, work: Callable[[], object], when_failed: str) -> None:
        """Run `work` on the thread that prepares segments. `work` is optional work: the node works correctly even
        if `work` fails. Return when `work` has ended, with or without success. A failure that is not retriable is
        reported to the shard. A retriable failure is logged with `when_failed`, which says what failed and what
        follows. This warning is not repeated until work with the same `when_failed` has succeeded. A task that waits
        in `beside` can be cancelled."""
        over = asyncio.Event()

        def done() -> None:
            self._told_failed.discard(when_failed)
            over.set()

        def failed(failure: StoreError) -> None:
            over.set()
            if not failure.retriable:
                self._on_failure(failure)
            elif when_failed not in self._told_failed:
                self._told_failed.add(when_failed)
                log.warning("%s: %s", when_failed, failure)

        self._on(self._segment_thread, work, done, failed)
        await over.wait()

    def _flush(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._flush_began_ms = self._monotonic_ms()
            served, self._waiting = self._waiting, []
            self._on(
                self._flush_thread,
                self._log.sync,
                lambda: self._flushed(served),
                lambda failure: self._not_flushed(served, failure),
            )

    def _flushed(self, served: list[_Waiter]) -> None:
        self._flushing = False
        self._on_flush((self._monotonic_ms() - self._flush_began_ms) / 1000)
        self._owed -= len(served)
        for done, _ in served:
            done()
        if self._waiting:
            self._flush()

    def _not_flushed(self, served: list[_Waiter], failure: StoreError) -> None:
        """Handle a failed flush. After a retriable failure of a flush, let the callbacks wait for the next flush of
        the schedule. After any other failure, no flush follows."""
        self._waiting = [*served, *self._waiting]
        if failure.retriable:
            self._flushing = False
        self._on_failure(failure)
        if not failure.retriable:
            waiting, self._waiting = self._waiting, []
            for _, failed in waiting:
                failed(failure)

    def _tidied(self) -> None:
        self._tidying = False
        self._told_failed.discard(NOT_TIDIED)
        if self._log.segments.has_dropped:  # the log start has moved again meanwhile
            self.tidy()

    def _not_tidied(self, failure: StoreError) -> None:
        """Handle a failed removal of segment files. After a retriable failure, try again at each interval. After any
        other failure, the next start removes the files."""
        if not failure.retriable:
            self._on_failure(failure)
            return
        self._tidying = False
        if NOT_TIDIED not in self._told_failed:
            self._told_failed.add(NOT_TIDIED)
            log.warning("%s: %s", NOT_TIDIED, failure)

    async def _keep_up(self) -> None:
        """Flush the log when the flush schedule says so, and prepare the next segment before the log needs it. Remove
        segment files that an earlier attempt could not remove."""
        while True:
            self._prepare_next()
            if self._log.segments.has_dropped:
                self.tidy()
            await asyncio.sleep(self._shared_wait_s(self._schedule.interval_ms / 1000))
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
        """Handle a failed preparation of the next segment. If the disk has no room for the next segment, the node
        can still fill the present segment. The node tries again at each interval to prepare the next segment."""
        self._preparing = False
        if not failure.retriable:
            self._on_failure(failure)
        elif not self._told_full:
            self._told_full = True
            log.warning(
                "the disk has no room for the next segment: writes are refused once the segment in use is full; free "
                "some room: %s",
                failure,
            )

    def _on(
        self,
        thread: Worker,
        work: Callable[[], object],
        then: Callable[[], None],
        failed: Callable[[StoreError], None] | None = None,
    ) -> None:
        """Run `work` on `thread`, then call `then` in the event loop. If the disk fails, call `failed` instead of
        `then`; the default of `failed` is `on_failure`. After `stop`, `_on` does nothing."""
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
