"""What faults of a leader that was cut off have in common: its log gets entries that no other node has.

the leader is cut off from the other nodes ──> some time later, the fault strikes it ──> the links are mended
"""

from __future__ import annotations

from random import Random

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.network_faults import links_of
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault, DirectedTools
from chaos.sim.stack.node import StackNode


class CutOffLeader(DirectedFault):
    """A fault of a leader that was cut off. It is counted when `strike` has had its effect."""

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
        self.tools.loop.call_later(
            event.for_ms / 1000, self._carry_out, shard, leader, leader.process, chance_of(event)
        )
        return False

    def strike(self, shard: int, node: StackNode, random: Random) -> None:
        """Strike the node that was cut off, and that the other nodes can work without. It runs the same process."""
        raise NotImplementedError

    def _carry_out(self, shard: int, node: StackNode, process: object, random: Random) -> None:
        is_same = process is not None and node.process is process
        if self._cut and is_same and self.tools.power.may_miss(node):
            self.strike(shard, node, random)
        self.heal()

    def heal(self) -> None:
        self.tools.network.mend_links(self._cut)
        self._cut = []
