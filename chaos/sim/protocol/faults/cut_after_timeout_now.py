"""The fault `cut_after_timeout_now`: a leader hands leadership over, and is cut off from the other nodes at the moment
at which its successor hears that it should stand for election.

The old leader does not hear of the new term, and clients read from it meanwhile. No read may miss an entry that the
successor has committed.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.network_faults import links_of
from chaos.sim.engine.targets import chance_of, leader_of
from chaos.sim.protocol.faults.promised_fault import FaultTools, PromisedFault
from chaos.sim.protocol.node import ProtocolNode
from raft.core import RaftMessage, Refusal, TimeoutNow

# When clients read everywhere, in s after the cut.
READS_S = (0.0, 0.1, 0.3, 0.6, 1.0, 2.0)


class CutAfterTimeoutNow(PromisedFault):
    kind = "cut_after_timeout_now"

    def __init__(self, tools: FaultTools) -> None:
        super().__init__(tools)
        # Leader -> how long to cut it off when it has told a successor, in s.
        self._waiting: dict[int, float] = {}
        # The links that are cut, for each leader.
        self._cut: dict[int, list[tuple[int, int]]] = {}

    def fire(self, event: FaultEvent) -> bool:
        leader = leader_of(self.tools.nodes)
        if leader is None or leader.raft is None or leader.paused:
            return False
        if leader.node in self._waiting or leader.node in self._cut:
            return False
        others = [voter for voter in sorted(leader.raft.configuration.voters) if voter != leader.node]
        if not others:
            return False
        to = chance_of(event).choice(others)
        self._waiting[leader.node] = event.for_ms / 1000
        if not leader.ask(lambda: leader.driver.transfer(to), Refusal):
            self._waiting.pop(leader.node, None)
        return False  # counted when the leader is cut off

    def receives(self, node: ProtocolNode, message: RaftMessage) -> None:
        if isinstance(message, TimeoutNow) and message.sender in self._waiting:
            self._cut_off(message.sender, self._waiting.pop(message.sender))

    def _cut_off(self, leader: int, seconds: float) -> None:
        self._cut[leader] = links_of(leader, self.tools.nodes)
        self.tools.network.cut_links(self._cut[leader])
        for after_s in READS_S:
            self.tools.loop.call_later(after_s, self.tools.read_everywhere)
        self.tools.loop.call_later(seconds, self._mend, leader)
        self.tools.happened(self.kind)

    def _mend(self, leader: int) -> None:
        self.tools.network.mend_links(self._cut.pop(leader, []))

    def heal(self) -> None:
        self._waiting.clear()
        for leader in sorted(self._cut):
            self._mend(leader)
