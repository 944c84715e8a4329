"""Simulates the disk threads of a node in the protocol world. Saving a vote and flushing the log take simulated time.
Implements `raft.interfaces.DriverDisk`.

The class `SimDiskThreads` behaves like the module `cluster.node.replica.disk_threads`. In `sync` mode, a request that
arrives during a flush waits for the next flush, because the running flush covers only earlier writes. In `async` mode
the node's copy of a write counts for the majority at once, and the log is flushed at regular intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple, Protocol

from chaos.sim.campaign.swarm import Options
from chaos.sim.protocol.log import PATH, SimLog
from store import DiskFailedError, StoreError

# Longest duration of one disk operation.
SLOWEST_S = 10.0


class DiskProcess(Protocol):
    """The interface of the simulated process that uses the disk threads."""

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call `action` after a delay, unless the process has ended by then."""

    def failed(self, failure: StoreError) -> None: ...
    def trusted(self) -> None:
        """Record on the disk that this node is no longer suspect."""


class SavedVote(NamedTuple):
    term: int
    voted_for: int


class Votes:
    """The vote file of a node, which stays on the disk when the process ends."""

    def __init__(self) -> None:
        self.saved = SavedVote(1, 0)
        self.on_saved: Callable[[SavedVote], None] = lambda vote: None

    def save(self, vote: SavedVote) -> None:
        self.saved = vote
        self.on_saved(vote)


class SimDiskThreads:
    """Simulates the disk threads of one process."""

    def __init__(self, process: DiskProcess, log: SimLog, votes: Votes, options: Options, random: Random) -> None:
        # Factor for the duration of every operation.
        self.slowness = 1.0
        self.vote_slowness = 1.0
        self.fails_next_flush = False
        self._process = process
        self._log = log
        self._votes = votes
        self._options = options
        self._random = random
        # Votes to save; the first is being saved.
        self._saving: list[tuple[SavedVote, Callable[[], None]]] = []
        # Callbacks that the next flush will call.
        self._waiting: list[Callable[[], None]] = []
        self._flushing = False
        # Whether a caller waits for the running flush.
        self._serving = False

    def start(self) -> None:
        if not self._options.sync:
            self._process.later(self._options.flush_interval_ms / 1000, self._flush_now_and_then)

    def save_vote(self, term: int, voted_for: int, done: Callable[[], None]) -> None:
        self._saving.append((SavedVote(term, voted_for), done))
        if len(self._saving) == 1:
            self._save_next()

    def persist(self, done: Callable[[], None]) -> None:
        if not self._options.sync and not self._waiting and not self._serving:
            done()  # only if no earlier caller waits for a flush
            return
        self.flush(done)

    def flush(self, done: Callable[[], None]) -> None:
        self._waiting.append(done)
        if not self._flushing:
            self._flush()

    def tidy(self) -> None:
        """Do nothing, because a simulated log has no files to remove."""

    def trusted(self) -> None:
        self._process.later(self._random.random() * self.slowness / 100, self._process.trusted)

    def ended(self) -> None:
        """Record the end of the process. If the process ends while it saves a vote, the vote has reached the disk
        with probability 1/2."""
        if self._saving and self._random.random() < 0.5:
            self._votes.save(self._saving[0][0])

    # -- votes

    def _save_next(self) -> None:
        duration = self._random.expovariate(1000 / self._options.vote_ms) * max(self.slowness, self.vote_slowness)
        self._process.later(min(duration, SLOWEST_S), self._saved)

    def _saved(self) -> None:
        vote, done = self._saving.pop(0)
        self._votes.save(vote)
        if self._saving:
            self._save_next()
        done()

    # -- flushes

    def _flush_now_and_then(self) -> None:
        if not self._flushing and self._log.flushed < self._log.last_index:
            self._flush()
        self._process.later(self._options.flush_interval_ms / 1000, self._flush_now_and_then)

    def _flush(self) -> None:
        served, self._waiting = self._waiting, []
        self._flushing, self._serving = True, bool(served)
        self._log.flush_began()
        duration = self._random.expovariate(1000 / self._options.flush_ms) * self.slowness
        self._process.later(min(duration, SLOWEST_S), lambda: self._flushed(served))

    def _flushed(self, served: list[Callable[[], None]]) -> None:
        self._flushing = self._serving = False
        if self._log.failure is not None:
            return
        if self.fails_next_flush:
            failure = DiskFailedError(PATH, "a flush failed")
            self._log.flush_failed(failure)
            self._process.failed(failure)
            return
        self._log.flush_ended()
        for done in served:
            done()
        if self._waiting and not self._flushing:
            self._flush()
