"""What a node tells others must be true of it when it says so: what it holds, whom it voted for, that it may stand.

    acknowledgement       what it says that it holds is flushed (`sync`), or at least in its log (`async`)
    vote                  is on its disk
    request for votes     its own vote is on its disk, and a majority has said that it would vote for it (pre-vote)
    leadership            it heard a majority lately (check-quorum)

The one idea: a broken promise does harm only when something else goes wrong too, later, and somewhere else; looked at
when it is made, it shows at once. Promises of the real core, judged by what the simulated disk and network know.

They are judged in runs that have faults: one without any shows whether the code works at all, broken promises or not.

Must not know: what follows from a promise.
"""

from __future__ import annotations

from chaos.sim.invariants import Invariants
from chaos.sim.protocol_node import ProtocolNode
from chaos.sim.swarm import Options
from raft.core import (
    AppendResponse,
    BaseResponse,
    HeartbeatResponse,
    Message,
    Raft,
    Role,
    VoteRequest,
    VoteResponse,
)
from raft.core.quorum import majority

PATIENCE = 2
"""In election timeouts: how long a leader may go on without having heard a majority; it gives up after one."""


class Promises:
    def __init__(self, invariants: Invariants, options: Options) -> None:
        self._fail = invariants.fail if options.has_faults else _nobody
        self._sync = options.sync
        self._patience = PATIENCE * options.election_ticks
        self._would_vote: dict[tuple[int, int], set[int]] = {}
        """(candidate, term) -> who has told it that it would vote for it."""
        self._ticks: dict[int, int] = {}
        """Node -> its ticks since it became leader, or was started."""
        self._heard: dict[int, dict[int, int]] = {}
        """Leader -> voter -> the leader's tick at which it was heard last."""

    def sends(self, node: ProtocolNode, message: Message) -> None:
        match message:
            case AppendResponse(rejected=False):
                self._holds(node, message.match)
            case VoteResponse(granted=True, pre=False):
                self._has_saved(node, message.term, message.receiver)
            case VoteRequest(pre=False):
                self._has_saved(node, message.term, node.node)
                if not message.transfer:
                    self._was_encouraged(node, message.term)

    def receives(self, node: ProtocolNode, message: Message) -> None:
        match message:
            case VoteResponse(granted=True, pre=True):
                self._would_vote.setdefault((node.node, message.term), set()).add(message.sender)
            case AppendResponse() | HeartbeatResponse() | BaseResponse():
                if message.term == node.driver.raft.term:
                    self._heard.setdefault(node.node, {})[message.sender] = self._ticks.get(node.node, 0)

    def ticks(self, node: ProtocolNode) -> None:
        """A tick of that node has been handled."""
        raft = node.driver.raft
        if raft.role is not Role.LEADER:
            self._ticks[node.node] = 0
            self._heard.pop(node.node, None)
            return
        now = self._ticks[node.node] = self._ticks.get(node.node, 0) + 1
        if now > self._patience and not self._hears_majority(raft, now):
            self._fail("check-quorum", f"node {node.node} leads term {raft.term} without having heard a majority")

    def touched(self, node: ProtocolNode) -> None:
        """Something happened to that node."""
        if self._sync and node.driver.raft.durable > node.log.flushed:
            held, flushed = node.driver.raft.durable, node.log.flushed
            self._fail("held as promised", f"node {node.node} counts {held} as held, {flushed} is flushed")

    def _holds(self, node: ProtocolNode, match: int) -> None:
        held = node.log.flushed if self._sync else node.log.last_index
        if match > held:
            self._fail("acknowledged what it holds", f"node {node.node} acknowledges {match}, and holds {held}")

    def _has_saved(self, node: ProtocolNode, term: int, voted_for: int) -> None:
        saved = node.votes.saved
        if (saved.term, saved.voted_for) != (term, voted_for):
            told = f"its vote for {voted_for} in term {term}"
            self._fail("voted what it saved", f"node {node.node} tells of {told}, its disk has {saved}")

    def _was_encouraged(self, node: ProtocolNode, term: int) -> None:
        voters = node.driver.raft.configuration.voters
        would = self._would_vote.get((node.node, term), set()) | {node.node}
        if len(would.intersection(voters)) < majority(voters):
            self._fail("pre-vote", f"node {node.node} stands in term {term}; only {sorted(would)} would vote for it")

    def _hears_majority(self, raft: Raft, now: int) -> bool:
        heard = self._heard.get(raft.node, {})
        voters = raft.configuration.voters
        lately = [voter for voter in voters if voter == raft.node or now - heard.get(voter, -now) <= self._patience]
        return len(lately) >= majority(voters)


def _nobody(invariant: str, what: str) -> None:
    """Nobody minds."""
