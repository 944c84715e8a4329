"""Checks each received message before the core acts on it.

A correct server of the shard never sends a message that fails these checks. Such a message comes from a faulty or a
hostile node. The core refuses the message with `InvalidMessage`, and nothing has changed. Therefore no content of a
message can reach an assertion.

The checks compare the message only with what this server knows for certain. For example, they do not compare the sender
with the members: a new leader can be a member whose configuration entry this server does not have yet.
"""

from __future__ import annotations

from raft.core.candidate import Candidate
from raft.core.divergence import CommittedEntry
from raft.core.errors import InvalidMessage
from raft.core.follower import Follower
from raft.core.leader import Leader
from raft.core.log_terms import TermRun
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
)
from raft.core.server import Server

# The largest difference between the term of a message and the term of this server. A shard that holds ten elections a
# second needs 13 years for so many terms.
MAX_TERM_JUMP = 1 << 32

# The largest index of an entry, and the largest number of a heartbeat round. Files store both as 64-bit numbers.
MAX_NUMBER = (1 << 63) - 1

Role = Follower | Candidate | Leader


def check(message: RaftMessage, server: Server, role: Role) -> None:
    """Raise InvalidMessage if no correct server can have sent this message to `server`."""
    if message.sender < 1 or message.sender == server.node:
        raise InvalidMessage(message.sender, f"no other server has the number {message.sender}")
    _check_term(message, server)
    match message:
        case VoteRequest():
            _check_vote_request(message)
        case Append():
            _check_leader(message, server, role)
            _check_range(message)
            _check_agreement(message, server)
        case Heartbeat():
            _check_leader(message, server, role)
            _check_numbers(message, message.commit, message.round)
        case SnapshotChunk():
            _check_leader(message, server, role)
            _check_numbers(message, message.index, message.offset)
        case TimeoutNow():
            _check_leader(message, server, role)
        case _ if isinstance(role, Leader) and message.term == server.term:
            _check_answer(message, server, role)


def _check_term(message: RaftMessage, server: Server) -> None:
    if not 0 <= message.term <= server.term + MAX_TERM_JUMP:
        raise InvalidMessage(
            message.sender, f"no number of elections leads from term {server.term} to term {message.term}"
        )


def _check_leader(message: RaftMessage, server: Server, role: Role) -> None:
    """Check a message that only the leader of the message's term sends."""
    if message.term == server.term and role.leader not in (0, message.sender):
        raise InvalidMessage(message.sender, f"node {role.leader} leads term {message.term}, not node {message.sender}")


def _check_vote_request(request: VoteRequest) -> None:
    _check_numbers(request, request.last_index)
    if not 0 <= request.last_term <= request.term:
        raise InvalidMessage(
            request.sender, f"a candidate of term {request.term} cannot have an entry of term {request.last_term}"
        )


def _check_range(append: Append) -> None:
    """Check that the terms of the entries can be in one log, and that the range has the stated end."""
    _check_numbers(append, append.prev_index, append.prev_term, append.last_index, append.commit)
    last = TermRun(append.prev_index, append.prev_term)
    for run in append.runs:
        if run.term < max(1, last.term) or run.first_index <= last.first_index:
            raise InvalidMessage(append.sender, f"term {run.term} at entry {run.first_index} follows term {last.term}")
        last = run
    begins = append.runs[0].first_index if append.runs else append.last_index + 1
    if begins != append.prev_index + 1 or last.first_index > append.last_index:
        raise InvalidMessage(append.sender, f"a range after entry {append.prev_index} ends at {append.last_index}")
    if last.term > append.term:
        raise InvalidMessage(append.sender, f"a leader of term {append.term} sent an entry of term {last.term}")


def _check_agreement(append: Append, server: Server) -> None:
    """Check that the range does not contradict earlier messages of the same leader. A leader never changes an entry
    of its log, and the log of this server agrees with the leader's log up to `matched`."""
    log = server.log
    if append.term != server.term or not append.runs or not log.holds(append.prev_index, append.prev_term):
        return
    first = log.first_difference(append.runs, append.last_index)
    if server.commit < first <= min(server.matched, append.last_index):
        raise InvalidMessage(append.sender, f"the leader of term {append.term} contradicts itself at entry {first}")


def _check_answer(message: RaftMessage, server: Server, leader: Leader) -> None:
    """Check an answer to this leader, in the leader's term."""
    match message:
        case HeartbeatResponse() if not 0 <= message.round <= leader.round:
            raise InvalidMessage(message.sender, f"round {message.round} of heartbeats has not begun")
        case AppendResponse(contradicted=CommittedEntry() as committed):
            _check_claim(message, committed, server)
        case AppendResponse(rejected=True):
            _check_numbers(message, message.rejected_index, message.hint_index, message.hint_term)
        case AppendResponse() if not 0 <= message.match <= server.log.last_index:
            raise InvalidMessage(message.sender, f"entry {message.match} was acknowledged, and was never sent")
        case SnapshotResponse(installed=True) if not 0 <= message.index <= server.commit:
            raise InvalidMessage(message.sender, f"a snapshot at entry {message.index} was never sent")
        case SnapshotResponse():
            _check_numbers(message, message.index, message.received)


def _check_claim(message: RaftMessage, committed: CommittedEntry, server: Server) -> None:
    """Check that the entry can be committed, and that this leader's log contradicts it. If only the bytes of the two
    entries differ, the driver has compared the chains."""
    index, term, log = committed.index, committed.term, server.log
    _check_numbers(message, index, term)
    if index < 1 or not 1 <= term <= message.term:
        raise InvalidMessage(message.sender, f"entry {index} of term {term} cannot be committed in term {message.term}")
    if log.holds(index, term) and not committed.chain:
        raise InvalidMessage(message.sender, f"this leader does not contradict entry {index} of term {term}")


def _check_numbers(message: RaftMessage, *numbers: int) -> None:
    for number in numbers:
        if not 0 <= number <= MAX_NUMBER:
            raise InvalidMessage(message.sender, f"{number} is no index of an entry and no number of bytes")
