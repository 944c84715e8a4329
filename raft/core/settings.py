"""Defines the parameters of a server. The parameters are settings that never change while the server runs, and the
state that recovery found on the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from raft.core.catch_up import CatchUpLimit
from raft.core.configuration import Configuration
from raft.core.election_timer import RaftTiming
from raft.core.log_terms import LogTerms

# reach(first, max_bytes): the last index that one Append from `first` on may carry, and the bytes up to there.
# One Append carries at most `max_bytes`, but always at least one entry, and only written entries.
Reach = Callable[[int, int], tuple[int, int]]

# Returns the preferred leader among the given voters; 0: none is preferred. Servers that have applied the same entries
# must return the same voter. Otherwise two servers would hand leadership to and fro.
Prefer = Callable[[tuple[int, ...]], int]


def no_preference(_: tuple[int, ...]) -> int:
    """Return 0, so that no voter is preferred as the leader and the elected leader keeps leadership."""
    return 0


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """`RaftSettings` are the settings of one server, which never change while it runs."""

    # This server's node id, from 1.
    node: int
    timing: RaftTiming
    # Returns the extra ticks of one election timeout, from 0.
    jitter: Callable[[], int]
    reach: Reach
    # A leader takes no further proposals while more bytes than this wait to be committed.
    max_uncommitted_bytes: int
    # Any other leader hands leadership over to the preferred leader when that node keeps up.
    prefer: Prefer = no_preference
    # The highest feature level that this server's program supports.
    feature_level: int = 0
    # Tells this server from an earlier member with its node id, whose disk was lost. Empty: the node id alone counts.
    incarnation: bytes = b""
    # What this server and the others of its node may send to learners that catch up. By default there is no limit.
    catch_up: CatchUpLimit = field(default_factory=CatchUpLimit)

    def __post_init__(self) -> None:
        assert self.node >= 1, f"node ids begin at 1, not {self.node}"
        assert self.max_uncommitted_bytes >= 1, f"max_uncommitted_bytes is at least 1, not {self.max_uncommitted_bytes}"


@dataclass(frozen=True, slots=True)
class Durable:
    """Term and vote of a server, as the vote file stores them."""

    # The newest term that this server has seen. Never falls.
    term: int = 0
    # The candidate that this server voted for in that term; 0: no vote yet. Set at most once for each term.
    voted_for: int = 0


@dataclass(frozen=True, slots=True)
class RecoveredState:
    """The state of a server that recovery found on the disk. All entries of the log must be as durable as the flush
    mode promises."""

    vote: Durable
    log: LogTerms
    # (index, configuration) of each configuration in the log or at its start, ascending.
    configurations: Sequence[tuple[int, Configuration]]
    # log.snapshot_index <= commit <= log.last_index.
    commit: int
    # Not 0: this server may have lost entries that it acknowledged. A random number (see suspicion.py).
    suspicion: int = 0

    def __post_init__(self) -> None:
        assert self.log.snapshot_index <= self.commit <= self.log.last_index, (
            f"commit {self.commit} is not in {self.log}"
        )
