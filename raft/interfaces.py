"""The interfaces that the driver uses: the log, the network, the disk's threads, the state machine and proposals.

Each interface has a real implementation and an in-memory implementation (`tests/raft/driver_cluster.py`), so the same
driver runs under gRPC and in the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Protocol

from raft.configuration_entry import ShardConfiguration
from raft.core import Append, Divergences, RaftMessage, RoleChange, SnapshotChunk
from raft.errors import CannotApplyError
from raft.snapshot_piece import SnapshotPiece
from store import EntryDraft, Header, Readable, Snapshot, StoreError


class Log(Protocol):
    """The methods of `store.CommitLog` that the driver uses."""

    @property
    def first_index(self) -> int: ...
    @property
    def last_index(self) -> int: ...
    def append(self, drafts: Sequence[EntryDraft], *, term: int, commit: int, now_ms: int) -> list[Header]: ...
    def examine(self, data: Readable, prev_index: int) -> list[Header]: ...
    def write(self, data: Readable, headers: list[Header], first: int) -> None: ...
    def truncate(self, last_index: int) -> None: ...
    def term(self, index: int) -> int: ...
    def chain(self, index: int) -> int: ...
    def entry(self, index: int) -> tuple[Header, memoryview]: ...
    def view_range(self, first: int, last: int) -> Readable: ...
    def begins_segment(self, index: int) -> bool: ...
    def snapshot_at(self, index: int, *, configuration: bytes, state: bytes) -> Snapshot: ...
    def drop_before(self, snapshot: Snapshot) -> None: ...
    def reset(self, snapshot: Snapshot) -> None: ...


class Transport(Protocol):
    """A `Transport` sends messages to other nodes. A transport never waits and may lose messages."""

    def send(self, message: RaftMessage) -> None:
        """Send a vote request, a heartbeat, or an answer of any kind."""

    def replicate(self, ranges: Iterable[tuple[Append, Readable]]) -> None:
        """Send byte ranges of the CommitLog over the bulk connections, in the order of the iterable.

        A range may be a view of memory that changes after this call, so the transport copies the range before it
        returns."""

    def send_snapshot(self, chunk: SnapshotChunk, piece: SnapshotPiece) -> None:
        """Send a piece of a snapshot over the bulk connection."""

    def reopen(self, peer: int) -> None:
        """Close the bulk connection to this peer, and open a new connection. The peer answers heartbeats, and nothing
        that was sent over the bulk connection."""

    def configured(self, configuration: ShardConfiguration, served: Container[int]) -> None:
        """Connect to the members of `configuration`, the newest configuration in the log, and disconnect from removed
        members.

        The leader still sends the log to the nodes in `served`, so the transport stays connected to all nodes in
        `served`, even if they are no longer members."""


class DriverDisk(Protocol):
    """The interface through which the driver asks helper threads to work on the disk. Each callback runs later, in
    the driver's thread."""

    def save_vote(self, term: int, voted_for: int, done: Callable[[], None]) -> None:
        """Write term and vote to the vote file, fsync the file in every flush mode, and then call done(). If a newer
        call comes before the write begins, the newer vote replaces this one, and done() is not called."""

    def persist(self, done: Callable[[], None]) -> None:
        """Call done() when all writes so far are held as the flush mode promises: in the page cache, or after an fsync.

        The callbacks of `persist` and `flush` run in the order in which `persist` and `flush` were called."""

    def flush(self, done: Callable[[], None]) -> None:
        """Call done() when all writes so far are on the disk. `flush` must make an fsync in every flush mode."""

    def tidy(self) -> None:
        """Remove, at any later time, the segment files that the log no longer uses."""

    def trusted(self) -> None:
        """Remove the suspect mark at any later time, because this node is no longer a suspect."""


class Machine(Protocol):
    """The replicated state machine of a shard. The driver passes committed entries and changes of role to the
    machine."""

    def apply(self, header: Header, body: memoryview) -> None:
        """Apply the next committed entry. Raises CannotApplyError if this program cannot apply the entry. The driver
        then passes no later entry, and asks for no encoded state: the entry may have changed a part of the state.

        In one run of the process, the driver passes each entry once, and in order."""

    def encoded_state(self) -> bytes:
        """Return the state after all entries applied so far, encoded for a snapshot."""

    def flaw_of(self, snapshot: Snapshot) -> str:
        """Return why the state of this snapshot cannot be restored, or "" if it can. Change nothing."""

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the state by the state of a snapshot. The snapshot came from the leader and has already replaced
        the log."""

    def log_starts(self, snapshot: Snapshot) -> None:
        """The driver calls `log_starts` when the log start has moved: the log now begins after `snapshot`. The
        entries before the log start cannot be read any more."""

    def role_changed(self, change: RoleChange) -> None:
        """The driver calls `role_changed` when the role, the term or the known leader of this node has changed."""

    def leading(self, term: int) -> None:
        """The driver calls `leading` when this node leads `term` and has applied all entries of earlier leaders.
        After this call, the machine is allowed to accept proposals."""

    def stopped_applying(self, reason: CannotApplyError) -> None:
        """The driver calls `stopped_applying` once, after `apply` raised this error. This node does not lead the shard
        any more, and can be read up to the last applied entry."""

    def diverged(self, divergences: Divergences) -> None:
        """The driver calls `diverged` when the set of nodes from which this replica diverges has changed. Unless the
        set is empty, `check_room` raises Diverged."""

    def unacknowledged(self, peer: int) -> None:
        """The driver calls `unacknowledged` on the leader each time before it reopens the bulk connection to a
        follower that answers heartbeats and acknowledges nothing."""

    def failed(self, failure: StoreError) -> None:
        """The driver calls `failed` when the disk refused a write of this shard.

        This node does not lead the shard until the disk accepts writes again."""


class Proposal(Protocol):
    """A `Proposal` is one entry that a client wants to append. The driver calls `appended` at most once, then
    `settled` once."""

    @property
    def draft(self) -> EntryDraft: ...

    def appended(self, header: Header) -> None:
        """The driver calls `appended` when the entry is written to this node's log. `header` has the index and
        position of the entry."""

    def settled(self, committed: bool) -> None:
        """If `committed` is true, the entry is committed and applied. If `committed` is false, this node stopped
        leading or failed before the commit. If `committed` is false, an entry that was appended may still be
        committed by the next leader. An entry that was not appended is never committed."""
