"""Defines `Ready`, the work that the core asks its driver to do, and the types of its fields.

The core does no I/O. After each input the driver takes a `Ready` from the core and carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from raft.core.messages import RaftMessage, SnapshotChunk


class Role(Enum):
    """times out               majority would            majority voted
        FOLLOWER ---------> PRE_CANDIDATE ------------> CANDIDATE ---------------> LEADER
           ^ ^                |     ^                    |    |                      |
           | +----------------+     +----- times out ----+    |                      |
           |   refused, or a leader                           | refused, or a leader | newer term, or
           +--------------------------------------------------+----------------------+ no majority heard

    The role of a server. A message with a newer term makes a server of any role a follower (section 5.1).
    """

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class Save:
    """The driver must make term and vote durable, and then call vote_saved(token). A newer Save replaces an older
    Save."""

    token: int
    term: int
    voted_for: int


@dataclass(frozen=True, slots=True)
class Write:
    """Tells the driver to write entries that a follower received from the leader. If `truncate_to` is not None, the
    driver first cuts the log after `truncate_to`. After a cut, or without one, the driver writes the entries
    first..last.

    The entries first..last are those of the Append that the core has just processed. When the written entries are held
    as the flush mode promises, call persisted(token, term, last).
    """

    token: int
    # The term of the entry `last`.
    term: int
    # commit <= truncate_to == first - 1.
    truncate_to: int | None
    # first <= last.
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class RoleChange:
    """The new role, term and known leader of this server, after a change."""

    role: Role
    term: int
    # The node id of the leader; 0: unknown.
    leader: int
    # All voters elected this leader, and some of them are suspects. Committed entries that they lost may be gone.
    accepts_loss: bool = False
    # This server led, and stepped down because mute followers kept it from committing (see answers.py).
    was_unacknowledged: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """`Ready` is the work for the driver. The driver must carry out a `Ready` completely before the next call of step,
    tick, propose or read.

    The driver must carry out `write` before `commit`. The driver is allowed to carry out all other fields of a
    Ready in any order. Any order is safe, because the core hands out a message only when everything that the
    message promises is durable."""

    messages: tuple[RaftMessage, ...]
    save: Save | None
    write: Write | None
    # This server was just elected: append a no-op, which must get this index; then call own_write(no_op).
    no_op: int | None
    # The commit index has risen to this.
    commit: int | None
    # (token, index): answer the read `token` when all entries up to `index` are applied.
    reads: tuple[tuple[int, int], ...]
    # Role, term or known leader changed. If a leader steps down, the core forgets its unanswered reads.
    role: RoleChange | None
    # The newest configuration in the log changed, or was committed.
    configuration: bool = False
    # Take this piece of a snapshot, whose bytes came with the message. Then call snapshot_received(). When the snapshot
    # is complete and has replaced the log, call installed() instead.
    chunk: SnapshotChunk | None = None
    # The suspicion of this node is lifted: remove the suspect mark, at any later time.
    trusted: bool = False
    # Open the streams for entries to these followers again, because they answer heartbeats and nothing else.
    reopen: tuple[int, ...] = ()
    # The set of servers from which this server diverges has changed.
    diverged: bool = False
