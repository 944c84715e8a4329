"""The fault `move_replicas`: an operator drains nodes, ends drains, balances replicas and pauses their moves, and the
cluster replaces replicas on nodes that were silent for some seconds."""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault
from chaos.sim.stack.node import StackNode


class ReplicaMoves(DirectedFault):
    kind = "move_replicas"

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        self.tools.operator.place(chance_of(event))
        return False  # counted when the cluster has confirmed it
