"""Defines `NodePart`: the log, the vote and the replica of a simulated node in one shard. The invariants of a shard
read a node's replica through its `NodePart`.

In each shard a node has a separate log, vote and incarnation. The invariants of a shard treat a `NodePart` as if it
were a node. A `NodePart` is kept when the process of its node ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from chaos.sim.engine.disk import SimDisk
from chaos.sim.stack.record import ShardRecord
from chaos.sim.world import EntryHeader
from cluster.node.replica.local_replica import LocalReplica
from ledger.broker.broker_replica import BrokerReplica
from raft.core import Divergences, Raft
from raft.errors import CannotApplyError
from store import CommitLog, Header, Snapshot

DATA = Path("/data")


def directory_of(shard: int) -> Path:
    """Return the directory of a shard on a node's disk."""
    return DATA / f"shard-{shard}"


class LogOfNode:
    """Gives the invariants access to a node's log. The invariants mostly read the last entries of the log. Entries
    that were trimmed from the log are read from the shard's record."""

    def __init__(self, replica: BrokerReplica, record: ShardRecord) -> None:
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
    """The interface of a simulated node that its `NodePart` objects use."""

    node: int
    disk: SimDisk
    lost_power: bool
    ended: BaseException | None

    @property
    def alive(self) -> bool: ...
    def local(self, shard: int) -> LocalReplica | None:
        """Return the shard's replica in the running process, or None if the process has no replica of the shard."""

    def log_starts(self, replica: BrokerReplica, snapshot: Snapshot) -> None: ...
    def applied(self, replica: BrokerReplica, header: Header, body: memoryview) -> None: ...
    def cannot_apply(self, shard: int, reason: Exception) -> None: ...


class NodePart:
    """The log, the vote, the incarnation and, if there is one, the running replica of one node in one shard.
    Implements `chaos.sim.world.SimNode`."""

    def __init__(self, home: Home, record: ShardRecord) -> None:
        self.node = home.node
        self.shard = record.shard
        self.raft: Raft | None = None
        # Both are None while the node has no running replica of the shard.
        self.log: LogOfNode | None = None
        self._home = home
        self._record = record
        self._invariants = record.invariants
        self._incarnation = b""
        # What `look` saw last. Most events change nothing that an invariant is about.
        self._seen: object = None

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
        """The incarnation of this node's disk in this shard, according to the last process. The incarnation is
        empty if the last process had no replica of the shard."""
        local = self.local
        return local.vote.incarnation if local is not None else self._incarnation

    @property
    def suspect(self) -> bool:
        """Whether the node has possibly lost acknowledged entries. The value is True if the disk has a suspect
        mark, or if the next start will write a suspect mark."""
        marks = (directory_of(self.shard) / name for name in ("suspect", "repair"))
        return self._home.lost_power or any(self._home.disk.exists(mark) for mark in marks)

    @property
    def is_damaged(self) -> bool:
        """Whether the log of this shard is damaged and the running process is repairing the log."""
        local = self.local
        return local is not None and local.is_damaged

    @property
    def why_apart(self) -> str:
        """Return a phrase with the reason why the node has no running replica of this shard."""
        if not self.alive:
            return f"is down: {self._home.ended or 'no operator has started it'}"
        local = self.local
        return f"has no ready replica: {local.not_ready()}" if local is not None else "does not have this shard"

    # -- start and end of processes

    def begin(self, local: LocalReplica) -> None:
        """Record that a process has started with this shard on its disk."""
        vote = local.vote
        self._invariants.restarted(self.node)
        self._invariants.vote_found(self.node, vote.term, vote.voted_for)

    def end(self) -> None:
        """Record the incarnation of a process that is about to end."""
        self._incarnation = self.incarnation
        self.raft = self.log = self._seen = None

    def wiped(self) -> None:
        self._incarnation = b""
        self._invariants.wiped(self.node)

    # -- called by the node

    def vote_saved(self, local: LocalReplica) -> None:
        """Record that the vote of `local` is on the disk."""
        self._invariants.vote_saved(self.node, local.vote.term, local.vote.voted_for)

    def watch(self, replica: BrokerReplica) -> None:
        """Begin to report the applied entries, snapshots and log starts of this replica to the invariants."""
        driver, invariants, me = replica.driver, self._invariants, self.node
        apply, encoded_state, restore, log_starts = (
            replica.apply,
            replica.encoded_state,
            replica.restore,
            replica.log_starts,
        )
        diverged = replica.diverged
        self.log, self.raft = LogOfNode(replica, self._record), driver.raft
        invariants.restarted(me, driver.applied)

        def applying(header: Header, body: memoryview) -> None:
            try:
                apply(header, body)
            except CannotApplyError as reason:
                self._home.cannot_apply(self.shard, reason)
                raise
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

        def diverging(divergences: Divergences) -> None:
            diverged(divergences)
            if divergences:
                told = "; ".join(str(each) for each in divergences.values())
                invariants.fail("no divergence", f"node {me}: {told}")

        replica.diverged = diverging  # type: ignore[method-assign]
        replica.apply = applying  # type: ignore[method-assign]
        replica.encoded_state = keeping  # type: ignore[method-assign]
        replica.restore = restoring  # type: ignore[method-assign]
        replica.log_starts = beginning  # type: ignore[method-assign]
        if driver.applied:  # the state of the snapshot at which the log starts
            invariants.same_state(me, driver.applied, replica.state.digest())

    def look(self) -> None:
        """Check the invariants of the shard after an event of the node."""
        raft, log = self.raft, self.log
        if raft is None or log is None:
            return
        whole = log.whole
        seen = (raft.commit, raft.term, raft.role, whole.last_index, whole.tail.chain)
        if seen != self._seen:
            self._seen = seen
            self._invariants.check(self)
