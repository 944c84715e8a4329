"""What the core asks of its driver.

The one idea: the core does nothing itself. After each input the driver takes a `Ready` and does what it says.
Must not know: how any of it is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from raft.core.messages import Message, SnapshotChunk


class Role(Enum):
    """
                 times out               majority would            majority voted
        FOLLOWER ---------> PRE_CANDIDATE ------------> CANDIDATE ---------------> LEADER
           ^ ^                |     ^                    |    |                      |
           | +----------------+     +----- times out ----+    |                      |
           |   refused, or a leader                           | refused, or a leader | newer term, or
           +--------------------------------------------------+----------------------+ no majority heard

    A newer term makes a follower of everyone (section 5.1).
    """

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class Save:
    """Make term and vote durable, then call vote_saved(token). A newer Save replaces an older one."""

    token: int
    term: int
    voted_for: int


@dataclass(frozen=True, slots=True)
class Write:
    """For a follower: cut the log to `truncate_to` if that is given, then write the entries first..last of the Append
    just stepped. Then, once they are held as the flush mode promises, call persisted(token, term, last)."""

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
    role: Role
    term: int
    # 0: unknown.
    leader: int
    # This leader was elected by all voters, some of them suspect: what they lost nobody may have any more.
    accepts_loss: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """To be handled completely before the next step, tick, propose or read. Order, where there is any: `write` before
    `commit`. The rest is independent: whatever a message has to wait for, the core has waited for."""

    messages: tuple[Message, ...]
    save: Save | None
    write: Write | None
    # Just elected: append a no-op, which must get this index; then own_write(no_op).
    no_op: int | None
    # The commit index has risen to this.
    commit: int | None
    # (token, index): answer that read once everything up to index is applied.
    reads: tuple[tuple[int, int], ...]
    # Role, term or known leader changed. Reads that were not answered before are lost when a leader ceases to be one.
    role: RoleChange | None
    # The newest configuration in the log is another one now, or it is committed now.
    configuration: bool = False
    # Take this piece of a base, whose bytes came with it. Then call base_received(), or, when the base is complete and
    # in the place of the log, installed().
    chunk: SnapshotChunk | None = None
    # This node is suspect no more: forget it durably, some time.
    trusted: bool = False
