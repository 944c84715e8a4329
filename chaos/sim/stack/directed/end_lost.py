"""The fault `end_lost`: a leader that was cut off stops in order, and while it is down, its disk loses the last entries
of its log.

Nobody else has these entries, and no checkpoint has them, because they are not committed. Only the mark of the orderly
stop says that they were there.
"""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.network_faults import links_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode


class EndLost(DirectedFault):
    kind = "end_lost"

    def __init__(self, tools: DirectedTools) -> None:
        super().__init__(tools)
        # The links that are cut.
        self._cut: list[tuple[int, int]] = []

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        leader = self.tools.leader(shard)
        if leader is None or self._cut or not self.tools.power.may_miss(leader):
            return False
        self._cut = links_of(leader.node, self.tools.nodes)
        self.tools.network.cut_links(self._cut)
        self.tools.loop.call_later(event.for_ms / 1000, self._stop, shard, leader, leader.process)
        return False  # counted when the entries are lost

    def _stop(self, shard: int, node: StackNode, process: object) -> None:
        replica = node.part(shard).replica
        is_same = self._cut and process is not None and node.process is process
        has_more = replica is not None and replica.driver.raft.commit < replica.log.last_index
        if is_same and has_more and self.tools.power.may_miss(node):
            self.tools.damages.lose_end(node, shard, self.tools.power.can_do_without)
        self.heal()

    def heal(self) -> None:
        self.tools.network.mend_links(self._cut)
        self._cut = []
