"""The fault `coordinator_moved`: an operator moves the coordinator of a consumer group to another shard."""

from __future__ import annotations

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault
from chaos.sim.stack.node import StackNode


class CoordinatorMoved(DirectedFault):
    kind = "coordinator_moved"

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        self.tools.consumption.move_coordinator(shard, chance_of(event))
        return False  # counted when the cluster confirms it

    def heal(self) -> None:
        self.tools.happened[self.kind] += self.tools.consumption.coordinators_moved
