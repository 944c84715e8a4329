"""A simulated node's part in one shard: its replica, as the invariants of that shard look at it.

A node takes part in each shard by itself, with another log, another vote and another incarnation; to the invariants
of a shard that part is the node. It outlives processes, as the node does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from chaos.sim.engine.disk import SimDisk
from chaos.sim.stack.record import Record
from chaos.sim.world import EntryHeader
from cluster.node.local_replica import LocalReplica
from ledger.broker.broker_replica import BrokerReplica
from raft.core import Raft
from store import CommitLog, Header, Snapshot

DATA = Path("/data")


def directory_of(shard: int) -> Path:
    """Where a node keeps that shard."""
    return DATA / f"shard-{shard}"


class LogOfNode:
    """The log as invariants look at it: mostly at its end. What it has let go is what was committed there."""

    def __init__(self, replica: BrokerReplica, record: Record) -> None:
        self.whole: CommitLog = replica.log
        self._replica = replica
        self._record = record

    @property
    def last_index(self) -> int:
        return self.whole.last_index

    @property
    def chain(self) -> int:
        return self.whole.tail.chain

    @property
    def term(self) -> int:
        return self.whole.tail.term

    def header(self, index: int) -> EntryHeader:
        if index == self.whole.last_index:
            return self
        if index >= self.whole.first_index:
            return self.whole.reading.header(index)
        log_start = self._replica.driver.log_start
        snapshot = log_start.snapshot if log_start is not None else None
        return snapshot if snapshot is not None and snapshot.index == index else self._record.entry(index)


class Home(Protocol):
    """The node, as its parts see it."""

    node: int
    disk: SimDisk
    lost_power: bool
    ended: BaseException | None

    @property
    def alive(self) -> bool: ...
    def local(self, shard: int) -> LocalReplica | None:
        """The shard in its process; None where there is none."""

    def log_starts(self, replica: BrokerReplica, snapshot: Snapshot) -> None: ...
    def applied(self, replica: BrokerReplica, header: Header, body: memoryview) -> None: ...


class Part:
    """Implements `chaos.sim.world.SimNode`, for one shard."""

    def __init__(self, home: Home, record: Record) -> None:
        self.node = home.node
        self.shard = record.shard
        self.raft: Raft | None = None
        self.log: LogOfNode | None = None
        """Both None while it takes no part."""
        self._home = home
        self._record = record
        self._invariants = record.invariants
        self._incarnation = b""
        self._seen: object = None
        """What of it was looked at last: most events change nothing that an invariant is about."""

    @property
    def alive(self) -> bool:
        return self._home.alive

    @property
    def local(self) -> LocalReplica | None:
        return self._home.local(self.shard)

    @property
    def replica(self) -> BrokerReplica | None:
        local = self.local
        return local.replica if local is not None else None

    @property
    def incarnation(self) -> bytes:
        """Of its disk in this shard, as the last process had it; empty where it had no such shard."""
        local = self.local
        return local.vote.incarnation if local is not None else self._incarnation

    @property
    def suspect(self) -> bool:
        """Whether it may have lost what it acknowledged: its disk says so, or will when it starts."""
        marks = (directory_of(self.shard) / name for name in ("suspect", "repair"))
        return self._home.lost_power or any(self._home.disk.exists(mark) for mark in marks)

    @property
    def is_damaged(self) -> bool:
        """Whether its process runs, and repairs its log."""
        local = self.local
        return local is not None and local.is_damaged

    @property
    def why_apart(self) -> str:
        """Why it has no replica."""
        if not self.alive:
            return f"is down: {self._home.ended or 'nobody started it'}"
        local = self.local
        return f"takes no part: {local.not_ready()}" if local is not None else "has nothing of it"

    # -- its lives

    def begin(self, local: LocalReplica) -> None:
        """A process has begun with this shard on its disk."""
        vote = local.vote
        self._invariants.restarted(self.node)
        self._invariants.vote_found(self.node, vote.term, vote.voted_for)

    def end(self) -> None:
        """The process is about to be gone."""
        self._incarnation = self.incarnation
        self.raft = self.log = self._seen = None

    def wiped(self) -> None:
        self._incarnation = b""
        self._invariants.wiped(self.node)

    # -- what is told of it

    def vote_saved(self, local: LocalReplica) -> None:
        """The disk has the vote that `local` has."""
        self._invariants.vote_saved(self.node, local.vote.term, local.vote.voted_for)

    def watch(self, replica: BrokerReplica) -> None:
        """Tells the invariants of what is applied from now on, and of where the log begins."""
        driver, invariants, me = replica.driver, self._invariants, self.node
        apply, encoded_state, restore, log_starts = (
            replica.apply,
            replica.encoded_state,
            replica.restore,
            replica.log_starts,
        )
        self.log, self.raft = LogOfNode(replica, self._record), driver.raft
        invariants.restarted(me, driver.applied)

        def applying(header: Header, body: memoryview) -> None:
            apply(header, body)
            self._home.applied(replica, header, body)
            invariants.applied(me, header.index, driver.raft.commit, replica.state.digest)

        def keeping() -> bytes:
            invariants.same_state(me, driver.applied, replica.state.digest())
            return encoded_state()

        def restoring(snapshot: Snapshot) -> None:
            restore(snapshot)
            invariants.restarted(me, snapshot.index)
            invariants.same_state(me, snapshot.index, replica.state.digest())

        def beginning(snapshot: Snapshot) -> None:
            log_starts(snapshot)
            self._home.log_starts(replica, snapshot)

        replica.apply = applying  # type: ignore[method-assign]
        replica.encoded_state = keeping  # type: ignore[method-assign]
        replica.restore = restoring  # type: ignore[method-assign]
        replica.log_starts = beginning  # type: ignore[method-assign]
        if driver.applied:  # the state of the base that its log begins behind
            invariants.same_state(me, driver.applied, replica.state.digest())

    def look(self) -> None:
        """To be called after each event of the node."""
        raft, log = self.raft, self.log
        if raft is None or log is None:
            return
        whole = log.whole
        seen = (raft.commit, raft.term, raft.role, whole.last_index, whole.tail.chain)
        if seen != self._seen:
            self._seen = seen
            self._invariants.check(self)
