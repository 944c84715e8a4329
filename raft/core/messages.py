"""What the nodes of one shard say to each other, as the core sees it.

The one idea: a message is a frozen value, and the answer to an old one is recognised by its term alone.
The core never sees the body of an entry: an `Append` describes a range of entries by their terms, and the driver
keeps the bytes beside it. Must not know: protobuf, streams, addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from raft.core.configuration import Configuration
from raft.core.log_terms import TermRun


@dataclass(frozen=True, slots=True)
class Message:
    """Sender and receiver are node ids. `term` is the sender's, except in a pre-vote (see VoteRequest)."""

    sender: int
    receiver: int
    term: int


@dataclass(frozen=True, slots=True)
class VoteRequest(Message):
    """RequestVote (section 5.2). With `pre` it only asks "would you?", and `term` is the one the sender would begin."""

    last_index: int
    last_term: int
    pre: bool = False
    # The leader asked the sender to stand: no reason to protect it (dissertation, section 3.10).
    transfer: bool = False
    # Every voter would vote for the sender, so suspects may (see suspicion.py).
    unanimous: bool = False


@dataclass(frozen=True, slots=True)
class VoteResponse(Message):
    """A granted pre-vote repeats the term of its request; every other answer carries the voter's own term."""

    granted: bool
    pre: bool = False
    # The sender's suspicion (see suspicion.py); 0: none.
    suspicion: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat(Message):
    """`commit` never exceeds what the receiver has acknowledged. `round` counts up within one leadership."""

    commit: int
    round: int
    # That suspicion of the receiver is lifted; 0: none is.
    lifted: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatResponse(Message):
    """`round` is that of the heartbeat answered: proof that the leader still led after that round had begun."""

    round: int
    suspicion: int = 0


@dataclass(frozen=True, slots=True)
class TimeoutNow(Message):
    """The leader asks the receiver, which holds all of its log, to stand at once (dissertation, section 3.10)."""


@dataclass(frozen=True, slots=True)
class Append(Message):
    """AppendEntries (section 5.3): the entries prev_index + 1 .. last_index. Empty (last_index == prev_index), it asks
    whether the logs agree at prev_index."""

    prev_index: int
    prev_term: int
    # The terms of those entries: the first run begins at prev_index + 1. Empty exactly when the range is.
    runs: tuple[TermRun, ...]
    last_index: int
    # What the leader knows committed; may lie beyond last_index.
    commit: int
    # Those of the entries that are configurations, in order of their indexes.
    configurations: tuple[tuple[int, Configuration], ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotChunk(Message):
    """InstallSnapshot (section 7): the leader's log begins behind entry `index`, and the receiver lacks what is before.
    Beside it travels a piece of the base, what stands in the place of those entries, from byte `offset` on."""

    index: int
    offset: int


@dataclass(frozen=True, slots=True)
class SnapshotResponse(Message):
    """The sender has the first `received` bytes of that base; `installed`: it has all that the base stands for."""

    index: int
    received: int
    installed: bool = False
    suspicion: int = 0


@dataclass(frozen=True, slots=True)
class AppendResponse(Message):
    """Accepted: the sender's log agrees with the leader's up to `match`, and is held so far as the flush mode promises.
    Rejected: there is no agreement at `rejected_index`; none is possible above `hint_index`, whose term here is
    `hint_term`."""

    match: int = 0
    rejected: bool = False
    rejected_index: int = 0
    hint_index: int = 0
    hint_term: int = 0
    suspicion: int = 0
