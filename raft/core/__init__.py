"""The core of Raft: pure decisions without I/O, clock or randomness. The servers of one shard use Raft to agree on one
log.

This package contains, in reading order:

    raft.py             one server as a state machine: messages and ticks in, `Ready` out; begin here
    ready.py            what the core asks its driver to do
    messages.py         the messages between the servers of a shard
    message_checks.py   refuses messages that no correct server sends
    settings.py         what a server is built from: its settings, and what recovery found on the disk
    server.py           the state of a server in every role: term, vote, log, commit index
    follower.py         the follower: checks and acknowledges entries
    candidate.py        the candidate: pre-vote and vote
    leader.py           the leader: replicates entries and counts commits
    progress.py         what a leader knows of one follower, and what it may send to that follower
    log_terms.py        the terms of all entries, in runs
    configuration.py    voters and learners, as entries of the log
    quorum.py           majorities
    voting.py           when a server grants its vote
    election_timer.py   how long a server waits before it starts an election
    reads.py            linearizable reads (read index)
    transfer.py         handover of leadership to another voter
    suspicion.py        the rule for a node that may have lost entries it acknowledged
    divergence.py       the rule for nodes whose logs contradict each other below a commit index
    catch_up.py         limits how fast learners catch up
    answers.py          notices a follower that answers heartbeats and nothing else
    errors.py           why the core refuses a request
"""

from raft.core.configuration import Configuration
from raft.core.divergence import CommittedEntry, Divergence, Divergences
from raft.core.election_timer import RaftTiming
from raft.core.errors import (
    Busy,
    ChangeInProgress,
    ChangeRefused,
    Crowded,
    Diverged,
    InvalidMessage,
    NotLeader,
    Refusal,
    Stalled,
    TransferRefused,
    Transferring,
)
from raft.core.log_terms import LogTerms, TermRun
from raft.core.messages import (
    Append,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    RaftMessage,
    SnapshotChunk,
    SnapshotResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from raft.core.progress import FollowerProgress, Mode
from raft.core.raft import Raft
from raft.core.ready import Ready, Role, RoleChange, Save, Write
from raft.core.settings import Durable, RaftSettings, RecoveredState

__all__ = [
    "Append",
    "AppendResponse",
    "Busy",
    "ChangeInProgress",
    "ChangeRefused",
    "CommittedEntry",
    "Configuration",
    "Crowded",
    "Diverged",
    "Divergence",
    "Divergences",
    "Durable",
    "FollowerProgress",
    "Heartbeat",
    "HeartbeatResponse",
    "InvalidMessage",
    "LogTerms",
    "Mode",
    "NotLeader",
    "Raft",
    "RaftMessage",
    "RaftSettings",
    "RaftTiming",
    "Ready",
    "RecoveredState",
    "Refusal",
    "Role",
    "RoleChange",
    "Save",
    "SnapshotChunk",
    "SnapshotResponse",
    "Stalled",
    "TermRun",
    "TimeoutNow",
    "TransferRefused",
    "Transferring",
    "VoteRequest",
    "VoteResponse",
    "Write",
]
