"""The fault `answers_before_loss`: a follower loses power under `async`, and what it answered before arrives after its
leader has heard that it is a suspect.

    answers of the follower     kept back ........ power cut, start, "I am a suspect" ..... the answers arrive
    entries for the follower                                        do not arrive ......................... arrive
    acknowledgements of others  get lost ............................................................ arrive

So the leader knows a follower that has lost entries, gets proofs of its earlier state, and could commit or trust only
with them. It must do neither.
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of, leader_of
from chaos.sim.protocol.faults.promised_fault import FaultTools, PromisedFault
from chaos.sim.protocol.node import ProtocolNode
from raft.core import Append, AppendResponse, HeartbeatResponse, RaftMessage

# How long the follower is without power, in ms.
DOWN_MS = (0, 0, 50, 500)
# Most answers that are kept back. Later ones arrive.
MOST_KEPT = 64


class AnswersBeforeLoss(PromisedFault):
    kind = "answers_before_loss"

    def __init__(self, tools: FaultTools) -> None:
        super().__init__(tools)
        # The follower that loses power, and its leader. 0: the fault waits for an event.
        self._follower, self._leader = 0, 0
        self._down_ms = 0
        # How many times the fault has begun.
        self._number = 0
        # The answers of the follower before its power cut.
        self._kept: list[tuple[RaftMessage, Callable[[], None]]] = []
        # Whether the power was cut, and whether the leader has heard of it.
        self._is_cut = self._is_known = False

    def fire(self, event: FaultEvent) -> bool:
        leader = leader_of(self.tools.nodes)
        if self._follower or self.tools.options.sync or leader is None or leader.raft is None or leader.paused:
            return False
        random = chance_of(event)
        voters = [self.tools.node(each) for each in sorted(leader.raft.configuration.voters)]
        followers = [each for each in voters if each is not leader and each.alive and not each.suspect]
        followers = [each for each in followers if not each.paused and self.tools.may_lose([each])]
        if not followers:
            return False
        follower = random.choice(followers)
        self._follower, self._leader, self._down_ms = follower.node, leader.node, random.choice(DOWN_MS)
        for other in voters:
            if other not in (leader, follower):
                other.unheard.add(leader.node)
        self._number += 1
        self.tools.loop.call_later(event.for_ms / 1000, self._end, self._number)
        return False  # counted when answers from before the power cut have arrived

    def keeps_back(self, node: ProtocolNode, message: RaftMessage, deliver: Callable[[], None]) -> bool:
        if not self._follower or len(self._kept) >= MOST_KEPT:
            return False
        if self._is_cut:
            is_for_follower = (node.node, message.receiver) == (self._leader, self._follower)
            return is_for_follower and isinstance(message, Append) and message.last_index > message.prev_index
        if (node.node, message.receiver) != (self._follower, self._leader):
            return False
        if isinstance(message, AppendResponse | HeartbeatResponse):
            self._kept.append((message, deliver))
            self.tools.loop.call_soon(self._cut_power)
            return True
        return False

    def _cut_power(self) -> None:
        """Cut the power if the answers that were kept back prove what the leader does not know yet."""
        if self._is_cut or not self._follower:
            return
        follower, leader = self.tools.node(self._follower), self.tools.node(self._leader)
        if not follower.alive or leader.raft is None or not self.tools.may_lose([follower]):
            return
        kinds = {type(message) for message, _ in self._kept}
        if kinds == {AppendResponse, HeartbeatResponse} and leader.log.last_index > leader.raft.commit:
            self._is_cut = True
            follower.cut_power()
            self.tools.start_later(follower, self._down_ms)

    def receives(self, node: ProtocolNode, message: RaftMessage) -> None:
        is_told = (message.sender, node.node) == (self._follower, self._leader) and self._is_cut and not self._is_known
        if is_told and isinstance(message, AppendResponse | HeartbeatResponse) and message.suspicion:
            self._is_known = True
            self.tools.loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        # Answers to heartbeats first: they could end the suspicion, and then the acknowledgements would count.
        for kind in (HeartbeatResponse, AppendResponse):
            for message, deliver in self._kept:
                if isinstance(message, kind):
                    deliver()
        if self._kept:
            self.tools.happened(self.kind)

    def _end(self, number: int) -> None:
        if number != self._number or not self._follower:
            return  # it has ended already
        if not self._is_cut:
            for _, deliver in self._kept:
                deliver()
        for node in self.tools.nodes:
            node.unheard.discard(self._leader)
        self._follower = self._leader = 0
        self._kept.clear()
        self._is_cut = self._is_known = False

    def heal(self) -> None:
        self._end(self._number)
