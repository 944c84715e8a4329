"""What the driver stands on: the log, the network, the disk's threads, the state machine, and those who propose.

Each is a small interface with a real implementation and one in memory (`tests/raft/driver_cluster.py`),
so the driver runs under gRPC and under a simulator alike.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Protocol

from raft.configuration_entry import ShardConfiguration
from raft.core import Append, Message, RoleChange, SnapshotChunk
from raft.snapshot_piece import Piece
from store import EntryDraft, Header, Readable, Snapshot, StoreError


class Log(Protocol):
    """The CommitLog as the driver needs it (`store.CommitLog`)."""

    @property
    def first_index(self) -> int: ...
    @property
    def last_index(self) -> int: ...
    def append(self, drafts: Sequence[EntryDraft], *, term: int, commit: int, now_ms: int) -> list[Header]: ...
    def examine(self, data: Readable, prev_index: int) -> list[Header]: ...
    def write(self, data: Readable, headers: list[Header], first: int) -> None: ...
    def truncate(self, last_index: int) -> None: ...
    def term(self, index: int) -> int: ...
    def entry(self, index: int) -> tuple[Header, memoryview]: ...
    def view_range(self, first: int, last: int) -> Readable: ...
    def begins_segment(self, index: int) -> bool: ...
    def snapshot_at(self, index: int, *, configuration: bytes, state: bytes) -> Snapshot: ...
    def drop_before(self, snapshot: Snapshot) -> None: ...
    def reset(self, snapshot: Snapshot) -> None: ...


class Transport(Protocol):
    """Carries messages to other nodes; may lose them, never waits."""

    def send(self, message: Message) -> None:
        """Votes, heartbeats, and answers of every kind."""

    def replicate(self, ranges: Iterable[tuple[Append, Readable]]) -> None:
        """Byte ranges of the CommitLog, one after the other as they are drawn, by the bulk connections. They are
        read before this returns: what they are views of may change afterwards."""

    def send_snapshot(self, chunk: SnapshotChunk, piece: Piece) -> None:
        """A piece of the base, by the bulk connection."""

    def configured(self, configuration: ShardConfiguration, served: Container[int]) -> None:
        """These are the members now, as the newest configuration in the log has them: the log goes to others too, or to
        some no more. Nodes that are `served` still are to be reached even if they are no members any more."""


class Disk(Protocol):
    """What is done on helper threads; each answers later, in the driver's own thread."""

    def save_vote(self, term: int, voted_for: int, done: Callable[[], None]) -> None:
        """Fsyncs term and vote, in every flush mode."""

    def persist(self, done: Callable[[], None]) -> None:
        """Calls done() once what is written so far is held as the flush mode promises: at once from the page cache,
        or after an fsync. In the order of the calls, those of `flush` among them."""

    def flush(self, done: Callable[[], None]) -> None:
        """Calls done() once what is written so far is on the disk, in every flush mode."""

    def tidy(self) -> None:
        """The log has let files go: removes them, some time."""

    def trusted(self) -> None:
        """This node is no longer a suspect: removes the suspect mark, at any later time."""


class Machine(Protocol):
    """The replicated state machine that stands on the log, and hears who leads."""

    def apply(self, header: Header, body: memoryview) -> None:
        """The next committed entry, in order, each exactly once in the life of this process."""

    def encoded_state(self) -> bytes:
        """The state that all entries applied so far have made."""

    def restore(self, snapshot: Snapshot) -> None:
        """The log now begins after `base`, and the earlier log is gone: replace the state by the snapshot's."""

    def log_starts(self, snapshot: Snapshot) -> None:
        """The log begins behind `base` from now on: what came before is not here any more."""

    def role_changed(self, change: RoleChange) -> None: ...

    def leading(self, term: int) -> None:
        """This node leads, and has applied all that earlier leaders committed: proposals may come."""

    def failed(self, failure: StoreError) -> None:
        """The disk refused a write of this shard: nothing is led here until it takes writes again."""


class Proposal(Protocol):
    """One entry that a client wants appended. The driver calls `appended` at most once, then `settled` once."""

    @property
    def draft(self) -> EntryDraft: ...

    def appended(self, header: Header) -> None:
        """The entry is in this node's log."""

    def settled(self, committed: bool) -> None:
        """It is committed and applied; or this node stopped leading first (if it had been appended it may still commit,
        otherwise it surely will not)."""
