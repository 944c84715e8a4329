"""Defines the core's types for the messages between the nodes of one shard.

A message is a frozen value. The core ignores an answer with an old term. The core never sees the body of an entry. An
`Append` describes a range of entries by their terms, and the driver keeps the bytes of the entries.
"""

from __future__ import annotations

from dataclasses import dataclass

from raft.core.configuration import Configuration
from raft.core.divergence import CommittedEntry
from raft.core.log_terms import TermRun


@dataclass(frozen=True, slots=True)
class RaftMessage:
    """The fields `sender` and `receiver` of a message are node ids. `term` is the sender's term, except in a
    pre-vote (see VoteRequest)."""

    sender: int
    receiver: int
    term: int


@dataclass(frozen=True, slots=True)
class VoteRequest(RaftMessage):
    """RequestVote (section 5.2). With `pre`, the message asks for a pre-vote, and `term` is the term that the
    sender would begin."""

    last_index: int
    last_term: int
    pre: bool = False
    # The leader asked the sender to stand, so receivers need not protect that leader (dissertation, section 3.10).
    transfer: bool = False
    # Every voter granted the sender's pre-vote. So suspects may vote for the sender (see suspicion.py).
    unanimous: bool = False


@dataclass(frozen=True, slots=True)
class VoteResponse(RaftMessage):
    """The answer to a VoteRequest. `term` is the voter's term, except that a granted pre-vote repeats the request's
    term."""

    granted: bool
    pre: bool = False
    # The sender's suspicion (see suspicion.py); 0: none.
    suspicion: int = 0
    # The sender's wall clock in ms since 1970; 0: not told. The driver sets and reads it (see raft/cluster_clock.py).
    wall_ms: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat(RaftMessage):
    """The leader's heartbeat, which keeps a follower from standing for election. `commit` never exceeds the index
    that the receiver has acknowledged. `round` increases within one leadership."""

    commit: int
    round: int
    # The number of the receiver's suspicion, if the leader lifts it (see suspicion.py); otherwise 0.
    lifted: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatResponse(RaftMessage):
    """The answer to a Heartbeat. `round` is the round of the heartbeat that is answered.

    The answer proves that the sender of the heartbeat still led after the round began."""

    round: int
    suspicion: int = 0
    # The highest feature level that the sender's program supports. The core does not know what the levels mean.
    feature_level: int = 0
    # The sender takes entries, and has answered every Append and every piece of a snapshot that it received.
    owes_nothing: bool = False
    # The sender's disk takes no new data, so leadership must not be handed to the sender.
    refuses_writes: bool = False
    # As in VoteResponse.
    wall_ms: int = 0


@dataclass(frozen=True, slots=True)
class TimeoutNow(RaftMessage):
    """The leader asks the receiver to stand for election at once (dissertation, section 3.10). The receiver holds
    the leader's whole log."""


@dataclass(frozen=True, slots=True)
class Append(RaftMessage):
    """AppendEntries (section 5.3): the entries prev_index + 1 .. last_index.

    An empty Append (last_index == prev_index) asks whether the logs agree at prev_index.
    """

    prev_index: int
    prev_term: int
    # The terms of those entries. The first run begins at prev_index + 1. Empty if the Append has no entries.
    runs: tuple[TermRun, ...]
    last_index: int
    # The leader's commit index; may lie after last_index.
    commit: int
    # (index, configuration) of each configuration entry in the range, ascending.
    configurations: tuple[tuple[int, Configuration], ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotChunk(RaftMessage):
    """InstallSnapshot (section 7): one piece of the snapshot after entry `index`, from byte `offset` on.

    A leader sends snapshot chunks to a member that lacks entries from before the leader's log start. The bytes of the
    piece are not part of this message. The transport sends the bytes of the piece together with this message.
    """

    index: int
    offset: int


@dataclass(frozen=True, slots=True)
class SnapshotResponse(RaftMessage):
    """The answer to a SnapshotChunk. The sender of the answer has the first `received` bytes of the snapshot.
    `installed` means that the sender's log begins after the snapshot, or holds all committed entries up to the
    snapshot."""

    index: int
    received: int
    installed: bool = False
    suspicion: int = 0


@dataclass(frozen=True, slots=True)
class AppendResponse(RaftMessage):
    """The answer to an Append.

    If the Append is accepted, the sender's log agrees with the leader's log up to `match`. In the log of the answer's
    sender, the entries up to `match` are as durable as the flush mode promises. If the Append is rejected, the logs
    differ at `rejected_index`, and cannot agree after `hint_index`. In the log of the answer's sender, the entry at
    `hint_index` has the term `hint_term`. If the leader contradicts a committed entry, `contradicted` is this entry,
    and the other fields have no meaning (see divergence.py).
    """

    match: int = 0
    rejected: bool = False
    rejected_index: int = 0
    hint_index: int = 0
    hint_term: int = 0
    suspicion: int = 0
    contradicted: CommittedEntry | None = None
