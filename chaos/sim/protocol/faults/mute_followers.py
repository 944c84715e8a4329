"""The fault `mute_followers`: the followers of a leader hear it and answer its heartbeats, but their acknowledgements
do not arrive at this leader.

The cluster promises that such a leader steps down: it opens the streams of entries again after 2, 4 and 8 election
timeouts, and then leaves. Another leader is not concerned by the fault, so writes go on.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of, leader_of
from chaos.sim.protocol.faults.promised_fault import FaultTools, PromisedFault
from chaos.sim.protocol.node import ProtocolNode
from raft.core import AppendResponse, HeartbeatResponse, RaftMessage, Role
from raft.core.quorum import majority

# 2, 4 and 8 election timeouts, and one more for each of them.
PATIENCE_TIMEOUTS = 17
# A heartbeat is answered if its answer came within this many heartbeat intervals.
ANSWERED_HEARTBEATS = 2


class _Muted:
    """A leader in one term whose followers are mute."""

    def __init__(self, leader: ProtocolNode, followers: list[int]) -> None:
        self.leader = leader
        self.life, self.term = leader.life, leader.driver.raft.term
        self.followers = followers
        # Whether it waits longer than promised, because it has opened a stream again before the fault.
        self.is_patient = False
        # The ticks in which every mute follower answered heartbeats, owed nothing, and an entry was not committed.
        self.ticks = 0
        self.commit = 0
        # Follower -> the ticks since its last answer to a heartbeat, which said that it owes nothing.
        self.answered: dict[int, int] = {}


class MuteFollowers(PromisedFault):
    kind = "mute_followers"

    def __init__(self, tools: FaultTools) -> None:
        super().__init__(tools)
        # Leader -> its newest fault.
        self._muted: dict[int, _Muted] = {}
        # (leader, process, term) in which a stream was opened again. From then on the leader waits longer.
        self._patient: set[tuple[int, int, int]] = set()

    def fire(self, event: FaultEvent) -> bool:
        leader = leader_of(self.tools.nodes)
        if leader is None or leader.node in self._muted:
            return False
        voters = leader.driver.raft.configuration.voters
        others = [voter for voter in voters if voter != leader.node]
        enough = len(voters) - majority(voters) + 1
        if leader.node not in voters or len(others) < enough:
            return False
        muted = _Muted(leader, sorted(chance_of(event).sample(others, enough)))
        muted.is_patient = (leader.node, muted.life, muted.term) in self._patient
        self._muted[leader.node] = muted
        for follower in muted.followers:
            self.tools.node(follower).unheard.add(leader.node)
        self.tools.loop.call_later(event.for_ms / 1000, self._end, muted)
        return True

    def heal(self) -> None:
        for muted in list(self._muted.values()):
            self._end(muted)

    def _end(self, muted: _Muted) -> None:
        if self._muted.get(muted.leader.node) is muted:
            del self._muted[muted.leader.node]
            for follower in muted.followers:
                self.tools.node(follower).unheard.discard(muted.leader.node)

    def reopened(self, node: ProtocolNode, peer: int) -> None:
        self._patient.add((node.node, node.life, node.driver.raft.term))

    def receives(self, node: ProtocolNode, message: RaftMessage) -> None:
        muted = self._muted.get(node.node)
        if muted is None or message.sender not in muted.followers or message.term != node.driver.raft.term:
            return
        if isinstance(message, HeartbeatResponse) and message.owes_nothing:
            muted.answered[message.sender] = 0
        elif isinstance(message, HeartbeatResponse | AppendResponse):  # sent before the fault, or it owes an answer
            muted.ticks = 0

    def ticked(self, node: ProtocolNode) -> None:
        muted = self._muted.get(node.node)
        if muted is None:
            return
        raft, options = node.driver.raft, self.tools.options
        if muted.is_patient or (node.life, raft.term, raft.role) != (muted.life, muted.term, Role.LEADER):
            return
        waits = raft.durable > raft.commit == muted.commit
        muted.commit = raft.commit
        for follower in muted.answered:
            muted.answered[follower] += 1
        most = ANSWERED_HEARTBEATS * options.heartbeat_ticks
        heard = [each for each in muted.followers if muted.answered.get(each, most + 1) <= most]
        if not waits or not set(muted.followers) <= set(raft.configuration.voters):
            muted.ticks = 0
        elif len(heard) == len(muted.followers):
            muted.ticks += 1
        if muted.ticks > PATIENCE_TIMEOUTS * options.election_ticks:
            self.tools.invariants.fail(
                "without acknowledgements, a leader steps down",
                f"node {node.node} leads term {raft.term} for {muted.ticks} ticks; nodes {muted.followers} are mute",
            )
