"""Defines `NodePart`: the log, the vote and the replica of a simulated node in one shard. The invariants of a shard
read a node's replica through its `NodePart`.

In each shard a node has a separate log, vote and incarnation. The invariants of a shard treat a `NodePart` as if it
were a node. A `NodePart` is kept when the process of its node ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from chaos.sim.engine.disk import SimDisk
from chaos.sim.stack.held_entries import HeldEntries, check_majority
from chaos.sim.stack.record import ShardRecord
from chaos.sim.world import EntryHeader
from cluster.node.replica.local_replica import LocalReplica
from cluster.node.settings import NodeSettings
from ledger.broker.broker_replica import BrokerReplica
from raft.core import Divergences, Raft, Role
from raft.errors import CannotApplyError
from store import CommitLog, Header, NoSpaceError, Snapshot

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
    settings: NodeSettings
    disk: SimDisk
    lost_power: bool
    ended: BaseException | None

    @property
    def alive(self) -> bool: ...
    def local(self, shard: int) -> LocalReplica | None:
        """Return the shard's replica in the running process, or None if the process has no replica of the shard."""

    def log_starts(self, replica: BrokerReplica, snapshot: Snapshot) -> None: ...
    def appended(self, shard: int, headers: Sequence[Header]) -> None: ...
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
        # The simulator's own account of what this node acknowledged.
        self.held = record.accounts[home.node] = HeldEntries(
            home.node,
            directory_of(record.shard),
            segment_bytes=home.settings.segment_bytes,
            is_sync=home.settings.flush == "sync",
            fail=record.judge,
        )
        # Whether a fault has damaged the log, and no process has repaired it yet.
        self.is_planted = False
        self._incarnation = b""
        # The commit index that `look` saw last while this node led.
        self._committed = 0
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
        self.check_damage()

    def plant(self) -> None:
        """Record that a fault damages the log of this shard."""
        self.is_planted = True
        self.held.lost()

    def check_damage(self) -> None:
        """Record a violation if the process repairs damage that no fault has planted."""
        if self.is_damaged and not self.is_planted:
            local = self.local
            told = local.not_ready() if local is not None else ""
            self._record.judge(
                "damage was planted", f"node {self.node} repairs its log, but nothing damaged it: {told}"
            )

    def end(self) -> None:
        """Record the incarnation of a process that is about to end."""
        self._incarnation = self.incarnation
        self.raft = self.log = self._seen = None
        self._committed = 0

    def disk_after(self, disk: SimDisk) -> None:
        """Compare the disk that the next process will find with what this node acknowledged."""
        self.held.ended(disk)

    def wiped(self) -> None:
        self._incarnation = b""
        self.held.wiped()
        self.is_planted = False
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
            self._record.starts.check(me, replica, snapshot)
            invariants.restarted(me, snapshot.index)
            invariants.same_state(me, snapshot.index, replica.state.digest())

        def beginning(snapshot: Snapshot) -> None:
            log_starts(snapshot)
            self.held.begins_behind(snapshot.end)
            self._record.starts.moved(me, replica, snapshot)
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
        self._watch_log(replica.log)
        if driver.log_start is not None and driver.log_start.snapshot is not None:
            self._record.starts.check(me, replica, driver.log_start.snapshot)
        if driver.applied:  # the state of the snapshot at which the log starts
            invariants.same_state(me, driver.applied, replica.state.digest())

    def _watch_log(self, log: CommitLog) -> None:
        """Begin to record which entries this log drops."""
        truncate, reset, append, write, held = log.truncate, log.reset, log.append, log.write, self.held

        def cutting(last_index: int) -> None:
            held.cuts(log, last_index)
            truncate(last_index)
            held.has_cut(log)

        def replacing(snapshot: Snapshot) -> None:
            held.replaces(log, snapshot)
            reset(snapshot)

        def appending(*arguments: Any, **settings: Any) -> list[Header]:
            try:
                headers = append(*arguments, **settings)
            except NoSpaceError:
                held.has_cut(log)
                raise
            self._home.appended(self.shard, headers)
            return headers

        def writing(*arguments: Any, **settings: Any) -> None:
            try:
                write(*arguments, **settings)
            except NoSpaceError:
                held.has_cut(log)
                raise

        log.append = appending  # type: ignore[method-assign]
        log.write = writing  # type: ignore[method-assign]
        log.truncate = cutting  # type: ignore[method-assign]
        log.reset = replacing  # type: ignore[method-assign]
        held.opened(log, self._home.disk)

    def acknowledges(self, index: int) -> None:
        """Record that this node tells a leader that it holds the entries up to `index`."""
        if self.raft is not None and self.log is not None:
            self.held.holds(self.log.whole, self._home.disk, index, self.raft.configuration_index)

    def look(self) -> None:
        """Check the invariants of the shard after an event of the node."""
        raft, log = self.raft, self.log
        if raft is None or log is None:
            return
        whole = log.whole
        seen = (raft.commit, raft.durable, raft.term, raft.role, whole.tail)
        if seen == self._seen and self.held.owed is None and not self.is_planted:
            return
        self._seen = seen
        self.held.look(raft, whole, self._home.disk)
        if self.is_planted and not self.is_damaged:
            self.is_planted = False
        if raft.commit != self._committed and raft.role is Role.LEADER:
            self._committed = raft.commit
            if wrong := check_majority(raft, whole, self._record.accounts):
                self._record.judge("a majority has acknowledged", wrong)
        self._invariants.check(self)
