"""The fault `vote_saved_again`: the leader is killed, and requests for votes arrive several times at each voter.

A voter is asked again for a vote that it is saving or has saved. In some cases it was restarted meanwhile. It may save
the vote again and grant it again, and it must not grant another vote of this term.
"""

from __future__ import annotations

from random import Random

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of, leader_of
from chaos.sim.protocol.faults.promised_fault import FaultTools, PromisedFault
from chaos.sim.protocol.node import ProtocolNode
from raft.core import RaftMessage, VoteRequest

# When a request arrives again, in s.
AGAIN_S = (0.001, 0.02, 0.1, 0.5, 2.0)
# Probability that a voter is killed before a request arrives again.
KILLS = 0.2


class VoteSavedAgain(PromisedFault):
    kind = "vote_saved_again"

    def __init__(self, tools: FaultTools) -> None:
        super().__init__(tools)
        self._until = 0.0
        self._random = Random(0)

    def fire(self, event: FaultEvent) -> bool:
        leader = leader_of(self.tools.nodes)
        if leader is None:
            return False
        self._random = chance_of(event)
        options = self.tools.options
        self._until = self.tools.loop.time() + (event.for_ms + 4 * options.election_ticks * options.tick_ms) / 1000
        self.tools.kill(leader, event.for_ms)
        return False  # counted when a request arrives at a voter that has saved this vote

    def heal(self) -> None:
        self._until = 0.0

    def sends(self, node: ProtocolNode, message: RaftMessage) -> None:
        if self.tools.loop.time() < self._until and isinstance(message, VoteRequest) and not message.pre:
            voter = self.tools.node(message.receiver)
            for after_s in AGAIN_S:
                self.tools.loop.call_later(after_s, self._again, message, voter, voter.incarnation)

    def _again(self, message: VoteRequest, voter: ProtocolNode, incarnation: int) -> None:
        if self._random.random() < KILLS:
            self.tools.kill(voter, 0)
        if voter.alive and (voter.votes.saved.term, voter.votes.saved.voted_for) == (message.term, message.sender):
            self.tools.happened(self.kind)
        voter.receive(message, incarnation)
