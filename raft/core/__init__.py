"""Agreement, without I/O: how the servers of one shard come to hold the same log. Begin with raft.py."""

from raft.core.configuration import Configuration
from raft.core.election_timer import Timing
from raft.core.errors import (
    Busy,
    ChangeInProgress,
    ChangeRefused,
    Crowded,
    Diverged,
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
    Message,
    SnapshotChunk,
    SnapshotResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from raft.core.progress import Mode, Progress
from raft.core.raft import Raft
from raft.core.ready import Ready, Role, RoleChange, Save, Write
from raft.core.server import Durable

__all__ = [
    "Append",
    "AppendResponse",
    "Busy",
    "ChangeInProgress",
    "ChangeRefused",
    "Configuration",
    "Crowded",
    "Diverged",
    "Durable",
    "Heartbeat",
    "HeartbeatResponse",
    "LogTerms",
    "Message",
    "Mode",
    "NotLeader",
    "Progress",
    "Raft",
    "Ready",
    "Refusal",
    "Role",
    "RoleChange",
    "Save",
    "SnapshotChunk",
    "SnapshotResponse",
    "Stalled",
    "TermRun",
    "TimeoutNow",
    "Timing",
    "TransferRefused",
    "Transferring",
    "VoteRequest",
    "VoteResponse",
    "Write",
]
