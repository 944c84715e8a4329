"""The fault `mute_followers`: the followers of a leader hear it and answer its heartbeats, but their acknowledgements
do not arrive at this leader.

The leader must leave, so that another leader, which the fault does not concern, serves the shard. The protocol world
checks when it leaves. Here a leader that leads the same term for a minute, and commits nothing of what it has, has not
left.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode
from raft.core import Raft, Role
from raft.core.quorum import majority

# A leader leaves after 14 election timeouts, and three more for its attempts to open the streams again. On a slow
# clock that takes longer.
PATIENCE_TIMEOUTS = 30
LOOK_S = 1.0


class StackMuteFollowers(DirectedFault):
    kind = "mute_followers"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # (shard, leader) -> its mute followers.
        self._mute: dict[tuple[int, int], list[StackNode]] = {}

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        leader, roster = self.tools.leader(shard), self.tools.rosters.of(shard)
        if leader is None or (shard, leader.node) in self._mute:
            return False
        voters = roster.voters
        others = [voter for voter in voters if voter is not leader]
        enough = len(voters) - majority([voter.node for voter in voters]) + 1
        if leader not in voters or len(others) < enough:
            return False
        mute = self._mute[shard, leader.node] = chance_of(event).sample(others, enough)
        for follower in mute:
            follower.transit.unheard.add((shard, leader.node))
        self.tools.loop.call_later(event.for_ms / 1000, self._end, shard, leader.node)
        raft = leader.part(shard).raft
        assert raft is not None
        self._look(shard, leader, raft, raft.term, raft.commit, 0.0)
        return True

    def _look(self, shard: int, leader: StackNode, raft: Raft, term: int, commit: int, waited_s: float) -> None:
        """Look once a second whether the leader leads on although it commits nothing."""
        key = (shard, leader.node)
        mute = self._mute.get(key, [])
        if not mute or leader.part(shard).raft is not raft or (raft.role, raft.term) != (Role.LEADER, term):
            return
        answers = all(each.alive and each.process is not None and not each.process.life.paused for each in mute)
        waits = raft.commit == commit and raft.durable > commit and answers
        waited_s = waited_s + LOOK_S if waits else 0.0
        options = self.tools.options
        if waited_s > PATIENCE_TIMEOUTS * options.election_ticks * options.tick_ms / 1000:
            what = (
                f"node {leader.node} leads shard {shard} in term {term} for {waited_s:.0f} s, and nothing is committed"
            )
            self.tools.fail("without acknowledgements, a leader steps down", what)
            return
        self.tools.loop.call_later(LOOK_S, self._look, shard, leader, raft, term, raft.commit, waited_s)

    def _end(self, shard: int, leader: int) -> None:
        for follower in self._mute.pop((shard, leader), []):
            follower.transit.unheard.discard((shard, leader))

    def heal(self) -> None:
        for shard, leader in list(self._mute):
            self._end(shard, leader)
