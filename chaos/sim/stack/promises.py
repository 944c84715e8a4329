"""Checks each promise that a node makes to other nodes. For example, an acknowledgement promises that entries are on
the disk. When a node makes a promise in a message, what it promises must already be true.

    acknowledgement       the acknowledged entries are flushed (`sync`), or at least in the log (`async`)
    vote                  the vote is on disk; a suspect node votes only if every voter votes
    request for votes     the node's own vote is on disk, and a majority would vote for it (pre-vote)
    leadership            the leader has recently heard from a majority (check-quorum)
    commit                a leader counts replicas only for entries of its own term (section 5.4.2)
    another configuration one voter changes at a time, after the last change and an entry of the term are committed

If a node breaks a promise, for example acknowledges entries that are not on its disk, data is lost only if another
fault follows. Because the simulator checks a promise when the node makes it, the check finds a broken promise even if
no other fault follows. The checks compare the messages of the real Raft core with the state of the simulated disk and
network.

Promises are checked only in runs with faults. The purpose of a run without faults is only to show that the code works
when no fault happens.
"""

from __future__ import annotations

from chaos.sim.campaign.swarm import Options
from chaos.sim.invariants import Invariants
from chaos.sim.protocol.node import ProtocolNode
from raft.core import (
    AppendResponse,
    Configuration,
    HeartbeatResponse,
    Raft,
    RaftMessage,
    Role,
    SnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from raft.core.quorum import majority

# How many election timeouts a leader may lead without hearing from a majority. It should give up after one.
PATIENCE = 2


class Promises:
    """Checks that the messages of all nodes in one shard promise only what is true."""

    def __init__(self, invariants: Invariants, options: Options) -> None:
        self._fail = invariants.fail if options.has_faults else _ignore_violation
        self._sync = options.sync
        self._patience = PATIENCE * options.election_ticks
        # (candidate, term) -> nodes that promised their vote.
        self._would_vote: dict[tuple[int, int], set[int]] = {}
        # (candidate, term) for which every voter promised its vote.
        self._unanimous: set[tuple[int, int]] = set()
        # Node -> ticks since it became leader or started.
        self._ticks: dict[int, int] = {}
        # Leader -> voter -> the leader's tick when it last heard from the voter.
        self._heard: dict[int, dict[int, int]] = {}
        # Leader -> term, commit, index of the newest configuration, and that configuration, at the last check.
        self._leads: dict[int, tuple[int, int, int, Configuration]] = {}

    def sends(self, node: ProtocolNode, message: RaftMessage) -> None:
        match message:
            case AppendResponse(rejected=False):
                self._holds(node, message.match)
            case VoteResponse(granted=True, pre=False):
                self._has_saved(node, message.term, message.receiver)
                self._may_vote(node, message)
            case VoteRequest(pre=False):
                self._has_saved(node, message.term, node.node)
                if not message.transfer:
                    self._was_encouraged(node, message.term)

    def receives(self, node: ProtocolNode, message: RaftMessage) -> None:
        match message:
            case VoteRequest(unanimous=True):
                self._unanimous.add((message.sender, message.term))
            case VoteResponse(granted=True, pre=True):
                self._would_vote.setdefault((node.node, message.term), set()).add(message.sender)
            case AppendResponse() | HeartbeatResponse() | SnapshotResponse():
                if message.term == node.driver.raft.term:
                    self._heard.setdefault(node.node, {})[message.sender] = self._ticks.get(node.node, 0)

    def ticks(self, node: ProtocolNode) -> None:
        """Check, after a tick of the node, that a leader has recently heard from a majority."""
        raft = node.driver.raft
        if raft.role is not Role.LEADER:
            self._ticks[node.node] = 0
            self._heard.pop(node.node, None)
            return
        now = self._ticks[node.node] = self._ticks.get(node.node, 0) + 1
        if now > self._patience and not self._hears_majority(raft, now):
            self._fail("check-quorum", f"node {node.node} leads term {raft.term} but has not heard from a majority")

    def touched(self, node: ProtocolNode) -> None:
        """After an event of the node, check that what the node has promised is true."""
        raft = node.driver.raft
        if self._sync and raft.durable > node.log.flushed:
            held, flushed = raft.durable, node.log.flushed
            self._fail("held as promised", f"node {node.node} counts entry {held} as held; flushed is {flushed}")
        if raft.role is Role.LEADER:
            self._led(node, raft)
        else:
            self._leads.pop(node.node, None)

    def _led(self, node: ProtocolNode, raft: Raft) -> None:
        """Check which entries and configurations a leader has committed or appended since the last check of this
        leader."""
        now = (raft.term, raft.commit, raft.configuration_index, raft.configuration)
        before = self._leads.get(node.node)
        self._leads[node.node] = now
        if before is None or before == now or before[0] != raft.term:
            return
        _, commit, index, configuration = before
        if raft.commit > commit and node.log.term(raft.commit) != raft.term:
            self._fail("commit by counting", f"node {node.node} leads term {raft.term} and commits entry {raft.commit}")
        if raft.configuration_index > index:
            self._changed(node, commit, index, configuration)

    def _changed(self, node: ProtocolNode, commit: int, index: int, before: Configuration) -> None:
        raft = node.driver.raft
        if not raft.configuration.is_one_step_from(before):
            self._fail("one voter at a time", f"node {node.node} changes from {before} to {raft.configuration}")
        if index > commit or node.log.term(commit) != raft.term:
            self._fail("one change at a time", f"node {node.node} changes members but has committed only {commit}")

    def _holds(self, node: ProtocolNode, match: int) -> None:
        held = node.log.flushed if self._sync else node.log.last_index
        if match > held:
            self._fail("acknowledged what it holds", f"node {node.node} acknowledges entry {match} but holds {held}")

    def _has_saved(self, node: ProtocolNode, term: int, voted_for: int) -> None:
        saved = node.votes.saved
        if (saved.term, saved.voted_for) != (term, voted_for):
            told = f"its vote for {voted_for} in term {term}"
            self._fail("voted what it saved", f"node {node.node} reports {told}, but its disk has {saved}")

    def _may_vote(self, node: ProtocolNode, vote: VoteResponse) -> None:
        if node.driver.raft.is_suspect and (vote.receiver, vote.term) not in self._unanimous:
            self._fail("suspects do not vote", f"suspect {node.node} votes for {vote.receiver} in term {vote.term}")

    def _was_encouraged(self, node: ProtocolNode, term: int) -> None:
        voters = node.driver.raft.configuration.voters
        would = self._would_vote.get((node.node, term), set()) | {node.node}
        if len(would.intersection(voters)) < majority(voters):
            self._fail("pre-vote", f"node {node.node} stands in term {term} with promises only of {sorted(would)}")

    def _hears_majority(self, raft: Raft, now: int) -> bool:
        heard = self._heard.get(raft.node, {})
        voters = raft.configuration.voters
        lately = [voter for voter in voters if voter == raft.node or now - heard.get(voter, -now) <= self._patience]
        return len(lately) >= majority(voters)


def _ignore_violation(invariant: str, what: str) -> None:
    """Do nothing, as the function that records violations in runs without faults."""
